//! How a value is cut into fields: by its type, and by what it is where the type says nothing.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::step::Step;
use crate::schema::{Kind, ListType, Struct, Types};

/// What there is to own of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    /// It as a whole.
    Leaf,
    /// Its fields, declared or not.
    Struct(&'a Struct),
    /// Its values, each of one type.
    Map(&'a Kind),
    /// Its entries, by value.
    Set(&'a Kind),
    /// Its entries, by the fields that tell them apart.
    Keyed(&'a [Cow<'static, str>], &'a Kind),
}

/// A list's entry that has no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nameless {
    #[error("associative list with keys may not have non-map elements")]
    NoObject,
    #[error(
        "associative list with keys has an element that omits all key fields {0:?} (and doesn't have default values for \
         any key fields)"
    )]
    NoKeys(Vec<String>),
}

impl<'a> Shape<'a> {
    /// The shape of values of a type; of `values`, where the type leaves it open.
    pub(super) fn of(types: &'a Types, kind: &'a Kind, values: &[Option<&Value>]) -> Self {
        match kind {
            Kind::Struct { atomic: true, .. } | Kind::Map { atomic: true, .. } => Self::Leaf,
            Kind::Struct { id, atomic: false } => Self::Struct(types.get(*id)),
            Kind::Map { value, atomic: false } => Self::Map(value),
            Kind::List { list: ListType::Atomic, .. } => Self::Leaf,
            Kind::List { element, list: ListType::Set } => Self::Set(element),
            Kind::List { element, list: ListType::Map(keys) } => Self::Keyed(keys, element),
            Kind::Raw | Kind::Json | Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrStrings => {
                let mut given = values.iter().flatten().filter(|value| !value.is_null()).peekable();
                let objects = given.peek().is_some() && given.all(|value| value.is_object());
                if objects { Self::Map(&Kind::Json) } else { Self::Leaf }
            }
            Kind::String
            | Kind::Bytes
            | Kind::Bool
            | Kind::Int32
            | Kind::Int64
            | Kind::Double
            | Kind::Quantity
            | Kind::IntOrString
            | Kind::Time
            | Kind::MicroTime
            | Kind::Fields => Self::Leaf,
        }
    }

    /// The type of what is below `name`, of a struct or map.
    pub(super) fn field(self, name: &str) -> &'a Kind {
        match self {
            Self::Struct(strukt) => strukt.field(name).map_or(&Kind::Json, |field| &field.kind),
            Self::Map(kind) => kind,
            Self::Leaf | Self::Set(_) | Self::Keyed(..) => &Kind::Json,
        }
    }

    /// Whether `name` is a declared field rather than a map's key.
    pub(super) fn declares(self, name: &str) -> bool {
        matches!(self, Self::Struct(strukt) if strukt.field(name).is_some())
    }

    /// The type below a step: as [`Self::field`], or of a list's entry.
    pub(super) fn below(self, step: &Step) -> &'a Kind {
        match (self, step.name()) {
            (Self::Set(kind) | Self::Keyed(_, kind), _) => kind,
            (_, Some(name)) => self.field(name),
            (Self::Leaf | Self::Struct(_) | Self::Map(_), None) => &Kind::Json,
        }
    }

    /// The step to an entry of a list.
    pub(super) fn step_to(self, types: &Types, entry: &Value) -> Result<Step, Nameless> {
        let Self::Keyed(names, kind) = self else { return Ok(Step::value(entry)) };
        let fields = entry.as_object().ok_or(Nameless::NoObject)?;
        let mut keys = Map::new();
        for name in names {
            let default = || match kind {
                Kind::Struct { id, .. } => types.get(*id).field(name)?.default.as_deref().map(Value::from),
                _ => None,
            };
            let given = fields.get(name.as_ref()).filter(|value| !value.is_null()).cloned();
            keys.extend(given.or_else(default).map(|value| (name.clone().into_owned(), value)));
        }
        if keys.is_empty() {
            return Err(Nameless::NoKeys(names.iter().map(|name| name.clone().into_owned()).collect()));
        }
        Ok(Step::key(keys))
    }
}

/// Nothing to descend into: absent, null, or without entries.
pub(super) fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}

/// The fields of a value that should be an object; none of anything else.
pub(super) fn fields(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// The entries of a value that should be a list; none of anything else.
pub(super) fn entries(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
