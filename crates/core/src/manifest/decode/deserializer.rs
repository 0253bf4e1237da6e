//! A node as serde sees it.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error as _, Visitor};

use super::access::{FieldsAccess, ItemsAccess, MapAccessOf};
use super::findings::{Finding, MAX_SHOWN, Notes, Problem, Refused};
use crate::manifest::tree::{Entry, Node, Number, Value};
use crate::validation::{FieldPath, Segment};

/// The way to a node, as a list on the stack; it becomes a [`FieldPath`] only when there is something to say.
pub(super) enum Trail<'t> {
    Base(&'t FieldPath),
    Field(&'t Trail<'t>, &'t str),
    Key(&'t Trail<'t>, &'t str),
    Index(&'t Trail<'t>, usize),
}

impl Trail<'_> {
    pub(super) fn path(&self) -> FieldPath {
        let mut segments = Vec::new();
        self.collect(&mut segments);
        FieldPath::from_segments(segments)
    }

    fn collect(&self, segments: &mut Vec<Segment>) {
        let (parent, segment) = match self {
            Self::Base(base) => return segments.extend_from_slice(base.segments()),
            Self::Field(parent, name) => (parent, Segment::Field((*name).to_owned().into())),
            Self::Key(parent, key) => (parent, Segment::Key((*key).to_owned())),
            Self::Index(parent, index) => (parent, Segment::Index(*index)),
        };
        parent.collect(segments);
        segments.push(segment);
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
pub(super) struct NodeDeserializer<'n, 't> {
    node: &'n Node,
    trail: &'t Trail<'t>,
    notes: &'t RefCell<Notes>,
}

impl<'n, 't> NodeDeserializer<'n, 't> {
    pub(super) fn new(node: &'n Node, trail: &'t Trail<'t>, notes: &'t RefCell<Notes>) -> Self {
        Self { node, trail, notes }
    }

    /// Notes that the value is not what is wanted.
    fn mistyped(&self, wanted: &str) {
        let (shown, hint) = match (&self.node.value, self.notes.borrow().confidential()) {
            (Value::Bool(_, text) | Value::Number(_, text), false) if wanted == "a string" => {
                let quoted =
                    if text.len() <= MAX_SHOWN { format!("quote it: \"{text}\"") } else { "quote it".to_owned() };
                (self.node.kind().to_owned(), Some(quoted))
            }
            (Value::Bool(..) | Value::Number(..), true) if wanted == "a string" => {
                (self.node.kind().to_owned(), Some("quote it".to_owned()))
            }
            (Value::String(text), false) if text.len() <= MAX_SHOWN => {
                let plain = text.trim();
                let scalar = crate::manifest::scalar::resolve(plain);
                let fits = match scalar {
                    Value::Number(Number::Int(_), _) => wanted.contains("integer"),
                    Value::Bool(..) => wanted.contains("boolean"),
                    Value::Null
                    | Value::Number(Number::UInt(_) | Number::Float(_), _)
                    | Value::String(_)
                    | Value::List(_)
                    | Value::Map(_) => false,
                };
                (format!("the string {text:?}"), fits.then(|| "leave out the quotes".to_owned()))
            }
            (Value::Number(_, text), false) if text.len() <= MAX_SHOWN => (format!("the number {text}"), None),
            (
                Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::List(_) | Value::Map(_),
                _,
            ) => {
                let hint = match (&self.node.value, wanted) {
                    (Value::Map(_), "a list") => Some("begin each item with \"- \"".to_owned()),
                    _ => None,
                };
                (self.node.kind().to_owned(), hint)
            }
        };
        self.note(Problem::Mistyped, self.trail.path(), self.node, format!("must be {wanted}, not {shown}"), hint);
    }

    fn note(&self, problem: Problem, path: FieldPath, node: &Node, message: String, hint: Option<String>) {
        self.notes.borrow_mut().note(Finding { problem, at: node.at, path, message, hint });
    }

    fn integer(&self, least: i64, most: i64, wanted: &str) -> i64 {
        let whole = match &self.node.value {
            Value::Null => return 0,
            Value::Number(Number::Int(value), _) => Some(*value),
            // `3.0` is 3 for Kubernetes' tools. The bound keeps the conversion exact.
            Value::Number(Number::Float(value), _) if value.fract() == 0.0 && value.abs() < 9e15 => Some(*value as i64),
            Value::Number(..) | Value::Bool(..) | Value::String(_) | Value::List(_) | Value::Map(_) => None,
        };
        match whole {
            Some(value) if (least..=most).contains(&value) => value,
            Some(_) | None => {
                self.mistyped(wanted);
                0
            }
        }
    }

    fn text(&self, wanted: &str) -> &'n str {
        match &self.node.value {
            Value::String(text) => text,
            Value::Null => "",
            Value::Bool(..) | Value::Number(..) | Value::List(_) | Value::Map(_) => {
                self.mistyped(wanted);
                ""
            }
        }
    }

    /// The entries of an object; none, with a note, of anything else.
    fn entries(&self) -> &'n [Entry] {
        match &self.node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::List(_) => {
                self.mistyped("an object");
                &[]
            }
        }
    }

    /// Gives a text to the type, which may refuse it.
    fn visit_text<'de, V: Visitor<'de>>(&self, text: &str, visitor: V) -> Result<V::Value, Refused> {
        let wanted = expectation(&visitor);
        visitor.visit_str(text).map_err(|refused: Refused| {
            let message = if self.notes.borrow().confidential() {
                format!("must be {wanted}")
            } else {
                format!("must be {wanted}: {refused}")
            };
            Refused::custom(message)
        })
    }
}

