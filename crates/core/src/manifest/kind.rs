//! Which object a document is.

use super::decode::{Finding, suggest::nearest};
use super::position::Position;
use super::tree::{Node, Value};
use crate::validation::FieldPath;

/// The kinds of object that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Pod,
    Job,
    Deployment,
    ConfigMap,
    Secret,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Pod, Self::Job, Self::Deployment, Self::ConfigMap, Self::Secret];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::Deployment => "Deployment",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::ConfigMap | Self::Secret => "v1",
            Self::Job => "batch/v1",
            Self::Deployment => "apps/v1",
        }
    }
}

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognized {
    /// An object by itself.
    Object(Kind),
    /// A list of objects; the items of a typed list may leave out their kind.
    List(Option<Kind>),
}

/// Why a document is no object that can be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotRecognized {
    pub(super) at: Position,
    pub(super) path: FieldPath,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// Says what a document is. `implied` is the kind that its list gives it.
pub(super) fn recognize(node: &Node, implied: Option<Kind>) -> Result<Recognized, NotRecognized> {
    let problem = |field: &'static str, message: String, hint: Option<String>| {
        let path = FieldPath::of(field);
        NotRecognized { at: node.locate(&path), path, message, hint }
    };
    if !matches!(node.value, Value::Map(_)) {
        let message = format!("an object with apiVersion and kind is wanted here, not {}", node.kind());
        return Err(NotRecognized { at: node.at, path: FieldPath::root(), message, hint: None });
    }
    let text = |field: &'static str| match node.get(field).map(|found| &found.value) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(Value::Bool(..) | Value::Number(..) | Value::List(_) | Value::Map(_)) => {
            Err(problem(field, "must be a string".to_owned(), None))
        }
    };
    let (kind, api_version) = (text("kind")?, text("apiVersion")?);
    let Some(kind) = kind else {
        return match implied {
            Some(kind) => Ok(Recognized::Object(kind)),
            None => Err(problem("kind", "Required value".to_owned(), Some(understood()))),
        };
    };
    let Some((recognized, wanted)) = by_name(kind) else {
        let near = nearest(kind, Kind::ALL.map(Kind::name));
        let hint = near.map_or_else(understood, |name| format!("did you mean {name:?}?"));
        return Err(problem("kind", format!("the kind {kind:?} is not understood"), Some(hint)));
    };
    match api_version {
        Some(version) if version == wanted => Ok(recognized),
        None if implied.is_some() => Ok(recognized),
        None => Err(problem("apiVersion", "Required value".to_owned(), Some(format!("a {kind} is {wanted}")))),
        Some(version) => {
            let message = format!("{version:?} is not the version of a {kind}");
            Err(problem("apiVersion", message, Some(format!("write {wanted}"))))
        }
    }
}

/// The fields that a list of objects does not have.
pub(super) fn unknown_list_fields(node: &Node, base: &FieldPath) -> Vec<Finding> {
    const FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "items"];
    let Value::Map(entries) = &node.value else { return Vec::new() };
    let unknown = entries.iter().filter(|entry| !FIELDS.contains(&entry.key.as_str()));
    unknown.map(|entry| Finding::unknown(entry, base.field(entry.key.clone()), &FIELDS)).collect()
}

/// The kind or list of a name, and its version.
fn by_name(name: &str) -> Option<(Recognized, &'static str)> {
    if name == "List" {
        return Some((Recognized::List(None), "v1"));
    }
    let (item, is_list) = match name.strip_suffix("List") {
        Some(item) => (item, true),
        None => (name, false),
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == item)?;
    let recognized = if is_list { Recognized::List(Some(kind)) } else { Recognized::Object(kind) };
    Some((recognized, kind.api_version()))
}

fn understood() -> String {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    format!("understood are {} and lists of them", names.join(", "))
}
