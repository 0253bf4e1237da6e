//! Objects, lists and events as the bytes of an answer, in the form that was negotiated.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::accept::Form;
use super::query::Query;
use crate::engine::{List, WatchItem};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::store::Entry;
use crate::table::{Include, Printer, partial, printer};

/// How answers to one request look.
#[derive(Debug)]
pub(crate) struct Printing {
    kind: &'static Kind,
    form: Form,
    include: Include,
    /// A watch tells the columns of its table once.
    headers: bool,
}

/// An object as its kind shows it: a custom one in the version that is asked for, an event in its group's form.
fn parse(kind: &Kind, entry: &Entry) -> Result<Value, ApiError> {
    let mut object = entry.parse().map(|object| kind.shown(object)).map_err(ApiError::internal)?;
    if let Some(definition) = kind.definition() {
        definition.shown(&kind.api_version(), &mut object, entry.revision);
    }
    Ok(object)
}

/// As [`parse`], as bytes; those that are stored where they are the same.
fn bytes(kind: &Kind, entry: &Entry) -> Result<Bytes, ApiError> {
    if kind.view.is_some() {
        return Ok(parse(kind, entry)?.to_string().into());
    }
    match kind.definition() {
        Some(definition) if kind.version != definition.storage_version || definition.is_stale(entry.revision) => {
            Ok(parse(kind, entry)?.to_string().into())
        }
        Some(_) | None => Ok(entry.bytes.clone()),
    }
}

impl Printing {
    /// How a request of this query wants it.
    ///
    /// # Errors
    /// 400 for an `includeObject` that there is not.
    pub(crate) fn new(kind: &'static Kind, form: Form, query: &Query) -> Result<Self, ApiError> {
        let include = Include::parse(query.get("includeObject"));
        let include = include.ok_or_else(|| ApiError::bad_request("unrecognized includeObject value"))?;
        Ok(Self { kind, form, include, headers: true })
    }

    fn table(&self, objects: &[Value], metadata: &Value, now: Timestamp) -> Value {
        let table = |printer: &Printer| printer.table(objects, metadata, self.include, self.headers, now);
        match self.kind.definition() {
            Some(definition) => table(&definition.printer),
            None => table(&printer(&self.kind.api_version(), self.kind.kind)),
        }
    }

    /// One object.
    pub(crate) fn one(&self, entry: &Entry, now: Timestamp) -> Result<Bytes, ApiError> {
        match self.form {
            Form::Object | Form::Discovery => bytes(self.kind, entry),
            Form::Metadata => Ok(partial(&parse(self.kind, entry)?).to_string().into()),
            Form::Table => {
                let object = parse(self.kind, entry)?;
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                Ok(self.table(&[object], &metadata, now).to_string().into())
            }
        }
    }

    /// A list.
    pub(crate) fn list(&self, list: &List, now: Timestamp) -> Result<Bytes, ApiError> {
        let mut metadata = json!({"resourceVersion": list.revision.to_string()});
        if !list.continue_token.is_empty() {
            metadata["continue"] = list.continue_token.clone().into();
            if let Some(remaining) = list.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let (name, version) = match self.form {
            Form::Table => {
                let objects =
                    list.entries.iter().map(|entry| parse(self.kind, entry)).collect::<Result<Vec<_>, _>>()?;
                return Ok(self.table(&objects, &metadata, now).to_string().into());
            }
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Form::Object | Form::Discovery => (self.kind.list_kind(), self.kind.api_version()),
        };
        let head = format!(r#"{{"kind":"{name}","apiVersion":"{version}","metadata":{metadata},"items":["#);
        let size: usize = list.entries.iter().map(|entry| entry.bytes.len() + 1).sum();
        let mut bytes = Vec::with_capacity(head.len() + size + 3);
        bytes.extend_from_slice(head.as_bytes());
        for (index, entry) in list.entries.iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(&self.one(entry, now)?);
        }
        bytes.extend_from_slice(b"]}\n");
        Ok(bytes.into())
    }

    /// What a watch tells, a line each.
    pub(crate) fn events(&mut self, items: &[WatchItem], now: Timestamp) -> Bytes {
        let mut bytes = Vec::new();
        for item in items {
            let (name, object) = match item {
                WatchItem::Added(entry) => ("ADDED", self.told(entry, now)),
                WatchItem::Modified(entry) => ("MODIFIED", self.told(entry, now)),
                WatchItem::Deleted(entry) => ("DELETED", self.told(entry, now)),
                WatchItem::Bookmark { revision, initial_end } => ("BOOKMARK", self.bookmark(*revision, *initial_end)),
                WatchItem::Error(error) => ("ERROR", error.to_status().to_string().into()),
            };
            bytes.extend_from_slice(format!(r#"{{"type":"{name}","object":"#).as_bytes());
            bytes.extend_from_slice(&object);
            bytes.extend_from_slice(b"}\n");
        }
        bytes.into()
    }

    fn told(&mut self, entry: &Entry, now: Timestamp) -> Bytes {
        let told = self.one(entry, now);
        self.headers = false;
        told.unwrap_or_else(|error| error.to_status().to_string().into())
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (name, version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            Form::Object | Form::Discovery | Form::Table => (self.kind.kind, self.kind.api_version()),
        };
        json!({"kind": name, "apiVersion": version, "metadata": metadata}).to_string().into()
    }
}
