//! Messages to values, by the table of types.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::wire::{Reader, Wire};
use super::{DEEPEST, MOST_VALUES, ProtoError, utf8};
use crate::schema::{Kind, Struct, Types};

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Reads one body; counts its values.
pub(super) struct Decoder<'a> {
    types: &'a Types,
    left: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(types: &'a Types) -> Self {
        Self { types, left: MOST_VALUES }
    }

    /// Reads the fields of `strukt` whose numbers begin with `outer`. Fields that come again are joined with what is
    /// there, as protobuf wants it.
    pub(super) fn fields(
        &mut self,
        strukt: &Struct,
        outer: &[u32],
        bytes: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        if depth > DEEPEST {
            return Err(ProtoError::TooLarge);
        }
        let malformed = || ProtoError::Malformed(strukt.name.clone().into_owned());
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field().ok_or_else(malformed)? {
            let path = [outer, &[number]].concat();
            let Some(field) = strukt.fields.iter().find(|field| field.numbers.starts_with(&path)) else { continue };
            if field.numbers.len() > path.len() {
                // A message that JSON does not have: its fields are the outer one's.
                let Wire::Bytes(inner) = wire else { return Err(malformed()) };
                self.fields(strukt, &path, inner, into, depth + 1)?;
                continue;
            }
            let before = into.remove(field.name.as_ref());
            let value = self.field(&field.kind, wire, before, depth).map_err(|error| match error {
                ProtoError::Malformed(place) if place.is_empty() => {
                    ProtoError::Malformed(format!("{}.{}", strukt.name, field.name))
                }
                other => other,
            })?;
            into.insert(field.name.clone().into_owned(), value);
        }
        Ok(())
    }

    /// A field of a message: lists and maps come an entry at a time.
    fn field(&mut self, kind: &Kind, wire: Wire<'_>, before: Option<Value>, depth: usize) -> Result<Value, ProtoError> {
        match kind {
            Kind::List { element, .. } => {
                let mut list = match before {
                    Some(Value::Array(list)) => list,
                    _ => Vec::new(),
                };
                match (element.as_ref(), wire) {
                    (Kind::Int32 | Kind::Int64 | Kind::Bool, Wire::Bytes(packed)) => {
                        let mut packed = Reader::new(packed);
                        while !packed.is_empty() {
                            let number = packed.varint().ok_or_else(nowhere)?;
                            list.push(self.single(element, Wire::Varint(number), None, depth)?);
                        }
                    }
                    _ => list.push(self.single(element, wire, None, depth)?),
                }
                Ok(Value::Array(list))
            }
            Kind::Map { value, .. } => {
                let mut map = match before {
                    Some(Value::Object(map)) => map,
                    _ => Map::new(),
                };
                let Wire::Bytes(bytes) = wire else { return Err(nowhere()) };
                let (mut key, mut found) = (String::new(), None);
                let mut entry = Reader::new(bytes);
                while let Some((number, wire)) = entry.field().ok_or_else(nowhere)? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => key = utf8(text).ok_or_else(nowhere)?,
                        (2, wire) => found = Some(self.map_value(value, wire, depth + 1)?),
                        _ => {}
                    }
                }
                map.insert(key, found.unwrap_or_else(|| self.types.empty(value)));
                Ok(Value::Object(map))
            }
            other => self.single(other, wire, before, depth),
        }
    }

    /// A map's value. A list there is a message with its entries as field 1.
    fn map_value(&mut self, kind: &Kind, wire: Wire<'_>, depth: usize) -> Result<Value, ProtoError> {
        let Kind::List { .. } = kind else { return self.single(kind, wire, None, depth) };
        let mut list = Value::Array(Vec::new());
        let Wire::Bytes(bytes) = wire else { return Err(nowhere()) };
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field().ok_or_else(nowhere)? {
            if number == 1 {
                list = self.field(kind, wire, Some(list), depth)?;
            }
        }
        Ok(list)
    }

    fn single(
        &mut self,
        kind: &Kind,
        wire: Wire<'_>,
        before: Option<Value>,
        depth: usize,
    ) -> Result<Value, ProtoError> {
        self.left = self.left.checked_sub(1).ok_or(ProtoError::TooLarge)?;
        match (kind, wire) {
            (Kind::String, Wire::Bytes(bytes)) => Ok(utf8(bytes).ok_or_else(nowhere)?.into()),
            (Kind::Bytes, Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
            (Kind::Bool, Wire::Varint(number)) => Ok((number != 0).into()),
            #[expect(clippy::cast_possible_truncation, reason = "protobuf cuts to the field's width")]
            (Kind::Int32, Wire::Varint(number)) => Ok((number as i32).into()),
            (Kind::Int64, Wire::Varint(number)) => Ok(number.cast_signed().into()),
            (Kind::Double, Wire::Fixed64(bits)) => {
                Number::from_f64(f64::from_bits(bits)).map(Value::Number).ok_or_else(nowhere)
            }
            (Kind::Struct { id, .. }, Wire::Bytes(bytes)) => {
                let mut object = match before {
                    Some(Value::Object(object)) => object,
                    _ => Map::new(),
                };
                self.fields(self.types.get(*id), &[], bytes, &mut object, depth + 1)?;
                Ok(Value::Object(object))
            }
            (Kind::Quantity, Wire::Bytes(bytes)) => {
                let text = first(bytes, 1)?.map_or(Ok(String::new()), |text| utf8(text).ok_or_else(nowhere))?;
                Ok(text.into())
            }
            (Kind::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes),
            (Kind::Time, Wire::Bytes(bytes)) => time(bytes, 0),
            (Kind::MicroTime, Wire::Bytes(bytes)) => time(bytes, 6),
            (Kind::Raw | Kind::Fields | Kind::Json, Wire::Bytes(bytes)) => match first(bytes, 1)? {
                None | Some([]) => Ok(Value::Null),
                Some(json) => serde_json::from_slice(json).map_err(|_| nowhere()),
            },
            (Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings, Wire::Bytes(bytes)) => {
                self.schema_or(kind, bytes, depth)
            }
            _ => Err(nowhere()),
        }
    }

    /// What is a schema or something simpler. JSON has one in the other's place.
    fn schema_or(&mut self, kind: &Kind, bytes: &[u8], depth: usize) -> Result<Value, ProtoError> {
        let schema = self.types.named(SCHEMA).unwrap_or(Kind::Json);
        let (mut one, mut list, mut allows) = (None, Vec::new(), false);
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field().ok_or_else(nowhere)? {
            match (kind, number) {
                (Kind::SchemaOrBool, 1) => allows = matches!(wire, Wire::Varint(number) if number != 0),
                (Kind::SchemaOrBool, 2) | (Kind::SchemaOrArray | Kind::SchemaOrStrings, 1) => {
                    one = Some(self.single(&schema, wire, one, depth + 1)?);
                }
                (Kind::SchemaOrArray, 2) => list.push(self.single(&schema, wire, None, depth + 1)?),
                (Kind::SchemaOrStrings, 2) => list.push(self.single(&Kind::String, wire, None, depth + 1)?),
                _ => {}
            }
        }
        Ok(match one {
            Some(one) => one,
            None if matches!(kind, Kind::SchemaOrBool) => allows.into(),
            None => Value::Array(list),
        })
    }
}

