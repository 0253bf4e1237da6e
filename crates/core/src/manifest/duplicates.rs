//! Keys that come twice in one object.

use std::collections::HashMap;

use super::decode::{Finding, Problem};
use super::limits::MAX_FINDINGS;
use super::tree::{Node, Value};
use crate::validation::FieldPath;

/// Every key of a document that is given again, with the place of the first time.
pub(super) fn duplicates(document: &Node) -> Vec<Finding> {
    let mut found = Vec::new();
    walk(document, &mut Vec::new(), &mut found);
    found
}

/// A step on the way; a [`FieldPath`] is made only for what is found.
#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

fn walk<'a>(node: &'a Node, way: &mut Vec<Step<'a>>, found: &mut Vec<Finding>) {
    match &node.value {
        Value::Null | Value::Bool(..) | Value::Number(..) | Value::String(_) => {}
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                way.push(Step::Index(i));
                walk(item, way, found);
                way.pop();
            }
        }
        Value::Map(entries) => {
            let mut first = HashMap::with_capacity(entries.len());
            for entry in entries {
                way.push(Step::Name(&entry.key));
                match first.get(entry.key.as_str()) {
                    None => {
                        first.insert(entry.key.as_str(), entry.at);
                    }
                    Some(at) if found.len() <= MAX_FINDINGS => found.push(Finding {
                        problem: Problem::Duplicate,
                        at: entry.at,
                        path: path(way),
                        message: format!(
                            "the key {:?} is given again; first at line {}, column {}",
                            entry.key, at.line, at.column
                        ),
                        hint: None,
                    }),
                    Some(_) => {}
                }
                walk(&entry.value, way, found);
                way.pop();
            }
        }
    }
}

fn path(way: &[Step<'_>]) -> FieldPath {
    way.iter().fold(FieldPath::root(), |path, step| match step {
        Step::Index(index) => path.index(*index),
        // Without its type a map looks like a struct; a key that can't be a field gives it away.
        Step::Name(name) if name.bytes().all(|b| b.is_ascii_alphanumeric()) => path.field((*name).to_owned()),
        Step::Name(name) => path.key(*name),
    })
}
