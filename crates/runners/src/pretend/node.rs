//! A node that only pretends: it takes every Pod, says that it runs, is the runner in it, and says that it has ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Binding, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::controller::ANNOTATION_RUNNER;
use crate::forge::lookalike::Lookalike;
use crate::life::ANNOTATION_ID;
use crate::set::LABEL_SET;

const NAME: &str = "pretended";

/// The node.
pub struct PretendedNode {
    api: Api<Pod>,
    forge: Arc<Lookalike>,
    job: fn(u64) -> Duration,
    /// When each Pod was first seen.
    created: Mutex<HashMap<String, Instant>>,
    here: Mutex<HashSet<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for PretendedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PretendedNode").finish_non_exhaustive()
    }
}

impl PretendedNode {
    /// A node for the Pods of sets in a namespace. `job` says how long the job of a number takes.
    #[must_use]
    pub fn new(client: Client, namespace: &str, forge: Arc<Lookalike>, job: fn(u64) -> Duration) -> Arc<Self> {
        let api = Api::namespaced(client, namespace);
        Arc::new(Self { api, forge, job, created: Mutex::default(), here: Mutex::default() })
    }

    /// When the Pods were first seen.
    #[must_use]
    pub fn created(&self) -> Vec<Instant> {
        lock(&self.created).values().copied().collect()
    }

    /// How many Pods there are.
    #[must_use]
    pub fn pods(&self) -> usize {
        lock(&self.here).len()
    }

    /// Runs what comes, until it is dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            let params = WatchParams::default().labels(LABEL_SET).timeout(290);
            if let Ok(events) = self.api.watch(&params, "0").await {
                let mut events = events.boxed();
                while let Ok(Some(event)) = events.try_next().await {
                    self.hear(event);
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn hear(self: &Arc<Self>, event: WatchEvent<Pod>) {
        let (pod, gone) = match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
            WatchEvent::Deleted(pod) => (pod, true),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return,
        };
        let (Some(name), Some(uid)) = (pod.metadata.name.clone(), pod.metadata.uid.clone()) else { return };
        if gone {
            lock(&self.here).remove(&uid);
            return;
        }
        lock(&self.here).insert(uid.clone());
        let new = {
            let mut created = lock(&self.created);
            let known = created.contains_key(&uid);
            created.entry(uid).or_insert_with(Instant::now);
            !known
        };
        if new {
            let annotations = pod.metadata.annotations.unwrap_or_default();
            let runner = annotations.get(ANNOTATION_RUNNER).cloned().unwrap_or_default();
            let id = annotations.get(ANNOTATION_ID).cloned().unwrap_or_default();
            tokio::spawn(Arc::clone(self).live(name, format!("jit-{id}-{runner}")));
        } else if pod.metadata.deletion_timestamp.is_some() {
            let own = Arc::clone(self);
            tokio::spawn(async move {
                // Its containers have ended: the API may forget it.
                let _ = own.api.delete(&name, &DeleteParams::default().grace_period(0)).await;
            });
        }
    }

    async fn live(self: Arc<Self>, name: String, configuration: String) {
        let target = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": NAME}});
        if let Ok(binding) = serde_json::from_value::<Binding>(target) {
            let params = PostParams::default();
            let bound = self.api.create_subresource("binding", &name, &params, &binding);
            // Who else has bound it does as well.
            let _: Result<Value, _> = bound.await;
        }
        let started = self.forge.with(|_, now| now);
        self.say(&name, "Running", &json!({"running": {"startedAt": started}})).await;
        let Some(id) = self.forge.with(|state, _| state.connect(&configuration)) else { return };
        loop {
            if let Some(job) = self.forge.with(|state, now| state.take_job(id, now)) {
                sleep((self.job)(job.id.0)).await;
                break;
            }
            // It was asked to go before it had a job.
            if !self.forge.with(|state, _| state.knows(id)) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.forge.with(|state, _| state.finish(id));
        self.say(&name, "Succeeded", &json!({"terminated": {"exitCode": 0}})).await;
    }

    async fn say(&self, name: &str, phase: &str, state: &Value) {
        let container = json!({"name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": state});
        let patch = json!({"status": {"phase": phase, "containerStatuses": [container]}});
        // A conflict is no matter: patches of one Pod come one after the other.
        let _ = self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    }
}
