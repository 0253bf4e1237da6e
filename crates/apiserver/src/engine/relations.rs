//! Who owns whom, kept up to date by the changes of the store: what follows from one is found without looking at everything.
//!
//! Pure: [`Relations::apply`] takes one change, [`Relations::due`] names the objects about which something may have to be done,
//! [`Relations::decide`] says what. Owners are known by their uids alone, as upstream's collector knows them.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use crate::store::{Entry, Key};

/// A uid as a number; what is none has no owner and owns nothing.
type Uid = u128;

/// What is known of an object.
#[derive(Debug)]
struct Known {
    key: Key,
    owners: Box<[Uid]>,
    end: End,
}

/// Whether an object is about to go, and what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It stays.
    None,
    /// It goes, as soon as nothing else holds it.
    Going,
    /// It goes after those that it owns.
    AfterDependents,
    /// It goes after those that it owns have been let go.
    AfterOrphans,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Every owner is gone, or one waits for this object: it is deleted.
    Delete {
        /// Which.
        key: Key,
        /// Exactly that one.
        uid: String,
        /// As an owner that waits needs it.
        policy: &'static str,
    },
    /// An owner's end does not concern it: the owner is forgotten.
    Disown {
        /// Which.
        key: Key,
        /// The owner.
        owner: String,
    },
    /// What it waited for is so: the finalizer goes.
    Release {
        /// Which.
        key: Key,
        /// The finalizer.
        finalizer: &'static str,
    },
}

