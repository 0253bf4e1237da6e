//! An object at a revision, as bytes, with what selectors ask about.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::Key;

/// What selectors are matched against, so that neither lists nor watches parse objects: labels, and the fields that the kind
/// lets clients select by (name and namespace are in the key).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Labels, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// Selectable fields, `spec.nodeName` …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(Box<str>, Box<str>)>,
    /// Uids of the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Box<str>>,
    /// Whether it has finalizers.
    #[serde(default)]
    pub held: bool,
}

impl Attributes {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v)
    }

    /// The value of a field; what the object lacks is the empty text, as upstream has it.
    #[must_use]
    pub fn field(&self, path: &str) -> &str {
        self.fields.iter().find(|(k, _)| **k == *path).map_or("", |(_, v)| &**v)
    }
}

/// An object as JSON with a gap where its revision will stand. The revision is known only when the change is decided, and the
/// object must not be serialized again for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    head: Bytes,
    tail: Bytes,
}

impl Draft {
    /// The draft of an object; a `metadata.resourceVersion` that it has is left out. What is no object becomes one without
    /// fields.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let (mut head, mut tail) = (Vec::with_capacity(512), Vec::new());
        head.push(b'{');
        for key in ["kind", "apiVersion"] {
            if let Some(value) = object.get(key) {
                field(&mut head, key, value);
                head.push(b',');
            }
        }
        head.extend_from_slice(br#""metadata":{"resourceVersion":""#);
        tail.push(b'"');
        for (key, value) in object.get("metadata").and_then(Value::as_object).into_iter().flatten() {
            if key != "resourceVersion" {
                tail.push(b',');
                field(&mut tail, key, value);
            }
        }
        tail.push(b'}');
        for (key, value) in object.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                tail.push(b',');
                field(&mut tail, key, value);
            }
        }
        tail.push(b'}');
        Self { head: head.into(), tail: tail.into() }
    }

    /// Bytes without the revision.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Never: a draft has at least its braces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn seal(&self, revision: u64) -> (Bytes, u32) {
        let mut bytes = Vec::with_capacity(self.len() + 20);
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(revision.to_string().as_bytes());
        bytes.extend_from_slice(&self.tail);
        (bytes.into(), u32::try_from(self.head.len()).unwrap_or(u32::MAX))
    }
}

impl fmt::Debug for Draft {
    // Objects may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({} bytes)", self.len())
    }
}

/// `"key":value`. Serializing a `Value` into memory has no way to fail.
fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.extend_from_slice(Value::from(key).to_string().as_bytes());
    out.push(b':');
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.extend_from_slice(b"null");
    }
}

/// An object at a revision.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Revision of the change that made it so.
    pub revision: u64,
    /// Revision at which the object was created.
    pub created: u64,
    /// The object as JSON, `metadata.resourceVersion` included.
    pub bytes: Bytes,
    /// Where in the bytes the revision's digits begin.
    pub(crate) at: u32,
    /// What selectors ask about.
    pub attributes: Arc<Attributes>,
}

impl Entry {
    /// An entry from a draft.
    #[must_use]
    pub fn new(draft: &Draft, revision: u64, created: u64, attributes: Arc<Attributes>) -> Self {
        let (bytes, at) = draft.seal(revision);
        Self { revision, created, bytes, at, attributes }
    }

    /// The object as a tree.
    ///
    /// # Errors
    /// The bytes are no JSON, which only a damaged log makes so.
    pub fn parse(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    /// The draft that this entry was made of.
    #[must_use]
    pub fn redraft(&self) -> Draft {
        let at = (self.at as usize).min(self.bytes.len());
        let digits = self.bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        Draft { head: self.bytes.slice(..at), tail: self.bytes.slice(at + digits..) }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry(revision {}, {} bytes)", self.revision, self.bytes.len())
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It came to be.
    Added,
    /// It changed.
    Modified,
    /// It went; the event's entry is its last state, with the revision of the deletion.
    Deleted,
}

/// What an object was before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    /// What selectors asked about then: whether a watcher knew the object.
    pub attributes: Arc<Attributes>,
    /// The object then; `None` for changes from before the last start, whose earlier state is not kept.
    pub entry: Option<Arc<Entry>>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Of which object.
    pub key: Key,
    /// What happened.
    pub kind: EventKind,
    /// The object after it, at the revision of the change.
    pub entry: Arc<Entry>,
    /// The object before it; `None` if it was created.
    pub previous: Option<Previous>,
}

impl Event {
    /// The revision of the change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.entry.revision
    }
}
