//! What a server does by itself: namespaces get what each has, those that end are emptied, objects whose owners are gone are
//! collected, old events are forgotten, definitions go with their objects.
//!
//! One task, by level: each round looks at what is there and does what follows. A round is due when something was deleted or
//! marked, and each half minute for what was missed. Nothing is remembered between rounds, so it may be stopped anywhere.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{DeleteOptions, Engine, ListOptions, Part, Place, meta};
use crate::error::ApiError;
use crate::kinds::{Kind, find};

const ROUNDS: Duration = Duration::from_secs(30);
/// A change is followed by others: one round for all of them.
const SETTLE: Duration = Duration::from_millis(20);
/// How long events are kept, as upstream.
const EVENTS_SECONDS: i64 = 3600;
/// Events of one round.
const AT_ONCE: usize = 500;

pub(super) async fn run(engine: &Engine) {
    let mut seen = 0;
    let mut revisions = engine.store.shared.revisions();
    loop {
        let revision = engine.store.revision();
        if revision != seen {
            round(engine).await;
            // What the round itself wrote may have consequences: another one, until nothing changes.
            seen = revision;
            if engine.store.revision() != revision {
                tokio::time::sleep(SETTLE).await;
                continue;
            }
        } else {
            forget_events(engine).await;
        }
        // Errors and time-outs are the same here: the next look.
        drop(tokio::time::timeout(ROUNDS, revisions.changed()).await);
        tokio::time::sleep(SETTLE).await;
    }
}

async fn round(engine: &Engine) {
    let furnished = engine.furnish_all().await;
    for result in [furnished, engine.end_definitions().await, end_namespaces(engine).await, collect(engine).await] {
        if let Err(error) = result {
            tracing::warn!(%error, "could not look after the objects; it is tried again");
        }
    }
}

/// Empties namespaces that end, and lets go of the empty ones.
async fn end_namespaces(engine: &Engine) -> Result<(), ApiError> {
    let Some(kind) = find("", "v1", "namespaces") else { return Ok(()) };
    for entry in engine.list(kind, None, &ListOptions::default())?.entries {
        if entry.attributes.field("status.phase") != "Terminating" {
            continue;
        }
        let mut namespace = entry.parse().map_err(ApiError::internal)?;
        let name = meta::text(&namespace, "name").to_owned();
        let mut left = 0;
        for kind in engine.kinds().stored().into_iter().filter(|kind| kind.namespaced) {
            let deleted = DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
            engine.delete_collection(kind, Some(&name), &ListOptions::default(), &deleted).await?;
            left += engine.list(kind, Some(&name), &ListOptions::default())?.entries.len();
        }
        if left == 0 {
            namespace["spec"]["finalizers"] = json!([]);
            engine.finalize(Place { kind, namespace: "", name: &name }, &namespace).await?;
        }
    }
    Ok(())
}

/// What is to become of an object whose owners are gone.
#[derive(Debug, PartialEq)]
enum Verdict {
    Stays,
    /// Every owner is gone.
    Goes,
    /// An owner waits for its dependents and may not be kept waiting.
    GoesFirst,
}

/// By the uids of what is there, and of what waits for its dependents.
fn judge(owners: &[Box<str>], there: &HashSet<Box<str>>, waiting: &HashSet<Box<str>>) -> Verdict {
    let alive = owners.iter().filter(|uid| there.contains(*uid) && !waiting.contains(*uid)).count();
    match (owners.is_empty(), alive) {
        (true, _) | (false, 1..) => Verdict::Stays,
        (false, 0) if owners.iter().any(|uid| waiting.contains(uid)) => Verdict::GoesFirst,
        (false, 0) => Verdict::Goes,
    }
}

struct Found {
    kind: &'static Kind,
    namespace: String,
    name: String,
    uid: Box<str>,
    owners: Vec<Box<str>>,
    finalizers: Vec<String>,
    deleting: bool,
}

fn look(engine: &Engine) -> Result<Vec<Found>, ApiError> {
    let mut all = Vec::new();
    for kind in engine.kinds().stored() {
        for entry in engine.list(kind, None, &ListOptions::default())?.entries {
            let object = entry.parse().map_err(ApiError::internal)?;
            all.push(Found {
                kind,
                namespace: meta::text(&object, "namespace").to_owned(),
                name: meta::text(&object, "name").to_owned(),
                uid: meta::text(&object, "uid").into(),
                owners: entry.attributes.owners.clone(),
                finalizers: meta::finalizers(&object).into_iter().map(str::to_owned).collect(),
                deleting: meta::is_deleting(&object),
            });
        }
    }
    Ok(all)
}

