//! Bodies to objects, as upstream's typed decoding has it: unknown and duplicate fields told (or refused), values of
//! wrong types refused, and what is left as Go writes it again.
//!
//! | step | file |
//! |---|---|
//! | text to value, keys given twice | `json`; YAML by [`minke_core::manifest`] |
//! | value to what the type says | `typed`, for built-in kinds |
//! | unknown fields alone | `prune`, for custom resources, whose values their schema judges |
//!
//! [`decode`] does all of it for a built-in kind; what [`crate::proto`] has read goes through [`typed`] alone. A patch's
//! result goes through [`typed`] too: it is what a client would have sent.

mod json;
mod prune;
mod typed;

use serde_json::Value;

use crate::error::ApiError;
use crate::schema::{Kind, Types};
pub use prune::prune;
pub use typed::{TypeError, Typed, typed};

/// `fieldValidation`: what happens to unknown and duplicate fields. They are dropped in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Nothing is said.
    Ignore,
    /// Each is a warning.
    #[default]
    Warn,
    /// The request fails.
    Strict,
}

impl FieldValidation {
    /// From the query; absent is `Warn`. `None`: there is no such (422 upstream).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }

    /// The warnings of `problems`, or the error that they are.
    ///
    /// # Errors
    /// [`StrictError::Strict`] with all of them.
    pub fn judge(self, problems: Vec<String>) -> Result<Vec<String>, StrictError> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Warn => Ok(problems),
            Self::Strict if problems.is_empty() => Ok(Vec::new()),
            Self::Strict => Err(StrictError::Strict(problems.join(", "))),
        }
    }
}

/// A text as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The value; of keys given twice, the last.
    pub value: Value,
    /// `duplicate field "metadata.labels.a"`, for each.
    pub duplicates: Vec<String>,
}

/// An object as its kind has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object.
    pub object: Value,
    /// For the `Warning` header, one each: `unknown field "spec.foo"`.
    pub warnings: Vec<String>,
}

/// Why a body is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// Neither JSON nor YAML.
    #[error("{0}")]
    Syntax(String),
    /// A value is not of its field's type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Unknown or duplicate fields, and they may not be.
    #[error("strict decoding error: {0}")]
    Strict(String),
}

impl StrictError {
    /// 400 in upstream's words, for a body that was to be a `kind` and says that it is a `given` of a version.
    #[must_use]
    pub fn for_body(&self, api_version: &str, given: &str, kind: &str) -> ApiError {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        match self {
            Self::Syntax(message) => ApiError::bad_request(message.clone()),
            Self::Type(_) | Self::Strict(_) => {
                ApiError::bad_request(format!("{given} in version {version:?} cannot be handled as a {kind}: {self}"))
            }
        }
    }
}

/// Most unknown or duplicate fields that are told, as upstream.
const MOST_PROBLEMS: usize = 100;

/// A JSON text as a value.
///
/// # Errors
/// [`StrictError::Syntax`]: it is none, or nests deeper than 128 levels.
pub fn parse_json(body: &[u8]) -> Result<Parsed, StrictError> {
    json::parse(body)
}

/// A YAML text with one document as a value.
///
/// # Errors
/// [`StrictError::Syntax`]: it is none, or larger than any object.
pub fn parse_yaml(body: &[u8]) -> Result<Parsed, StrictError> {
    let text = std::str::from_utf8(body).map_err(|error| StrictError::Syntax(format!("yaml: {error}")))?;
    let document =
        minke_core::manifest::document(text).map_err(|error| StrictError::Syntax(format!("yaml: {error}")))?;
    let duplicates = document.duplicates.iter().take(MOST_PROBLEMS).map(|path| format!("duplicate field {path:?}"));
    Ok(Parsed { value: document.value, duplicates: duplicates.collect() })
}

/// A parsed body as an object of the built-in type `kind`.
///
/// # Errors
/// [`StrictError::Type`], and [`StrictError::Strict`] where validation is.
pub fn decode(types: &Types, kind: &Kind, parsed: Parsed, validation: FieldValidation) -> Result<Decoded, StrictError> {
    let typed = typed(types, kind, parsed.value)?;
    let mut problems: Vec<String> = typed.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    problems.extend(parsed.duplicates);
    Ok(Decoded { object: typed.object, warnings: validation.judge(problems)? })
}

/// A parsed body as a custom object: its fields are told, and what they hold is not looked at.
///
/// # Errors
/// [`StrictError::Strict`] where validation is.
pub fn decode_custom(
    types: &Types,
    kind: &Kind,
    parsed: Parsed,
    validation: FieldValidation,
) -> Result<Decoded, StrictError> {
    let mut object = parsed.value;
    let mut problems: Vec<String> =
        prune(types, kind, &mut object).iter().map(|path| format!("unknown field {path:?}")).collect();
    problems.extend(parsed.duplicates);
    Ok(Decoded { object, warnings: validation.judge(problems)? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    fn pod(body: &str, validation: FieldValidation) -> Result<Decoded, StrictError> {
        let kind = builtin().kind("v1", "Pod").unwrap();
        decode(builtin(), &kind, parse_json(body.as_bytes())?, validation)
    }

    const BODY: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","name":"q"},
        "spec":{"foo":1,"containers":[{"name":"c","imag":"x"}]}}"#;

    #[test]
    fn unknown_and_duplicate_fields_are_refused_told_or_dropped() {
        let error = pod(BODY, FieldValidation::Strict).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"strict decoding error: unknown field "spec.containers[0].imag", unknown field "spec.foo", duplicate field "metadata.name""#
        );
        assert_eq!(
            error.for_body("v1", "Pod", "Pod").message,
            format!(r#"Pod in version "v1" cannot be handled as a Pod: {error}"#)
        );
        let warned = pod(BODY, FieldValidation::Warn).unwrap();
        assert_eq!(warned.warnings.len(), 3);
        let ignored = pod(BODY, FieldValidation::Ignore).unwrap();
        assert_eq!(ignored.warnings, [""; 0]);
        assert_eq!(ignored.object, warned.object);
        assert_eq!(ignored.object["metadata"]["name"], "q");
        assert_eq!(ignored.object["spec"], json!({"containers": [{"name": "c", "resources": {}}]}));
    }

    #[test]
    fn yaml_is_read_as_json_is() {
        let yaml = "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec:\n  foo: 1\n  nodeName: a\n  nodeName: b\n";
        let parsed = parse_yaml(yaml.as_bytes()).unwrap();
        assert_eq!(parsed.duplicates, [r#"duplicate field "spec.nodeName""#]);
        assert_eq!(parsed.value["spec"]["nodeName"], "b");
        assert!(matches!(parse_yaml(b"a: [1"), Err(StrictError::Syntax(_))));
        assert!(matches!(parse_yaml(b"\xff"), Err(StrictError::Syntax(_))));
    }

    #[test]
    fn validation_is_read_from_the_query() {
        assert_eq!(FieldValidation::parse(""), Some(FieldValidation::Warn));
        assert_eq!(FieldValidation::parse("Strict"), Some(FieldValidation::Strict));
        assert_eq!(FieldValidation::parse("Ignore"), Some(FieldValidation::Ignore));
        assert_eq!(FieldValidation::parse("strict"), None);
    }
}
