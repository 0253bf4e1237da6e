//! One YAML text as a JSON value, for those who want no Pods but what stands there.

use serde_json::{Map, Number as JsonNumber};

use super::duplicates::duplicates;
use super::tree::{Node, Number, Value};
use super::yaml::{self, forbidden_character};

/// A document as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The value; null for an empty text. Of keys given twice, the last.
    pub value: serde_json::Value,
    /// Paths of the keys that are given again: `metadata.labels.a`. At most a hundred or so.
    pub duplicates: Vec<String>,
}

/// Why a text is no document: a message with its line and column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct DocumentError {
    /// 1-based.
    pub line: u32,
    /// 1-based.
    pub column: u32,
    /// What is wrong there.
    pub message: String,
}

/// Reads a text with at most one YAML document, which JSON mostly is as well. Within the limits that manifests have.
///
/// # Errors
/// [`DocumentError`]: not YAML, beyond a limit, a number that JSON can't say, or a second document.
pub fn document(text: &str) -> Result<Document, DocumentError> {
    let at = |line, column, message: &str| DocumentError { line, column, message: message.to_owned() };
    if let Some((offset, c)) = forbidden_character(text) {
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = format!("the character {c:?} is not allowed");
        return Err(at(u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX), &message));
    }
    let mut documents = yaml::Documents::new(text);
    let node = match documents.next() {
        None => return Ok(Document { value: serde_json::Value::Null, duplicates: Vec::new() }),
        Some(node) => node.map_err(|error| at(error.at.line, error.at.column, &error.message))?,
    };
    match documents.next() {
        None => {}
        Some(Ok(more)) => return Err(at(more.at.line, more.at.column, "one document is expected, and there are more")),
        Some(Err(error)) => return Err(at(error.at.line, error.at.column, &error.message)),
    }
    let duplicates = duplicates(&node).iter().map(|finding| finding.path.to_string()).collect();
    Ok(Document { value: value(node)?, duplicates })
}

fn value(node: Node) -> Result<serde_json::Value, DocumentError> {
    let at = node.at;
    Ok(match node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(set, _) => set.into(),
        Value::Number(Number::Int(number), _) => number.into(),
        Value::Number(Number::UInt(number), _) => number.into(),
        Value::Number(Number::Float(number), text) => {
            let message = || format!("{text} is no number that JSON has");
            let none = || DocumentError { line: at.line, column: at.column, message: message() };
            JsonNumber::from_f64(number).map(serde_json::Value::Number).ok_or_else(none)?
        }
        Value::String(text) => text.into(),
        Value::List(entries) => entries.into_iter().map(value).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                map.insert(entry.key, value(entry.value)?);
            }
            serde_json::Value::Object(map)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_a_value() {
        let read = document("a: [1, 2.5, yes, ~, 'x']\nb: {c: d}\n").unwrap();
        assert_eq!(read.value, json!({"a": [1, 2.5, true, null, "x"], "b": {"c": "d"}}));
        assert_eq!(read.duplicates, [""; 0]);
        assert_eq!(document(r#"{"a": 1}"#).unwrap().value, json!({"a": 1}));
        assert_eq!(document("").unwrap().value, json!(null));
    }

    #[test]
    fn keys_given_again_are_told_and_the_last_counts() {
        let read = document("a: {b: 1, b: 2}\nl:\n- c: 1\n  c: 2\n").unwrap();
        assert_eq!(read.value, json!({"a": {"b": 2}, "l": [{"c": 2}]}));
        assert_eq!(read.duplicates, ["a.b", "l[0].c"]);
    }

    #[test]
    fn what_is_no_document_says_where() {
        assert_eq!(document("a: 1\n---\nb: 2\n").unwrap_err().line, 3);
        assert_eq!(document("a: [1\n").unwrap_err().line, 2);
        assert_eq!(document("a: \u{1}").unwrap_err().column, 4);
        assert!(document("a: .inf").is_err());
        let deep = "[".repeat(1000);
        assert!(document(&deep).is_err());
    }
}
