//! `metadata.managedFields`: who owns what, read and written.

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// How a manager has come to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One entry. Two are of one manager when everything but the fields and the time is the same; appliers stay the same
/// over versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// RFC 3339 in seconds, which orders as text.
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

impl Entry {
    pub(super) fn same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// As messages have it.
    pub(super) fn display(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Takes the entries out of an object. `None`: they are not understood.
pub(super) fn take(object: &mut Value) -> Option<Vec<Entry>> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Some(Vec::new()) };
    match metadata.remove("managedFields") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(entries)) => entries.iter().map(read).collect(),
        Some(_) => None,
    }
}

fn read(value: &Value) -> Option<Entry> {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let operation = match value["operation"].as_str()? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let fields = match &value["fieldsV1"] {
        Value::Null => FieldSet::default(),
        fields => FieldSet::from_json(fields)?,
    };
    if !matches!(value["fieldsType"].as_str(), Some("FieldsV1")) || text("apiVersion").is_empty() {
        return None;
    }
    let time = value["time"].as_str().map(str::to_owned);
    let (manager, api_version, subresource) = (text("manager"), text("apiVersion"), text("subresource"));
    Some(Entry { manager, operation, api_version, subresource, time, fields })
}

/// Puts the entries into an object: appliers first, then by time. Without entries, the field is not there.
pub(super) fn put(object: &mut Value, mut entries: Vec<Entry>) {
    if entries.is_empty() {
        return;
    }
    let key =
        |e: &Entry| (e.operation, e.time.clone(), e.manager.clone(), e.api_version.clone(), e.subresource.clone());
    entries.sort_by_cached_key(key);
    let written: Vec<Value> = entries.iter().map(write).collect();
    if let Value::Object(object) = object
        && let Value::Object(metadata) = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()))
    {
        metadata.insert("managedFields".to_owned(), Value::Array(written));
    }
}

fn write(entry: &Entry) -> Value {
    let operation = match entry.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let mut value = json!({
        "manager": entry.manager,
        "operation": operation,
        "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields.to_json(),
    });
    if let Some(time) = &entry.time {
        value["time"] = time.as_str().into();
    }
    if !entry.subresource.is_empty() {
        value["subresource"] = entry.subresource.as_str().into();
    }
    value
}

/// Most entries of updates that an object keeps, as upstream.
const MOST_UPDATES: usize = 10;

/// Joins the oldest updates of a version when there are too many.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    loop {
        let mut updates: Vec<usize> =
            (0..entries.len()).filter(|at| entries[*at].operation == Operation::Update).collect();
        if updates.len() <= MOST_UPDATES {
            return;
        }
        updates.sort_by_key(|at| (entries[*at].time.clone(), entries[*at].manager.clone()));
        // The two oldest of one version; where each has a version of its own, nothing can be joined.
        let pair = updates.iter().enumerate().find_map(|(n, at)| {
            let older = updates[..n].iter().find(|older| entries[**older].api_version == entries[*at].api_version)?;
            Some((*older, *at))
        });
        let Some((older, newer)) = pair else { return };
        let joined = Entry {
            manager: "ancient-changes".to_owned(),
            subresource: String::new(),
            fields: entries[older].fields.union(&entries[newer].fields),
            ..entries[newer].clone()
        };
        entries[older] = joined;
        entries.remove(newer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::step::Step;

    fn update(manager: &str, time: &str) -> Entry {
        let mut fields = FieldSet::default();
        fields.insert(&[Step::field(manager)]);
        Entry {
            manager: manager.to_owned(),
            operation: Operation::Update,
            api_version: "v1".to_owned(),
            subresource: String::new(),
            time: Some(time.to_owned()),
            fields,
        }
    }

    #[test]
    fn entries_are_read_as_they_are_written_appliers_first() {
        let mut applier = update("z", "2026-01-02T00:00:00Z");
        applier.operation = Operation::Apply;
        let status = Entry { subresource: "status".to_owned(), ..update("a", "2026-01-01T00:00:00Z") };
        let entries = vec![status, applier, update("b", "2025-01-01T00:00:00Z")];
        let mut object = json!({"kind": "Pod"});
        put(&mut object, entries.clone());
        let order: Vec<_> =
            object["metadata"]["managedFields"].as_array().unwrap().iter().map(|e| e["manager"].clone()).collect();
        assert_eq!(order, ["z", "b", "a"]);
        let read = take(&mut object).unwrap();
        assert!(entries.iter().all(|entry| read.contains(entry)) && read.len() == 3);
        assert_eq!(object, json!({"kind": "Pod", "metadata": {}}));
    }

    #[test]
    fn what_is_no_entry_is_not_understood() {
        let good = json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        let with = |key: &str, value: Value| {
            let mut entry = good.clone();
            entry[key] = value;
            take(&mut json!({"metadata": {"managedFields": [entry]}}))
        };
        assert!(with("manager", json!("m")).is_some());
        assert_eq!(with("operation", json!("Odd")), None);
        assert_eq!(with("fieldsType", json!("FieldsV2")), None);
        assert_eq!(with("fieldsV1", json!({"bad": {}})), None);
        assert_eq!(with("apiVersion", json!("")), None);
    }

    #[test]
    fn managers_are_named_as_upstream_names_them() {
        let mut entry = update("m", "");
        assert_eq!(entry.display(), r#""m" using v1"#);
        entry.subresource = "status".to_owned();
        assert_eq!(entry.display(), r#""m" with subresource "status" using v1"#);
        entry.operation = Operation::Apply;
        assert_eq!(entry.display(), r#""m" with subresource "status""#);
    }

    #[test]
    fn the_oldest_updates_become_ancient_changes() {
        let mut entries: Vec<Entry> =
            (0..13).map(|n| update(&format!("m{n}"), &format!("2026-01-{:02}T00:00:00Z", n + 1))).collect();
        let mut applier = update("a", "2020-01-01T00:00:00Z");
        applier.operation = Operation::Apply;
        entries.push(applier);
        cap(&mut entries);
        let updates: Vec<_> = entries.iter().filter(|e| e.operation == Operation::Update).collect();
        assert_eq!(updates.len(), MOST_UPDATES);
        let ancient = updates.iter().find(|e| e.manager == "ancient-changes").unwrap();
        assert_eq!(ancient.fields.paths().len(), 4);
        assert_eq!(ancient.time.as_deref(), Some("2026-01-04T00:00:00Z"));
    }
}
