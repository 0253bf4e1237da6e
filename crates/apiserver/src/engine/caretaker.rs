//! What a server does by itself: namespaces get what each has, those that end are emptied, objects whose owners are gone are
//! collected, old events are forgotten, definitions go with their objects.
//!
//! One task, by level: each round looks at what is there and does what follows. A round is due when something has changed, and
//! each half minute for what was missed. What is remembered between rounds, who owns whom ([`super::relations`]), is made anew
//! at the start, so it may be stopped anywhere.

use std::time::Duration;

use serde_json::{Value, json};

use super::collect::Collector;
use super::{DeleteOptions, Engine, ListOptions, Place, meta};
use crate::error::ApiError;
use crate::kinds::find;

const ROUNDS: Duration = Duration::from_secs(30);
/// A change is followed by others: one round for all of them.
const SETTLE: Duration = Duration::from_millis(20);
/// How long events are kept, as upstream.
const EVENTS_SECONDS: i64 = 3600;
/// Events of one round.
const AT_ONCE: usize = 500;

pub(super) async fn run(engine: &Engine) {
    let mut seen = 0;
    let mut collector = Collector::default();
    let mut revisions = engine.store.shared.revisions();
    loop {
        let revision = engine.store.revision();
        round(engine, &mut collector).await;
        // What the round itself wrote may have consequences: another one, until nothing changes.
        if revision != seen && engine.store.revision() != revision {
            seen = revision;
            tokio::time::sleep(SETTLE).await;
            continue;
        }
        if revision == seen {
            forget_events(engine).await;
        }
        seen = revision;
        // Errors and time-outs are the same here: the next look.
        drop(tokio::time::timeout(ROUNDS, revisions.changed()).await);
        tokio::time::sleep(SETTLE).await;
    }
}

async fn round(engine: &Engine, collector: &mut Collector) {
    let (furnished, announced) = (engine.furnish_all().await, engine.announce_again().await);
    let certified = engine.certify().await;
    let (defined, emptied) = (engine.end_definitions().await, end_namespaces(engine).await);
    for result in [furnished, announced, certified, defined, emptied, collector.collect(engine).await] {
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
}
