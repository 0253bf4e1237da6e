//! A value as Go reads it into a built-in type and writes it again.
//!
//! - Fields that the type does not have are dropped and told.
//! - `null` and zero values of fields that Go would leave out are dropped; what Go always writes is there.
//! - Quantities, times and base64 are checked and written in one form: `1000m` is `1`.
//! - A value of another type is an error in the words of Go's JSON; the first one counts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use minke_core::resources::Amount;
use serde_json::{Map, Value};

use super::MOST_PROBLEMS;
use crate::schema::{Field, Kind, Struct, Types};

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// An object as its type has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    /// The object.
    pub object: Value,
    /// Paths of the fields that its type does not have: `spec.containers[0].imag`. At most a hundred.
    pub unknown: Vec<String>,
}

/// A value that is not of its field's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// JSON of another type.
    #[error("json: cannot unmarshal {given} into Go struct field {place} of type {wanted}")]
    Type {
        /// `string`, `number`, `number 1.5`, …
        given: String,
        /// The innermost type's name and the path without indices: `Container.spec.containers.image`.
        place: String,
        /// Go's type.
        wanted: String,
    },
    /// A text that does not say what it should.
    #[error("{0}")]
    Text(String),
}

/// Reads `value` as an object of the type `kind`.
///
/// # Errors
/// [`TypeError`]: the first value of a wrong type.
pub fn typed(types: &Types, kind: &Kind, value: Value) -> Result<Typed, TypeError> {
    let mut reader = Reader { types, unknown: Vec::new(), path: Vec::new(), owner: "" };
    let object = reader.value(kind, value)?;
    Ok(Typed { object, unknown: reader.unknown })
}

enum Step {
    Name(String),
    Index(usize),
}

struct Reader<'a> {
    types: &'a Types,
    unknown: Vec<String>,
    path: Vec<Step>,
    /// The innermost struct.
    owner: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self, kind: &Kind, value: Value) -> Result<Value, TypeError> {
        match (kind, value) {
            (_, Value::Null) => Ok(self.types.empty(kind)),
            (Kind::Struct { id, .. }, Value::Object(fields)) => {
                let types = self.types;
                let owner = std::mem::replace(&mut self.owner, short(&types.get(*id).name));
                let object = self.fields(types.get(*id), fields);
                self.owner = owner;
                object.map(Value::Object)
            }
            (Kind::Map { value: kind, .. }, Value::Object(entries)) => {
                let mut map = Map::new();
                for (name, value) in entries {
                    let value = self.inside(Step::Name(name.clone()), |reader| reader.value(kind, value))?;
                    map.insert(name, value);
                }
                Ok(Value::Object(map))
            }
            (Kind::List { element, .. }, Value::Array(entries)) => {
                let mut list = Vec::with_capacity(entries.len());
                for (at, entry) in entries.into_iter().enumerate() {
                    list.push(self.inside(Step::Index(at), |reader| reader.value(element, entry))?);
                }
                Ok(Value::Array(list))
            }
            (Kind::String, value @ Value::String(_))
            | (Kind::Bool, value @ Value::Bool(_))
            | (Kind::Double, value @ Value::Number(_))
            | (Kind::Raw | Kind::Fields | Kind::Json, value) => Ok(value),
            (Kind::Int64, Value::Number(number)) if number.is_i64() => Ok(Value::Number(number)),
            (Kind::Int32, Value::Number(number)) if fits(&number) => Ok(Value::Number(number)),
            (Kind::Int32 | Kind::Int64, Value::Number(number)) => Err(self.wrong(kind, &format!("number {number}"))),
            (Kind::Bytes, Value::String(text)) => match STANDARD.decode(&text) {
                Ok(_) => Ok(text.into()),
                Err(error) => Err(TypeError::Text(format!("illegal base64 data: {error}"))),
            },
            (Kind::IntOrString, value @ Value::String(_)) => Ok(value),
            (Kind::IntOrString, Value::Number(number)) if fits(&number) => Ok(Value::Number(number)),
            (Kind::Quantity, Value::String(text)) => quantity(&text),
            (Kind::Quantity, Value::Number(number)) => quantity(&number.to_string()),
            (Kind::Time, Value::String(text)) => time(&text, false),
            (Kind::MicroTime, Value::String(text)) => time(&text, true),
            (Kind::SchemaOrBool, value @ Value::Bool(_)) => Ok(value),
            (Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings, value @ Value::Object(_)) => {
                self.value(&self.schema(), value)
            }
            (Kind::SchemaOrArray, value @ Value::Array(_)) => self.list(self.schema(), value),
            (Kind::SchemaOrStrings, value @ Value::Array(_)) => self.list(Kind::String, value),
            (kind, value) => Err(self.wrong(kind, given(&value))),
        }
    }

    fn schema(&self) -> Kind {
        self.types.named(SCHEMA).unwrap_or(Kind::Json)
    }

    fn list(&mut self, element: Kind, value: Value) -> Result<Value, TypeError> {
        let list = Kind::List { element: Box::new(element), list: crate::schema::ListType::Atomic };
        self.value(&list, value)
    }

    fn fields(&mut self, strukt: &'a Struct, mut given: Map<String, Value>) -> Result<Map<String, Value>, TypeError> {
        let mut object = Map::new();
        for field in &strukt.fields {
            let value = match given.remove(field.name.as_ref()) {
                None | Some(Value::Null) => self.types.unset(field),
                Some(value) => {
                    let step = Step::Name(field.name.clone().into_owned());
                    let value = self.inside(step, |reader| reader.value(&field.kind, value))?;
                    if left_out(field, &value) { self.types.unset(field) } else { Some(value) }
                }
            };
            object.extend(value.map(|value| (field.name.clone().into_owned(), value)));
        }
        if strukt.open {
            object.extend(given);
            return Ok(object);
        }
        for name in given.into_iter().map(|(name, _)| name) {
            if self.unknown.len() < MOST_PROBLEMS {
                self.path.push(Step::Name(name));
                self.unknown.push(self.written(true));
                self.path.pop();
            }
        }
        Ok(object)
    }

    fn inside<T>(&mut self, step: Step, act: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let done = act(self);
        self.path.pop();
        done
    }

    fn written(&self, indices: bool) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(at) if indices => text.push_str(&format!("[{at}]")),
                Step::Index(_) => {}
            }
        }
        text
    }

    fn wrong(&self, kind: &Kind, given: &str) -> TypeError {
        let place = format!("{}.{}", self.owner, self.written(false));
        TypeError::Type { given: given.to_owned(), place, wanted: go_type(self.types, kind) }
    }
}