/// The part of an object that this is about.
#[derive(Debug, Deserialize)]
struct Light {
    metadata: Meta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// All objects by uid, and those that each owns.
#[derive(Debug, Default)]
pub(super) struct Relations {
    objects: HashMap<Uid, Known>,
    dependents: HashMap<Uid, BTreeSet<Uid>>,
    due: BTreeSet<Uid>,
}

fn number(uid: &str) -> Option<Uid> {
    let mut digits = uid.bytes().filter(|byte| *byte != b'-');
    let number = digits.try_fold((0, 0), |(number, count): (Uid, usize), byte| {
        Some((number << 4 | Uid::from(char::from(byte).to_digit(16)?), count + 1))
    });
    number.filter(|(_, count)| *count == 32).map(|(number, _)| number)
}

fn text(uid: Uid) -> String {
    let hex = format!("{uid:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl Relations {
    /// Takes a change: the object as it is, or as it was when it went.
    pub(super) fn apply(&mut self, key: &Key, entry: &Entry, gone: bool) {
        // What can't be read owns nothing; only a damaged log has such objects.
        let Ok(Light { metadata }) = serde_json::from_slice::<Light>(&entry.bytes) else { return };
        let Some(uid) = number(&metadata.uid) else { return };
        if gone {
            return self.remove(uid);
        }
        let holds = |name: &str| metadata.finalizers.iter().any(|held| held == name);
        let end = match () {
            () if metadata.deletion_timestamp.is_none() => End::None,
            () if holds("orphan") => End::AfterOrphans,
            () if holds("foregroundDeletion") => End::AfterDependents,
            () => End::Going,
        };
        // An owner whose uid is none is never there: as a number that nobody has, it counts as gone.
        let owners: Box<[Uid]> = entry.attributes.owners.iter().map(|uid| number(uid).unwrap_or_default()).collect();
        let before = self.objects.get(&uid);
        let changed = before.is_none_or(|before| before.owners != owners);
        if changed {
            let lost = before.map(|before| before.owners.clone()).unwrap_or_default();
            for owner in lost {
                self.disown(owner, uid);
            }
            for owner in &owners {
                self.dependents.entry(*owner).or_default().insert(uid);
            }
            if !owners.is_empty() {
                self.due.insert(uid);
            }
        }
        if end != End::None {
            self.due.insert(uid);
            self.due.extend(self.dependents.get(&uid).into_iter().flatten());
        }
        self.objects.insert(uid, Known { key: key.clone(), owners, end });
    }

    fn disown(&mut self, owner: Uid, uid: Uid) {
        if let Some(dependents) = self.dependents.get_mut(&owner) {
            dependents.remove(&uid);
            if dependents.is_empty() {
                self.dependents.remove(&owner);
            }
        }
        // It may have waited for that.
        self.due.insert(owner);
    }

    fn remove(&mut self, uid: Uid) {
        let Some(known) = self.objects.remove(&uid) else { return };
        for owner in known.owners {
            self.disown(owner, uid);
        }
        self.due.extend(self.dependents.get(&uid).into_iter().flatten());
    }

    /// Takes the objects about which something may have to be done.
    pub(super) fn due(&mut self) -> BTreeSet<u128> {
        std::mem::take(&mut self.due)
    }

    /// Looks at an object again, next time.
    pub(super) fn again(&mut self, uid: u128) {
        self.due.insert(uid);
    }

    fn end_of(&self, uid: Uid) -> Option<End> {
        self.objects.get(&uid).map(|known| known.end)
    }

    /// What is to be done about an object, as everything is now.
    pub(super) fn decide(&self, uid: u128) -> Vec<Step> {
        let Some(known) = self.objects.get(&uid) else { return Vec::new() };
        let key = || known.key.clone();
        match known.end {
            End::AfterDependents if !self.dependents.contains_key(&uid) => {
                return vec![Step::Release { key: key(), finalizer: "foregroundDeletion" }];
            }
            End::AfterOrphans => {
                let dependents =
                    self.dependents.get(&uid).into_iter().flatten().filter_map(|uid| self.objects.get(uid));
                let disown = |known: &Known| Step::Disown { key: known.key.clone(), owner: text(uid) };
                let mut steps: Vec<Step> = dependents.map(disown).collect();
                steps.push(Step::Release { key: key(), finalizer: "orphan" });
                return steps;
            }
            End::AfterDependents | End::Going => return Vec::new(),
            End::None => {}
        }
        let ends: Vec<Option<End>> = known.owners.iter().map(|owner| self.end_of(*owner)).collect();
        let waits = |end: &Option<End>| *end == Some(End::AfterDependents);
        // Whoever is let go by an owner stays for that reason alone, until it is.
        let stays = |end: &Option<End>| end.is_some() && !waits(end);
        if ends.is_empty() || ends.iter().any(stays) {
            return Vec::new();
        }
        let policy = if ends.iter().any(waits) { "Foreground" } else { "Background" };
        vec![Step::Delete { key: key(), uid: text(uid), policy }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use crate::store::{Attributes, Draft};

    fn key(name: &str) -> Key {
        Key::new("configmaps", "default", name)
    }

    fn uid(name: &str) -> String {
        text(u128::from(name.as_bytes()[0]))
    }

    fn entry(name: &str, owners: &[&str], more: &Value) -> Entry {
        let mut object = json!({"metadata": {"name": name, "uid": uid(name)}});
        for (field, value) in more.as_object().into_iter().flatten() {
            object["metadata"][field] = value.clone();
        }
        let owners = owners.iter().map(|owner| uid(owner).into()).collect();
        Entry::new(&Draft::of(&object), 1, 1, Arc::new(Attributes { owners, ..Attributes::default() }))
    }

    fn ending(finalizers: &[&str]) -> Value {
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers})
    }

    /// Everything that is to be done, after all that was due has been looked at.
    fn steps(relations: &mut Relations) -> Vec<Step> {
        let due = relations.due();
        due.into_iter().flat_map(|uid| relations.decide(uid)).collect()
    }

    fn family() -> Relations {
        let mut relations = Relations::default();
        relations.apply(&key("a"), &entry("a", &[], &Value::Null), false);
        relations.apply(&key("b"), &entry("b", &["a"], &Value::Null), false);
        relations.apply(&key("c"), &entry("c", &["a", "b"], &Value::Null), false);
        assert_eq!(steps(&mut relations), []);
        relations
    }

    #[test]
    fn uids_are_numbers_and_back() {
        let uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(text(number(uid).unwrap()), uid);
        for bad in ["", "x", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1fg"] {
            assert_eq!(number(bad), None);
        }
    }

    #[test]
    fn what_has_one_living_owner_stays_and_goes_with_the_last() {
        let mut relations = family();
        relations.apply(&key("a"), &entry("a", &[], &Value::Null), true);
        let gone = |name: &str, policy| Step::Delete { key: key(name), uid: uid(name), policy };
        assert_eq!(steps(&mut relations), [gone("b", "Background")]);
        relations.apply(&key("b"), &entry("b", &["a"], &Value::Null), true);
        assert_eq!(steps(&mut relations), [gone("c", "Background")]);
        assert_eq!(steps(&mut relations), [], "nothing is looked at twice for one change");
    }

    #[test]
    fn an_owner_that_waits_takes_its_dependents_first() {
        let mut relations = family();
        relations.apply(&key("a"), &entry("a", &[], &ending(&["foregroundDeletion"])), false);
        let first = |name: &str| Step::Delete { key: key(name), uid: uid(name), policy: "Foreground" };
        assert_eq!(steps(&mut relations), [first("b")], "c has another owner");
        relations.apply(&key("b"), &entry("b", &["a"], &Value::Null), true);
        assert_eq!(steps(&mut relations), [first("c")]);
        relations.apply(&key("c"), &entry("c", &["a", "b"], &Value::Null), true);
        assert_eq!(steps(&mut relations), [Step::Release { key: key("a"), finalizer: "foregroundDeletion" }]);
    }

    #[test]
    fn an_owner_that_orphans_lets_its_dependents_go_and_they_stay() {
        let mut relations = family();
        relations.apply(&key("a"), &entry("a", &[], &ending(&["orphan"])), false);
        let disown = |name: &str| Step::Disown { key: key(name), owner: uid("a") };
        let release = Step::Release { key: key("a"), finalizer: "orphan" };
        assert_eq!(steps(&mut relations), [disown("b"), disown("c"), release]);
    }

    #[test]
    fn an_owner_that_never_was_counts_as_gone() {
        let mut relations = Relations::default();
        relations.apply(&key("d"), &entry("d", &["z"], &Value::Null), false);
        let deleted = Step::Delete { key: key("d"), uid: uid("d"), policy: "Background" };
        assert_eq!(steps(&mut relations), [deleted]);
        // One that is being deleted already is left alone.
        relations.apply(&key("d"), &entry("d", &["z"], &ending(&["example.com/held"])), false);
        assert_eq!(steps(&mut relations), []);
    }
}
