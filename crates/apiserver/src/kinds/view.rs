//! Kinds that are another kind seen differently: one store, two forms. `events.k8s.io` Events are the core's Events.

use serde_json::Value;

use super::strategy::invalid;
use crate::error::Cause;

/// How a kind is another one in other words.
#[derive(Debug)]
pub struct View {
    /// The plural of the core's kind that is stored.
    pub of: &'static str,
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Fields that have another name: here, and as they are stored.
    pub fields: &'static [(&'static str, &'static str)],
}

fn renamed(mut object: Value, api_version: &str, names: impl Iterator<Item = (&'static str, &'static str)>) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
        for (from, to) in names {
            if let Some(value) = map.remove(from) {
                map.insert(to.to_owned(), value);
            }
        }
    }
    object
}

impl View {
    /// A stored object as this kind has it.
    #[must_use]
    pub fn show(&self, object: Value, api_version: &str) -> Value {
        renamed(object, api_version, self.fields.iter().map(|(here, stored)| (*stored, *here)))
    }

    /// An object of this kind as it is stored.
    #[must_use]
    pub fn store(&self, object: Value) -> Value {
        renamed(object, self.api_version, self.fields.iter().copied())
    }
}

/// `events.k8s.io/v1`.
pub(super) static EVENTS: View = View {
    of: "events",
    api_version: "v1",
    fields: &[
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ],
};

const LONGEST_NOTE: usize = 1024;
const LONGEST_REASON: usize = 128;

/// What the newer form wants of an event that is not one of the older.
pub(super) fn event(object: &Value) -> Vec<Cause> {
    let mut found = super::plain::event(&EVENTS.store(object.clone()));
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let legacy = object["eventTime"].is_null() && !object["deprecatedFirstTimestamp"].is_null();
    if legacy {
        return found;
    }
    for field in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if text(field).is_empty() {
            found.push(Cause::new("FieldValueRequired", "Required value", field));
        }
    }
    for (field, most) in [("note", LONGEST_NOTE), ("reason", LONGEST_REASON), ("action", LONGEST_REASON)] {
        if text(field).len() > most {
            found.push(invalid(field, &text(field).into(), &format!("can have at most {most} characters")));
        }
    }
    if !matches!(text("type"), "Normal" | "Warning") {
        found.push(invalid("type", &text("type").into(), "has invalid value"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_has_two_forms_and_each_is_the_other() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ns"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "message": "m", "reason": "R", "type": "Normal", "count": 3,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "source": {"component": "c"},
            "reportingComponent": "rc", "reportingInstance": "ri", "series": {"count": 2}, "related": {"kind": "Node"},
        });
        let events = EVENTS.show(core.clone(), "events.k8s.io/v1");
        assert_eq!(events["apiVersion"], "events.k8s.io/v1");
        for (field, value) in [
            ("regarding", json!({"kind": "Pod", "name": "p"})),
            ("note", json!("m")),
            ("deprecatedCount", json!(3)),
            ("reportingController", json!("rc")),
            ("reportingInstance", json!("ri")),
            ("deprecatedSource", json!({"component": "c"})),
        ] {
            assert_eq!(events[field], value, "{field}");
        }
        assert!(events.get("message").is_none() && events.get("involvedObject").is_none());
        assert_eq!(EVENTS.store(events), core);
    }

    #[test]
    fn the_newer_form_wants_more() {
        let full = json!({
            "metadata": {"name": "e", "namespace": "ns"}, "regarding": {"kind": "Pod", "namespace": "ns"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i", "action": "A",
            "reason": "R", "type": "Normal",
        });
        assert_eq!(event(&full), []);
        for field in ["eventTime", "reportingController", "reportingInstance", "action", "reason", "type"] {
            let mut less = full.clone();
            less.as_object_mut().unwrap().remove(field);
            let fields: Vec<String> = event(&less).into_iter().map(|cause| cause.field).collect();
            assert_eq!(fields, [field]);
        }
        let legacy =
            json!({"metadata": {"name": "e", "namespace": "ns"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(event(&legacy), []);
    }
}