/// Something is wrong; where, the field above knows.
fn nowhere() -> ProtoError {
    ProtoError::Malformed(String::new())
}

/// The bytes of the last field with this number.
fn first(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtoError> {
    let mut reader = Reader::new(bytes);
    let mut found = None;
    while let Some((number, wire)) = reader.field().ok_or_else(nowhere)? {
        if let (true, Wire::Bytes(bytes)) = (number == wanted, wire) {
            found = Some(bytes);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field().ok_or_else(nowhere)? {
        match field {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            #[expect(clippy::cast_possible_truncation, reason = "protobuf cuts to the field's width")]
            (2, Wire::Varint(value)) => number = value as i32,
            (3, Wire::Bytes(value)) => text = utf8(value).ok_or_else(nowhere)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// A point in time with this many digits after the second. The epoch itself is Go's zero time: null.
fn time(bytes: &[u8], digits: u8) -> Result<Value, ProtoError> {
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field().ok_or_else(nowhere)? {
        match field {
            (1, Wire::Varint(value)) => seconds = value.cast_signed(),
            #[expect(clippy::cast_possible_truncation, reason = "protobuf cuts to the field's width")]
            (2, Wire::Varint(value)) => nanos = value as i32,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = if digits == 0 { 0 } else { nanos };
    let time = Timestamp::new(seconds, nanos).map_err(|_| nowhere())?;
    Ok(match digits {
        0 => format!("{time:.0}").into(),
        _ => format!("{time:.6}").into(),
    })
}