/// Collects what lost its owners, and lets go of owners that waited for that.
async fn collect(engine: &Engine) -> Result<(), ApiError> {
    if !engine.has_relations() {
        return Ok(());
    }
    let all = look(engine)?;
    let there: HashSet<Box<str>> = all.iter().map(|found| found.uid.clone()).collect();
    let holding = |name: &str| -> HashSet<Box<str>> {
        let held = all.iter().filter(|found| found.deleting && found.finalizers.iter().any(|held| held == name));
        held.map(|found| found.uid.clone()).collect()
    };
    let (foreground, orphaning) = (holding("foregroundDeletion"), holding("orphan"));
    for found in &all {
        let place = Place { kind: found.kind, namespace: &found.namespace, name: &found.name };
        let dependents = |owner: &str| all.iter().any(|other| other.owners.iter().any(|uid| **uid == *owner));
        if orphaning.contains(&found.uid) || foreground.contains(&found.uid) && !dependents(&found.uid) {
            let name = if orphaning.contains(&found.uid) { "orphan" } else { "foregroundDeletion" };
            if name == "orphan" {
                for other in all.iter().filter(|other| other.owners.contains(&found.uid)) {
                    let place = Place { kind: other.kind, namespace: &other.namespace, name: &other.name };
                    without(engine, place, "ownerReferences", |owner| owner["uid"] == *found.uid).await?;
                }
            }
            without(engine, place, "finalizers", |held| held == name).await?;
        }
        if found.deleting || found.owners.iter().any(|uid| orphaning.contains(uid)) {
            continue;
        }
        let policy = match judge(&found.owners, &there, &foreground) {
            Verdict::Stays => continue,
            Verdict::Goes => "Background",
            Verdict::GoesFirst => "Foreground",
        };
        let mut options = DeleteOptions { propagation: Some(policy.to_owned()), ..DeleteOptions::default() };
        options.preconditions.uid = Some(found.uid.to_string());
        match engine.delete(place, &options).await {
            Ok(_) => {}
            // Gone, or another one by now: the next round looks again.
            Err(error) if matches!(error.code(), 404 | 409) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes entries out of a list of the metadata.
pub(super) async fn without(
    engine: &Engine,
    place: Place<'_>,
    list: &str,
    which: impl Fn(&Value) -> bool,
) -> Result<(), ApiError> {
    let change = |old: &Value| {
        let mut new = old.clone();
        if let Some(entries) = new["metadata"][list].as_array_mut() {
            entries.retain(|entry| !which(entry));
            if entries.is_empty() {
                meta::of(&mut new).remove(list);
            }
        }
        meta::of(&mut new).remove("resourceVersion");
        Ok(new)
    };
    match engine.change(place, Part::Main, &WriteOptions::default(), change).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes events that are older than their time.
async fn forget_events(engine: &Engine) {
    let Some(kind) = find("", "v1", "events") else { return };
    let oldest = engine.clock.now().as_second() - EVENTS_SECONDS;
    let Ok(list) = engine.list(kind, None, &ListOptions::default()) else { return };
    for entry in list.entries.into_iter().take(AT_ONCE) {
        let Ok(object) = entry.parse() else { continue };
        let seen = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
        let newest = seen.into_iter().find_map(|field| object.pointer(field).and_then(Value::as_str));
        let at = newest.unwrap_or_else(|| meta::text(&object, "creationTimestamp")).parse::<jiff::Timestamp>();
        if at.is_ok_and(|at| at.as_second() < oldest) {
            let (namespace, name) = (meta::text(&object, "namespace"), meta::text(&object, "name"));
            drop(engine.delete(Place { kind, namespace, name }, &DeleteOptions::default()).await);
        }
    }
}

impl Engine {
    /// Writes a namespace's own finalizers; without any, one that ends is gone.
    ///
    /// # Errors
    /// 404, 409.
    pub async fn finalize(
        &self,
        place: Place<'_>,
        namespace: &Value,
    ) -> Result<std::sync::Arc<crate::store::Entry>, ApiError> {
        for _ in 0..super::MOST_TRIES {
            let (entry, mut object) = self.load(place)?;
            object["spec"]["finalizers"] = namespace["spec"]["finalizers"].clone();
            let change = match meta::is_deleting(&object) && super::update::is_free(place.kind, &object) {
                true => crate::store::Change::Delete(None),
                false => {
                    let attributes = std::sync::Arc::new(place.kind.attributes(&object));
                    crate::store::Change::Put(crate::store::Draft::of(&object), attributes)
                }
            };
            if let Some(entry) = self.swap(place, entry.revision, change).await? {
                return Ok(entry);
            }
        }
        Err(place.modified())
    }

    /// Whether any object has owners or is held: without, there is nothing to collect and nothing to let go of.
    fn has_relations(&self) -> bool {
        self.kinds().stored().into_iter().any(|kind| {
            let resource = kind.resource();
            let all = crate::store::Range {
                resource: &resource,
                namespace: None,
                after: None,
                limit: Some(1),
                at: crate::store::At::Newest,
            };
            let related = |entry: &crate::store::Entry| entry.attributes.held || !entry.attributes.owners.is_empty();
            self.store.list(&all, |_, _, entry| related(entry)).is_ok_and(|page| !page.entries.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_living_owner_stays() {
        let set = |uids: &[&str]| uids.iter().map(|uid| (*uid).into()).collect::<HashSet<Box<str>>>();
        let owners = |uids: &[&str]| uids.iter().map(|uid| (*uid).into()).collect::<Vec<Box<str>>>();
        let there = set(&["a", "w"]);
        let waiting = set(&["w"]);
        assert_eq!(judge(&owners(&[]), &there, &waiting), Verdict::Stays);
        assert_eq!(judge(&owners(&["a", "gone"]), &there, &waiting), Verdict::Stays);
        assert_eq!(judge(&owners(&["a", "w"]), &there, &waiting), Verdict::Stays);
        assert_eq!(judge(&owners(&["gone"]), &there, &waiting), Verdict::Goes);
        assert_eq!(judge(&owners(&["w", "gone"]), &there, &waiting), Verdict::GoesFirst);
    }
}
