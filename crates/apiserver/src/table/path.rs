//! The paths of custom resources' columns: the part of JSONPath that definitions may use.
//!
//! ```text
//! .name  .na\.me  ['name']  [0]  [-1]  [*]  .*  [?(@.path == 'text')]
//! ```
//!
//! In a filter `==`, `!=`, or the path alone (it is there); the other side is a text, a number or a boolean.

use serde_json::Value;

/// Why a path is none: where it is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path {path:?} is not understood from {at:?} on")]
pub struct PathError {
    path: String,
    at: String,
}

/// A path into an object.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Segment>);

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Name(String),
    Index(i64),
    All,
    Where { path: JsonPath, test: Test },
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Equals(Value),
    Differs(Value),
}

impl JsonPath {
    /// Reads a path that begins with a dot or a bracket.
    ///
    /// # Errors
    /// [`PathError`]: it is not of the form above.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut rest = text;
        let parsed = segments(&mut rest, 0);
        match parsed {
            Some(segments) if rest.is_empty() && !segments.is_empty() => Ok(Self(segments)),
            _ => Err(PathError { path: text.to_owned(), at: rest.to_owned() }),
        }
    }

    /// The first value at the path.
    #[must_use]
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(&self.0, object)
    }
}

fn find<'a>(segments: &[Segment], value: &'a Value) -> Option<&'a Value> {
    let Some((segment, rest)) = segments.split_first() else { return Some(value) };
    match segment {
        Segment::Name(name) => find(rest, value.get(name)?),
        Segment::Index(at) => {
            let list = value.as_array()?;
            let length = i64::try_from(list.len()).ok()?;
            let at = if *at < 0 { at + length } else { *at };
            find(rest, list.get(usize::try_from(at).ok()?)?)
        }
        Segment::All => children(value).find_map(|child| find(rest, child)),
        Segment::Where { path, test } => {
            let passes = |child: &&Value| match (find(&path.0, child), test) {
                (found, Test::Exists) => found.is_some(),
                (Some(found), Test::Equals(value)) => found == value,
                (Some(found), Test::Differs(value)) => found != value,
                (None, Test::Equals(_) | Test::Differs(_)) => false,
            };
            children(value).filter(passes).find_map(|child| find(rest, child))
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Box::new(std::iter::empty()),
    }
}

/// Segments up to something else; filters nest at most twice.
fn segments(rest: &mut &str, depth: usize) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(".*") {
            segments.push(Segment::All);
            *rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = name(after)?;
            segments.push(Segment::Name(name));
            *rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let mut inner = after;
            segments.push(bracket(&mut inner, depth)?);
            *rest = inner.strip_prefix(']')?;
        } else {
            return Some(segments);
        }
    }
}

fn name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' | ' ' | '=' | '!' | ')' | ']' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    if name.is_empty() { None } else { Some((name, &text[end..])) }
}

fn bracket(rest: &mut &str, depth: usize) -> Option<Segment> {
    if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        return Some(Segment::All);
    }
    if let Some(after) = rest.strip_prefix("?(@") {
        if depth > 1 {
            return None;
        }
        let mut inner = after;
        let path = JsonPath(segments(&mut inner, depth + 1)?);
        inner = inner.trim_start();
        let test = if let Some(after) = inner.strip_prefix("==") {
            inner = after.trim_start();
            Test::Equals(literal(&mut inner)?)
        } else if let Some(after) = inner.strip_prefix("!=") {
            inner = after.trim_start();
            Test::Differs(literal(&mut inner)?)
        } else {
            Test::Exists
        };
        *rest = inner.trim_start().strip_prefix(')')?;
        return Some(Segment::Where { path, test });
    }
    match literal(rest)? {
        Value::String(name) => Some(Segment::Name(name)),
        Value::Number(number) => number.as_i64().map(Segment::Index),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn literal(rest: &mut &str) -> Option<Value> {
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    if let Some(quote) = quote {
        let (text, after) = rest[1..].split_once(quote)?;
        *rest = after;
        return Some(Value::String(text.to_owned()));
    }
    let end = rest.find([']', ')', ' ']).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    serde_json::from_str(word).ok().filter(|value: &Value| value.is_number() || value.is_boolean())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(path: &str) -> Option<Value> {
        let object = json!({
            "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "on": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        JsonPath::parse(path).unwrap().first(&object).cloned()
    }

    #[test]
    fn what_definitions_use_is_understood() {
        for (path, expected) in [
            (".spec.on", json!(true)),
            (r".spec.a\.b", json!(1)),
            (".spec['a.b']", json!(1)),
            (".spec.list[0].n", json!("x")),
            (".spec.list[-1].n", json!("y")),
            (".spec.list[*].v", json!(1)),
            (".spec.list.*.v", json!(1)),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Other')].status", json!("False")),
            (".status.conditions[?(@.type!='Ready')].status", json!("False")),
            (".spec.list[?(@.v==2)].n", json!("y")),
            (".spec.list[?(@.n)].v", json!(1)),
        ] {
            assert_eq!(first(path), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        for path in [".x", ".spec.list[7]", ".spec.on.deeper", ".status.conditions[?(@.type=='No')].status"] {
            assert_eq!(first(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["", "spec", ".", ".spec.", ".a[", ".a[0", ".a[x]", ".a[?(@.b==]", ".a[?(@.b==1]", "..a", ".a\\"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
