//! What two answers differ in. Pure.

use std::fmt;

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    /// The text as a string where it is no JSON.
    pub(crate) body: Value,
}

/// A place where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) step: &'static str,
    /// `code`, `warnings`, or the path of a field: `body.metadata.labels`.
    pub(crate) place: String,
    pub(crate) ours: Value,
    pub(crate) theirs: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}\n  ours   {}\n  theirs {}", self.step, self.place, self.ours, self.theirs)
    }
}

/// What no two servers have in common: identities, revisions, times.
const OWN: [&str; 10] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "time",
    "lastTransitionTime",
    "deletionTimestamp",
    "continue",
    "lastProbeTime",
    "lastUpdateTime",
    "storageVersionHash",
];

/// Nothing, in any of the ways in which Go writes it or leaves it out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A text without the uids in it.
fn without_uids(text: &str) -> String {
    let is_uid = |word: &str| word.len() == 36 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let words = text.split_inclusive(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    words
        .map(|word| if is_uid(word.trim_end_matches(|c: char| !c.is_ascii_hexdigit())) { "UID" } else { word })
        .collect()
}

/// Go tells what is wrong in any order: sorted, and of several the sentence that joins them is left out.
fn sorted(mut body: Value) -> Value {
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut)
        && causes.len() > 1
    {
        causes.sort_by_key(ToString::to_string);
        body["message"] = "several".into();
    }
    body
}

/// Everything that differs.
pub(crate) fn differences(step: &'static str, ours: &Answer, theirs: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |place: &str, ours: Value, theirs: Value| {
        if ours != theirs {
            found.push(Difference { step, place: place.to_owned(), ours, theirs });
        }
    };
    differ("code", ours.code.into(), theirs.code.into());
    differ("warnings", ours.warnings.clone().into(), theirs.warnings.clone().into());
    walk("body", &sorted(ours.body.clone()), &sorted(theirs.body.clone()), &mut |place, ours, theirs| {
        found.push(Difference { step, place: place.to_owned(), ours: ours.clone(), theirs: theirs.clone() });
    });
    found
}

fn walk(place: &str, ours: &Value, theirs: &Value, differ: &mut impl FnMut(&str, &Value, &Value)) {
    match (ours, theirs) {
        (Value::Object(our), Value::Object(their)) => {
            let mut names: Vec<&String> = our.keys().chain(their.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let (one, other) = (our.get(name).unwrap_or(&Value::Null), their.get(name).unwrap_or(&Value::Null));
                // Of what is each one's own, that it is there.
                if OWN.contains(&name.as_str()) && is_nothing(one) == is_nothing(other) {
                    continue;
                }
                walk(&format!("{place}.{name}"), one, other, differ);
            }
        }
        (Value::Array(our), Value::Array(their)) if our.len() == their.len() => {
            for (at, (one, other)) in our.iter().zip(their).enumerate() {
                walk(&format!("{place}[{at}]"), one, other, differ);
            }
        }
        (one, other) if one == other || is_nothing(one) && is_nothing(other) => {}
        (Value::String(one), Value::String(other)) if without_uids(one) == without_uids(other) => {}
        (one, other) => differ(place, one, other),
    }
}

#[test]
fn identities_and_times_do_not_differ_and_everything_else_does() {
    use serde_json::json;
    let answer = |body: Value| Answer { code: 200, warnings: Vec::new(), body };
    let ours = answer(json!({"metadata": {"uid": "a", "name": "n"}, "list": [1, {"x": 1}]}));
    let theirs = answer(json!({"metadata": {"uid": "b", "name": "n"}, "list": [1, {"x": 2}], "more": true}));
    let places: Vec<String> = differences("s", &ours, &theirs).into_iter().map(|d| d.place).collect();
    assert_eq!(places, ["body.list[1].x", "body.more"]);
    let without = answer(json!({"metadata": {"name": "n"}}));
    assert_eq!(differences("s", &answer(json!({"metadata": {"name": "n", "uid": "a"}})), &without).len(), 1);
}
