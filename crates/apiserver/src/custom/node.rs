//! A schema as values are held against it.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

/// Schemas nest at most this deep; deeper ones are refused rather than followed.
const DEEPEST: usize = 64;
/// Bytes of a compiled pattern: those of real definitions need some thousand.
const LARGEST_PATTERN: usize = 1 << 20;

/// Why a schema can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeError {
    /// Nested beyond what any resource has.
    #[error("the schema nests deeper than {DEEPEST} levels")]
    TooDeep,
    /// Upstream's engine is Go's, whose syntax is the same but for a few classes.
    #[error("must be a valid regular expression, but isn't: {0}")]
    Pattern(String),
}

/// Bounds of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// The number.
    pub(crate) at: f64,
    /// Whether the number itself is outside.
    pub(crate) exclusive: bool,
}

/// What the entries of a list are to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Anything.
    Free,
    /// Each once.
    Set,
    /// Told apart by these fields.
    Map(Vec<String>),
}

/// A schema. What is absent says nothing.
#[derive(Debug)]
pub(crate) struct Node {
    /// `string`, `object`, …; empty where any type is right.
    pub(crate) kind: String,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) embedded: bool,
    pub(crate) default: Option<Value>,
    pub(crate) choices: Vec<Value>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) format: String,
    /// Least and most: characters, entries or fields.
    pub(crate) length: (Option<i64>, Option<i64>),
    pub(crate) items_count: (Option<i64>, Option<i64>),
    pub(crate) properties_count: (Option<i64>, Option<i64>),
    pub(crate) pattern: Option<Regex>,
    pub(crate) required: Vec<String>,
    pub(crate) properties: BTreeMap<String, Node>,
    /// Of every field that is not among the properties.
    pub(crate) additional: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) entries: Entries,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

impl Node {
    /// A schema, ready.
    ///
    /// # Errors
    /// It nests too deep, or a pattern is none.
    pub(crate) fn new(schema: &JSONSchemaProps) -> Result<Self, NodeError> {
        Self::at(schema, 0)
    }

    fn at(schema: &JSONSchemaProps, depth: usize) -> Result<Self, NodeError> {
        if depth > DEEPEST {
            return Err(NodeError::TooDeep);
        }
        let below = |schema: &JSONSchemaProps| Self::at(schema, depth + 1);
        let boxed = |schema: &JSONSchemaProps| below(schema).map(Box::new);
        let many = |schemas: &Option<Vec<JSONSchemaProps>>| -> Result<Vec<Self>, NodeError> {
            schemas.iter().flatten().map(below).collect()
        };
        let bound =
            |at: Option<f64>, exclusive: Option<bool>| at.map(|at| Bound { at, exclusive: exclusive.unwrap_or(false) });
        let pattern = match schema.pattern.as_deref() {
            None | Some("") => None,
            Some(pattern) => Some(compiled(pattern)?),
        };
        let entries = match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => Entries::Set,
            Some("map") => Entries::Map(schema.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
            Some(_) | None => Entries::Free,
        };
        let properties = schema.properties.iter().flatten();
        Ok(Self {
            kind: schema.type_.clone().unwrap_or_default(),
            nullable: schema.nullable.unwrap_or(false),
            int_or_string: schema.x_kubernetes_int_or_string.unwrap_or(false),
            embedded: schema.x_kubernetes_embedded_resource.unwrap_or(false),
            default: schema.default.as_ref().map(|default| default.0.clone()).filter(|default| !default.is_null()),
            choices: schema.enum_.iter().flatten().map(|choice| choice.0.clone()).collect(),
            minimum: bound(schema.minimum, schema.exclusive_minimum),
            maximum: bound(schema.maximum, schema.exclusive_maximum),
            multiple_of: schema.multiple_of,
            format: schema.format.clone().unwrap_or_default(),
            length: (schema.min_length, schema.max_length),
            items_count: (schema.min_items, schema.max_items),
            properties_count: (schema.min_properties, schema.max_properties),
            pattern,
            required: schema.required.clone().unwrap_or_default(),
            properties: properties
                .map(|(name, schema)| Ok((name.clone(), below(schema)?)))
                .collect::<Result<_, NodeError>>()?,
            additional: match &schema.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(schema)) => Some(boxed(schema)?),
                Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
            },
            items: match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(schema)) => Some(boxed(schema)?),
                // Definitions with such are refused.
                Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
            },
            entries,
            all_of: many(&schema.all_of)?,
            any_of: many(&schema.any_of)?,
            one_of: many(&schema.one_of)?,
            not: schema.not.as_deref().map(boxed).transpose()?,
        })
    }

    /// The schema of a field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}

/// A pattern, if it is one.
pub(crate) fn compiled(pattern: &str) -> Result<Regex, NodeError> {
    let built = regex::RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build();
    built.map_err(|error| NodeError::Pattern(error.to_string().lines().last().unwrap_or_default().to_owned()))
}
