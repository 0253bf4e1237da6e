//! One step into an object: a field, an entry by its keys, an entry by its value, an entry by its place.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A step in the form that `FieldsV1` has, made canonical: keys are sorted, JSON has no spaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(String);

impl Step {
    pub(super) fn field(name: &str) -> Self {
        let mut step = String::with_capacity(2 + name.len());
        step.push_str("f:");
        step.push_str(name);
        Self(step)
    }

    pub(super) fn key(keys: Map<String, Value>) -> Self {
        Self(format!("k:{}", Value::Object(keys)))
    }

    pub(super) fn value(value: &Value) -> Self {
        Self(format!("v:{value}"))
    }

    pub(super) fn index(at: usize) -> Self {
        Self(format!("i:{at}"))
    }

    /// From `FieldsV1`. `None`: not of that form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (form, rest) = text.split_once(':')?;
        match form {
            "f" => Some(Self(text.to_owned())),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(keys) => Some(Self::key(keys)),
                _ => None,
            },
            "v" => Some(Self::value(&serde_json::from_str(rest).ok()?)),
            "i" => rest.parse::<i64>().ok().map(|_| Self(text.to_owned())),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The name, of a field.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }
}

/// A path as messages have it: `.spec.containers[name="x"].image`.
pub(super) fn display(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        let (form, rest) = step.0.split_once(':').unwrap_or_default();
        // Writing to a String does not fail.
        let _ = match form {
            "f" => write!(text, ".{rest}"),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(text, "[{}]", keys.join(","))
            }
            "v" => write!(text, "[={rest}]"),
            _ => write!(text, "[{rest}]"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_canonical_whoever_wrote_them() {
        let ours = json!({"containerPort": 80, "protocol": "TCP"}).as_object().cloned().unwrap();
        let theirs = Step::parse(r#"k:{"protocol": "TCP", "containerPort":80}"#);
        assert_eq!(theirs, Some(Step::key(ours)));
        assert_eq!(Step::parse("x:1"), None);
        assert_eq!(Step::parse("k:[]"), None);
        assert_eq!(Step::parse("plain"), None);
    }

    #[test]
    fn paths_read_as_upstreams() {
        let key = json!({"containerPort": 80, "protocol": "TCP"}).as_object().cloned().unwrap();
        let path = [Step::field("spec"), Step::field("ports"), Step::key(key), Step::field("hostPort")];
        assert_eq!(display(&path), r#".spec.ports[containerPort=80,protocol="TCP"].hostPort"#);
        let path = [Step::field("metadata"), Step::field("finalizers"), Step::value(&json!("a/b"))];
        assert_eq!(display(&path), r#".metadata.finalizers[="a/b"]"#);
    }
}