fn fits(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Whether Go leaves this value of a field out: zero, and not behind a pointer.
fn left_out(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Object(map) => {
            map.is_empty() && (field.omitzero || matches!(field.kind, Kind::Map { .. })) && field.omitempty
        }
        Value::Array(list) => list.is_empty() && field.omitempty,
        Value::String(text) => text.is_empty() && field.omitempty && field.kind == Kind::String,
        Value::Bool(set) => !set && field.omitempty && field.kind == Kind::Bool,
        Value::Number(number) => {
            let number_kind = matches!(field.kind, Kind::Int32 | Kind::Int64 | Kind::Double);
            number.as_f64() == Some(0.0) && field.omitempty && number_kind
        }
    }
}

fn given(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `Pod` of `io.k8s.api.core.v1.Pod`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

fn go_type(types: &Types, kind: &Kind) -> String {
    match kind {
        Kind::String => "string".to_owned(),
        Kind::Bytes => "[]uint8".to_owned(),
        Kind::Bool => "bool".to_owned(),
        Kind::Int32 | Kind::IntOrString => "int32".to_owned(),
        Kind::Int64 => "int64".to_owned(),
        Kind::Double => "float64".to_owned(),
        Kind::Quantity => "resource.Quantity".to_owned(),
        Kind::Time => "v1.Time".to_owned(),
        Kind::MicroTime => "v1.MicroTime".to_owned(),
        Kind::Raw | Kind::Fields | Kind::Json => "interface {}".to_owned(),
        Kind::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
        Kind::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
        Kind::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        Kind::Map { value, .. } => format!("map[string]{}", go_type(types, value)),
        Kind::List { element, .. } => format!("[]{}", go_type(types, element)),
        Kind::Struct { id, .. } => {
            let mut parts = types.get(*id).name.rsplit('.');
            let name = parts.next().unwrap_or_default();
            format!("{}.{name}", parts.next().unwrap_or_default())
        }
    }
}

fn quantity(text: &str) -> Result<Value, TypeError> {
    // An exponent stays one in upstream's form; ours writes the same amount with a suffix.
    let amount = Amount::parse(text.trim()).map_err(|_| {
        let pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
        TypeError::Text(format!("quantities must match the regular expression '{pattern}'"))
    })?;
    Ok(if text.trim().ends_with('i') { amount.to_binary() } else { amount.to_string() }.into())
}

fn time(text: &str, micros: bool) -> Result<Value, TypeError> {
    let time: Timestamp = text.parse().map_err(|_| {
        let layout = if micros { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        TypeError::Text(format!("parsing time {text:?} as {layout:?}: cannot parse it"))
    })?;
    // Cut, not rounded.
    let nanos = time.subsec_nanosecond();
    let cut = if micros { nanos - nanos % 1000 } else { 0 };
    let time = Timestamp::new(time.as_second(), cut).unwrap_or(time);
    Ok(if micros { format!("{time:.6}") } else { format!("{time:.0}") }.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::tests::any_pod;
    use crate::schema::builtin;

    fn read(value: Value) -> Result<Typed, TypeError> {
        typed(builtin(), &builtin().kind("v1", "Pod").unwrap(), value)
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without borrows")]
    fn container(value: Value) -> Result<Value, TypeError> {
        read(json!({"spec": {"containers": [value]}})).map(|typed| typed.object["spec"]["containers"][0].clone())
    }

    #[track_caller]
    fn wrong(value: Value, message: &str) {
        assert_eq!(read(value).unwrap_err().to_string(), message);
    }

    #[test]
    fn what_go_leaves_out_goes_and_what_it_always_writes_is_there() {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": null, "labels": {}, "namespace": ""},
            "spec": {"containers": [{"name": "c", "tty": false, "env": [], "securityContext": {"runAsUser": 0}}], "nodeSelector": null},
        });
        assert_eq!(
            read(pod).unwrap().object,
            json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "resources": {}, "securityContext": {"runAsUser": 0}}]},
                "status": {},
            })
        );
    }

    #[test]
    fn quantities_and_times_are_written_in_one_form() {
        let limits = json!({"name": "c", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "x": 2}}});
        assert_eq!(container(limits).unwrap()["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi", "x": "2"}));
        let time = read(json!({"metadata": {"creationTimestamp": "2026-01-01T02:00:00.9+02:00"}})).unwrap();
        assert_eq!(time.object["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
        let lease = builtin().kind("coordination.k8s.io/v1", "Lease").unwrap();
        let lease = typed(builtin(), &lease, json!({"spec": {"renewTime": "2026-01-01T00:00:00.1234567Z"}})).unwrap();
        assert_eq!(lease.object["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    }

    #[test]
    fn unknown_fields_are_told_with_their_path() {
        let typed = read(json!({"spec": {"foo": 1, "containers": [{"name": "a"}, {"name": "c", "imag": {}}]}, "x": 1}))
            .unwrap();
        assert_eq!(typed.unknown, ["spec.containers[1].imag", "spec.foo", "x"]);
    }

    #[test]
    fn wrong_types_are_told_in_the_words_of_go() {
        wrong(
            json!({"spec": {"hostNetwork": "yes"}}),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        );
        wrong(
            json!({"spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": 1}]}]}}),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
        );
        wrong(
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        );
        wrong(
            json!({"spec": {"priority": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        );
        wrong(
            json!({"metadata": {"labels": ["a"]}}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        );
        wrong(
            json!({"spec": {"priority": 3_000_000_000_u32}}),
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        );
        let limits = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}});
        assert!(matches!(read(limits), Err(TypeError::Text(message)) if message.starts_with("quantities must match")));
        assert!(matches!(read(json!({"metadata": {"creationTimestamp": "now"}})), Err(TypeError::Text(_))));
        let secret = builtin().kind("v1", "Secret").unwrap();
        assert!(matches!(typed(builtin(), &secret, json!({"data": {"a": "?"}})), Err(TypeError::Text(_))));
    }

    #[test]
    fn int_or_string_takes_both_and_nothing_else() {
        let port = |port: Value| container(json!({"livenessProbe": {"tcpSocket": {"port": port}}}));
        assert_eq!(port(json!(80)).unwrap()["livenessProbe"]["tcpSocket"]["port"], 80);
        assert_eq!(port(json!("web")).unwrap()["livenessProbe"]["tcpSocket"]["port"], "web");
        assert!(port(json!(true)).is_err() && port(json!(1.5)).is_err());
    }

    #[test]
    fn schemas_of_definitions_are_read_all_the_way_down() {
        let kind = builtin().named(SCHEMA).unwrap();
        let schema = json!({"properties": {"a": {"items": {"typ": "x"}, "additionalProperties": false}}, "default": {"any": [1]}});
        let typed = typed(builtin(), &kind, schema).unwrap();
        assert_eq!(typed.unknown, ["properties.a.items.typ"]);
        assert_eq!(typed.object["properties"]["a"], json!({"items": {}, "additionalProperties": false}));
        assert_eq!(typed.object["default"], json!({"any": [1]}));
    }

    proptest! {
        #[test]
        fn read_again_it_is_the_same(pod in any_pod()) {
            let once = read(pod).unwrap();
            let twice = read(once.object.clone()).unwrap();
            prop_assert_eq!(&twice.object, &once.object);
            prop_assert!(twice.unknown.is_empty());
        }
    }
}
