//! Which names a definition gets, and what its status says. Pure.
//!
//! Names belong to who has them: in one group, resources, short names and singulars are one set, kinds and kinds of lists
//! another. A definition that wants one that is taken is not established; it gets the name when its owner goes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

const CONDITION_FIELDS: [&str; 3] = ["status", "reason", "message"];

/// What a definition comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settled {
    /// Its new status.
    pub(crate) status: Value,
    /// Whether that differs from what it has.
    pub(crate) changed: bool,
    /// Whether its objects are served.
    pub(crate) established: bool,
}

/// What all definitions come to, in their order. `now` as RFC 3339.
pub(crate) fn settle(definitions: &[Value], now: &str) -> Vec<Settled> {
    let mut all: Vec<Value> = definitions.to_vec();
    // Those who came first come first.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| definitions[*at]["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned());
    // A name that is let go of may be another's: as often as something changes, and each can change once for each other.
    for _ in 0..=all.len() {
        let mut changed = false;
        for at in &order {
            let status = status(&all, *at, now);
            if all[*at]["status"] != status {
                all[*at]["status"] = status;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let settled = all.into_iter().zip(definitions).map(|(mut new, old)| {
        let established = condition(&new["status"], "Established").is_some_and(|found| found["status"] == "True");
        let status = new["status"].take();
        Settled { changed: status != old["status"], established, status }
    });
    settled.collect()
}

fn status(all: &[Value], at: usize, now: &str) -> Value {
    let definition = &all[at];
    let wanted = &definition["spec"]["names"];
    let mut status = if definition["status"].is_object() { definition["status"].clone() } else { json!({}) };
    let mut accepted = if status["acceptedNames"].is_object() { status["acceptedNames"].clone() } else { json!({}) };
    let (resources, kinds) = taken(all, at);
    // The last refusal is the one that is told, as upstream.
    let mut refused: Option<(&str, String)> = None;
    let claim = |field: &'static str, reason: &'static str, used: &BTreeSet<&str>, accepted: &mut Value| {
        let name = wanted[field].as_str().unwrap_or_default();
        if accepted[field].as_str() != Some(name) && used.contains(name) {
            return Some((reason, format!("{name:?} is already in use")));
        }
        if !name.is_empty() {
            accepted[field] = name.into();
        }
        None
    };
    refused = claim("plural", "PluralConflict", &resources, &mut accepted).or(refused);
    refused = claim("singular", "SingularConflict", &resources, &mut accepted).or(refused);
    let shorts: Vec<&str> = wanted["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let conflicts: Vec<String> = shorts
        .iter()
        .filter(|name| resources.contains(**name))
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    match conflicts.as_slice() {
        [] => copy(wanted, &mut accepted, "shortNames"),
        [one] => refused = Some(("ShortNamesConflict", one.clone())),
        many => refused = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    refused = claim("kind", "KindConflict", &kinds, &mut accepted).or(refused);
    refused = claim("listKind", "ListKindConflict", &kinds, &mut accepted).or(refused);
    copy(wanted, &mut accepted, "categories");
    for field in ["plural", "kind"] {
        if !accepted[field].is_string() {
            accepted[field] = "".into();
        }
    }
    status["acceptedNames"] = accepted;
    let established = condition(&status, "Established").is_some_and(|found| found["status"] == "True");
    match refused {
        Some((reason, message)) => {
            set(&mut status, "NamesAccepted", "False", reason, &message, now);
            if !established {
                set(&mut status, "Established", "False", "NotAccepted", "not all names are accepted", now);
            }
        }
        None => {
            set(&mut status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            let message = "the initial names have been accepted";
            set(&mut status, "Established", "True", "InitialNamesAccepted", message, now);
        }
    }
    store_version(definition, &mut status);
    status
}

/// The names of the others of its group: of resources and of kinds.
fn taken(all: &[Value], at: usize) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (other, definition) in all.iter().enumerate() {
        if other == at || definition["spec"]["group"] != all[at]["spec"]["group"] {
            continue;
        }
        let names = &definition["status"]["acceptedNames"];
        let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty());
        resources.extend([text("plural"), text("singular")].into_iter().flatten());
        resources.extend(names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str));
        kinds.extend([text("kind"), text("listKind")].into_iter().flatten());
    }
    (resources, kinds)
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(map) = to.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// The storage version is among those that objects were stored in.
fn store_version(definition: &Value, status: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let mut versions = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
    let mut stored = status["storedVersions"].as_array().cloned().unwrap_or_default();
    if let Some(version) = versions.next().filter(|version| !stored.contains(version)) {
        stored.push(version);
    }
    status["storedVersions"] = Value::Array(stored);
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Sets a condition; its time is that of the change of its status.
fn set(status: &mut Value, kind: &str, value: &str, reason: &str, message: &str, now: &str) {
    let mut new = json!({
        "type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(found) => {
            if found["status"] == value {
                new["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            if CONDITION_FIELDS.iter().any(|field| found[field] != new[field]) {
                *found = new;
            }
        }
        None => conditions.push(new),
    }
}

/// Says of a definition that its objects are going.
pub(crate) fn terminating(definition: &mut Value, now: &str) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set(&mut definition["status"], "Terminating", "True", "InstanceDeletionPending", message, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, shorts: &[&str], at: &str) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.x.example"), "creationTimestamp": at},
            "spec": {
                "group": "x.example",
                "names": {
                    "plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind, "listKind": format!("{kind}List"),
                    "shortNames": shorts,
                },
                "versions": [{"name": "v1", "storage": true}, {"name": "v2", "storage": false}],
            },
        })
    }

    fn reasons(settled: &Settled) -> Vec<(String, String)> {
        let conditions = settled.status["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|c| (c["type"].as_str().unwrap().to_owned(), c["reason"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn a_definition_without_rivals_is_established_at_once() {
        let settled = &settle(&[definition("as", "A", &["a1"], "1")], "now")[0];
        assert!(settled.established && settled.changed);
        assert_eq!(
            reasons(settled),
            [("NamesAccepted".into(), "NoConflicts".into()), ("Established".into(), "InitialNamesAccepted".into())]
        );
        assert_eq!(settled.status["storedVersions"], json!(["v1"]));
        assert_eq!(settled.status["acceptedNames"]["shortNames"], json!(["a1"]));
        let mut again = definition("as", "A", &["a1"], "1");
        again["status"] = settled.status.clone();
        assert!(!settle(&[again], "later")[0].changed);
    }

    #[test]
    fn a_name_that_is_taken_is_refused_until_it_is_free() {
        let (mut first, second) = (definition("as", "A", &["x"], "1"), definition("bs", "A", &["y"], "2"));
        let settled = settle(&[second.clone(), first.clone()], "now");
        assert!(!settled[0].established && settled[1].established);
        assert_eq!(reasons(&settled[0])[0].1, "ListKindConflict");
        assert_eq!(reasons(&settled[0])[1].1, "NotAccepted");
        first["status"] = settled[1].status.clone();
        let mut blocked = second;
        blocked["status"] = settled[0].status.clone();
        assert!(!settle(&[first, blocked.clone()], "now").iter().any(|settled| settled.changed));
        let free = &settle(&[blocked], "later")[0];
        assert!(free.established && free.changed);
        assert_eq!(free.status["conditions"][0]["lastTransitionTime"], "later");
    }

    #[test]
    fn short_names_conflict_with_other_resources_too() {
        let settled = settle(&[definition("as", "A", &[], "1"), definition("bs", "B", &["as", "ok"], "2")], "now");
        assert_eq!(reasons(&settled[1])[0].1, "ShortNamesConflict");
        assert_eq!(settled[1].status["conditions"][0]["message"], r#""as" is already in use"#);
    }

    #[test]
    fn what_is_established_stays_so_when_new_names_are_refused() {
        let (first, second) = (definition("as", "A", &[], "1"), definition("bs", "B", &[], "2"));
        let settled = settle(&[first.clone(), second.clone()], "now");
        let (mut first, mut second) = (first, second);
        first["status"] = settled[0].status.clone();
        second["status"] = settled[1].status.clone();
        second["spec"]["names"]["shortNames"] = json!(["as"]);
        let settled = settle(&[first, second], "later");
        assert!(settled[1].established);
        assert_eq!(settled[1].status["acceptedNames"]["shortNames"], json!([]));
        assert_eq!(reasons(&settled[1])[0].1, "ShortNamesConflict");
    }
}