/// What a type says that it expects.
fn expectation<'de, V: Visitor<'de>>(visitor: &V) -> String {
    struct Shown<'v, V>(&'v V);
    impl<'de, V: Visitor<'de>> fmt::Display for Shown<'_, V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }
    }
    match Shown(visitor).to_string().as_str() {
        "IntOrString" => "an integer or a string".to_owned(),
        "Quantity" => "a quantity".to_owned(),
        wanted => wanted.to_owned(),
    }
}

/// Integers of every width.
macro_rules! integers {
    ($($method:ident, $visit:ident, $t:ty, $wanted:literal;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            let least = i64::try_from(<$t>::MIN).unwrap_or(i64::MIN);
            let most = i64::try_from(<$t>::MAX).unwrap_or(i64::MAX);
            let value = self.integer(least, most, $wanted);
            visitor.$visit(<$t>::try_from(value).unwrap_or_default())
        }
    )* };
}

impl<'de> Deserializer<'de> for NodeDeserializer<'_, '_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let wanted = expectation(&visitor);
        let result = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value, _) => visitor.visit_bool(*value),
            Value::Number(Number::Int(value), _) => visitor.visit_i64(*value),
            Value::Number(Number::UInt(value), _) => visitor.visit_u64(*value),
            Value::Number(Number::Float(value), _) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(ItemsAccess::new(items, self.trail, self.notes)),
            Value::Map(entries) => visitor.visit_map(MapAccessOf::new(entries, self.trail, self.notes)),
        };
        result.map_err(|refused: Refused| {
            if refused.is_placed() {
                refused
            } else {
                Refused::custom(format!("must be {wanted}, not {}", self.node.kind()))
            }
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let entries = self.entries();
        for entry in entries.iter().filter(|entry| !fields.contains(&entry.key.as_str())) {
            let path = Trail::Field(self.trail, &entry.key).path();
            let finding = Finding::unknown(entry, path, fields);
            self.notes.borrow_mut().note(finding);
        }
        visitor.visit_map(FieldsAccess::new(entries, self.trail, self.notes))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_map(MapAccessOf::new(self.entries(), self.trail, self.notes))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let items = match &self.node.value {
            Value::List(items) => items.as_slice(),
            Value::Null => &[],
            Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::Map(_) => {
                self.mistyped("a list");
                &[]
            }
        };
        visitor.visit_seq(ItemsAccess::new(items, self.trail, self.notes))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::List(_) | Value::Map(_) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_bool(match &self.node.value {
            Value::Bool(value, _) => *value,
            Value::Null => false,
            Value::Number(..) | Value::String(_) | Value::List(_) | Value::Map(_) => {
                self.mistyped("a boolean");
                false
            }
        })
    }

    integers! {
        deserialize_i8, visit_i8, i8, "an 8-bit integer";
        deserialize_i16, visit_i16, i16, "a 16-bit integer";
        deserialize_i32, visit_i32, i32, "a 32-bit integer";
        deserialize_i64, visit_i64, i64, "an integer";
        deserialize_u8, visit_u8, u8, "an integer from 0 to 255";
        deserialize_u16, visit_u16, u16, "an integer from 0 to 65535";
        deserialize_u32, visit_u32, u32, "an integer from 0 to 4294967295";
        deserialize_u64, visit_u64, u64, "a whole number";
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_f64(match &self.node.value {
            Value::Number(Number::Int(value), _) => *value as f64,
            Value::Number(Number::UInt(value), _) => *value as f64,
            Value::Number(Number::Float(value), _) => *value,
            Value::Null => 0.0,
            Value::Bool(..) | Value::String(_) | Value::List(_) | Value::Map(_) => {
                self.mistyped("a number");
                0.0
            }
        })
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.visit_text(self.text("a string"), visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_bytes(self.text("a string").as_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    // Kubernetes' types use none of the following; they are read as they are written.
    serde::forward_to_deserialize_any! { i128 u128 unit unit_struct tuple tuple_struct enum }
}
