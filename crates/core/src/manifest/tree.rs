//! A document as a tree of values, each with its place in the source.

use super::position::Position;
use crate::validation::{FieldPath, Segment};

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: Position,
}

/// What a document can hold; YAML's and JSON's common ground.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    /// With its word, which in YAML may be `yes`.
    Bool(bool, Box<str>),
    /// With its digits, which may be hexadecimal.
    Number(Number, Box<str>),
    String(String),
    List(Vec<Node>),
    /// In source order. A key may come twice: that is reported, and the last one counts.
    Map(Vec<Entry>),
}

/// A number as exact as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// Above `i64::MAX`.
    UInt(u64),
    Float(f64),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn new(value: Value, at: Position) -> Self {
        Self { value, at }
    }

    /// The value of a key of this map; the last one if there are several.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().rev().find(|entry| entry.key == key),
            Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::List(_) => None,
        }
    }

    /// The text, if it is one.
    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Null | Value::Bool(..) | Value::Number(..) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(..) => "a boolean",
            Value::Number(Number::Int(_) | Number::UInt(_), _) => "an integer",
            Value::Number(Number::Float(_), _) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }

    /// Number of values in it, itself included, and how deep they nest (a scalar: 1).
    pub(super) fn measure(&self) -> (usize, usize) {
        let fold = |(count, depth): (usize, usize), node: &Self| {
            let (c, d) = node.measure();
            (count + c, depth.max(d))
        };
        let (count, depth) = match &self.value {
            Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) => (0, 0),
            Value::List(items) => items.iter().fold((0, 0), fold),
            Value::Map(entries) => entries.iter().map(|entry| &entry.value).fold((0, 0), fold),
        };
        (count + 1, depth + 1)
    }

    /// The place of a field: of its value, or, where it is absent, of the innermost thing around it that is there.
    pub(super) fn locate(&self, path: &FieldPath) -> Position {
        let mut node = self;
        let mut named_at = self.at;
        for segment in path.segments() {
            let next = match segment {
                Segment::Field(name) => node.entry(name).map(|entry| (&entry.value, entry.at)),
                Segment::Key(name) => node.entry(name).map(|entry| (&entry.value, entry.at)),
                Segment::Index(index) => match &node.value {
                    Value::List(items) => items.get(*index).map(|item| (item, item.at)),
                    Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) | Value::Map(_) => None,
                },
            };
            match next {
                Some((value, at)) => (node, named_at) = (value, at),
                // The key tells more than the first line of what it holds.
                None => return named_at,
            }
        }
        match &node.value {
            Value::List(_) | Value::Map(_) | Value::Null => named_at,
            Value::Bool(..) | Value::Number(..) | Value::String(_) => node.at,
        }
    }
}
