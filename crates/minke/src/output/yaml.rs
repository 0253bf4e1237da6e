//! JSON values as YAML in block style.
//!
//! Every string that another YAML reader could take for something else is quoted, so reading the text gives the
//! value back.

use std::fmt::Write as _;

use serde_json::Value;

/// One document, with a line end.
pub(crate) fn to_string(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_block(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => write_block(&mut text, value, 0),
        _ => {
            write_scalar(&mut text, value, 0);
            text.push('\n');
        }
    }
    text
}

/// Writes a non-empty collection, its first line at the current position.
fn write_block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    pad(text, indent);
                }
                write_string(text, key);
                text.push(':');
                write_value(text, value, indent, false);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    pad(text, indent);
                }
                text.push('-');
                write_value(text, item, indent, true);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => write_scalar(text, value, indent),
    }
}

/// Writes what follows `key:` or `-`, up to the line end.
fn write_value(text: &mut String, value: &Value, indent: usize, in_list: bool) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            if in_list {
                text.push(' ');
            } else {
                text.push('\n');
                pad(text, indent + 2);
            }
            write_block(text, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            // Lists stand under their key without further indentation, as Kubernetes' tools print them.
            let inner = if in_list { indent + 2 } else { indent };
            if in_list {
                text.push(' ');
            } else {
                text.push('\n');
                pad(text, inner);
            }
            write_block(text, value, inner);
        }
        _ => {
            text.push(' ');
            write_scalar(text, value, indent);
            text.push('\n');
        }
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn write_scalar(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(b) => text.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => text.push_str(&n.to_string()),
        Value::String(s) if is_literal(s) => write_literal(text, s, indent + 2),
        Value::String(s) => write_string(text, s),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

/// Whether a text of several lines can stand as a literal block without losing anything.
fn is_literal(s: &str) -> bool {
    let plain =
        |c: char| c == '\n' || (!c.is_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'));
    s.trim_end_matches('\n').contains('\n')
        && s.chars().all(plain)
        && !s.starts_with([' ', '\n'])
        && !s.lines().any(|line| line.ends_with(' ') || (line.starts_with(' ') && line.trim().is_empty()))
}

fn write_literal(text: &mut String, s: &str, indent: usize) {
    let trailing = s.len() - s.trim_end_matches('\n').len();
    text.push_str(match trailing {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let mut lines = s.split('\n').collect::<Vec<_>>();
    if trailing > 0 {
        lines.pop();
    }
    for line in lines {
        text.push('\n');
        if !line.is_empty() {
            pad(text, indent);
            text.push_str(line);
        }
    }
}

fn write_string(text: &mut String, s: &str) {
    if is_plain(s) {
        text.push_str(s);
        return;
    }
    text.push('"');
    for c in s.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')) && u32::from(c) <= 0xffff => {
                // Writing into a String can't fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Whether a string can stand without quotes: letters and a few signs, and nothing that reads as another type.
fn is_plain(s: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '+' | '=' | '@' | ' ' | ':');
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_');
    let ambiguous = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    s.chars().next().is_some_and(first)
        && s.chars().all(word)
        && !s.contains(": ")
        && !s.ends_with([' ', ':'])
        && !ambiguous.contains(&s.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saphyr_parser::{Event, Parser, ScalarStyle};
    use serde_json::json;

    use super::*;

    #[test]
    fn it_looks_as_kubernetes_tools_print_it() {
        let value = json!({"kind": "Pod", "metadata": {"name": "web", "labels": {}}, "spec": {"containers": [
            {"name": "a", "args": ["-c", "echo 1"], "command": []}, {"name": "b"}], "n": 5, "ok": true, "none": null}});
        let expected = "\
kind: Pod
metadata:
  labels: {}
  name: web
spec:
  containers:
  - args:
    - \"-c\"
    - echo 1
    command: []
    name: a
  - name: b
  \"n\": 5
  none: null
  ok: true
";
        assert_eq!(to_string(&value), expected);
    }

    #[test]
    fn several_lines_stand_as_a_block() {
        assert_eq!(to_string(&json!({"m": "a\nb\n"})), "m: |\n  a\n  b\n");
        assert_eq!(to_string(&json!({"m": "a\n\nb"})), "m: |-\n  a\n\n  b\n");
    }

    #[test]
    fn what_reads_as_another_type_is_quoted() {
        for text in ["", "true", "Yes", "12", "1e3", "0x10", "~", "-", "a: b", "a #b", "2026-01-01", "null", "é", "#x"]
        {
            assert_eq!(to_string(&json!(text)), format!("\"{text}\"\n"), "{text}");
        }
    }

    /// An independent reader: builds the value from the events of a YAML parser.
    fn read(text: &str) -> Value {
        let events: Vec<Event<'_>> = Parser::new_from_str(text).map(|e| e.unwrap().0).collect();
        let mut events = events.into_iter().filter(|e| {
            !matches!(e, Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd)
        });
        node(&mut events).unwrap()
    }

    fn node<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Option<Value> {
        match events.next().unwrap() {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                Some(serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned())))
            }
            Event::Scalar(text, ..) => Some(Value::String(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some(item) = node(events) {
                    items.push(item);
                }
                Some(Value::Array(items))
            }
            Event::MappingStart(..) => {
                let mut map = serde_json::Map::new();
                while let Some(key) = node(events) {
                    map.insert(key.as_str().unwrap().to_owned(), node(events).unwrap());
                }
                Some(Value::Object(map))
            }
            Event::SequenceEnd | Event::MappingEnd => None,
            other => panic!("{other:?}"),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\n\t\u{e9}\u{2028}]{0,12}".prop_map(Value::from),
            "[a-c\n ]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ -~\n]{0,8}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reading_gives_the_value_back(value in any_value()) {
            let text = to_string(&value);
            prop_assert_eq!(read(&text), value, "{}", text);
        }
    }
}
