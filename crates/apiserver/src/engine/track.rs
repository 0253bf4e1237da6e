//! Who owns which fields after a write that is no apply.

use serde_json::Value;

use super::Part;
use crate::apply::{Writer, track};
use crate::kinds::Kind;

/// Most characters of a manager's name.
const LONGEST: usize = 128;

/// The writer of a request.
pub(super) fn writer<'a>(manager: &'a str, api_version: &'a str, kind: &Kind, part: Part, now: &'a str) -> Writer<'a> {
    let manager = manager.char_indices().nth(LONGEST).map_or(manager, |(at, _)| &manager[..at]);
    let (subresource, ignored): (_, &[&[&str]]) = match part {
        Part::Main if kind.approved => ("", &[&["spec"], &["status"]]),
        Part::Main if kind.status => ("", &[&["status"]]),
        Part::Main => ("", &[]),
        Part::Ephemeral => ("ephemeralcontainers", &[&["status"]]),
        Part::Resize => ("resize", &[&["status"]]),
        Part::Approval => ("approval", &[&["spec"], &["status", "certificate"]]),
        Part::Status if kind.approved => ("status", &[&["spec"], &["status", "conditions"]]),
        Part::Status => ("status", &[&["spec"], &["metadata", "ownerReferences"], &["metadata", "deletionTimestamp"]]),
    };
    Writer { manager, api_version, subresource, ignored, now }
}

/// The new object with its entries; `old` is null for one that is created. Who writes without a name leaves none.
pub(super) fn tracked(kind: &Kind, part: Part, manager: &str, now: &str, old: &Value, new: Value) -> Value {
    if manager.is_empty() {
        return new;
    }
    let api_version = kind.api_version();
    let mut new = Some(new);
    let tracked = kind.with_type(|types, schema| {
        let new = new.take().unwrap_or_default();
        track(types, schema, old, new, &writer(manager, &api_version, kind, part, now))
    });
    // The kind of a custom object may have gone just now.
    tracked.or(new).unwrap_or_default()
}
