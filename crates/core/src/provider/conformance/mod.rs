//! The Provider port's contract as checks that any provider can run against itself.
//!
//! The checks run one after the other on one provider and clean up behind themselves. They wait for what they wait for, at most
//! [`Harness::patience`] each time, on tokio's clock; a provider on real infrastructure gives them minutes.

mod checks;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::time::{Instant, sleep};

use super::{DesiredPod, HeldPod, Notices, Provider, ProviderError, StatusSink};
use crate::identity::PodKey;

/// What the checks need of who runs them.
pub trait Harness: Sync {
    /// The provider to check. It holds no Pods.
    fn provider(&self) -> Arc<dyn Provider>;
    /// A Pod that this provider can run and that goes on until it is deleted, of this name and uid in the namespace
    /// `default`.
    fn pod(&self, name: &str, uid: &str) -> Pod;
    /// Longest wait for something to come about.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// A promise that was not kept.
#[derive(Debug, thiserror::Error)]
#[error("{check}: {why}")]
pub struct Violation {
    /// The check's name.
    pub check: &'static str,
    /// What was expected and what happened.
    pub why: String,
}

/// Runs every check; returns what was violated.
pub async fn check(harness: &dyn Harness) -> Vec<Violation> {
    let provider = harness.provider();
    let heard = Arc::new(Heard::default());
    let notices = provider.notify(heard.clone());
    let bench = Bench { harness, provider, heard, notices };
    let mut violations = Vec::new();
    macro_rules! run {
        ($($name:ident),+ $(,)?) => {$(
            if let Err(why) = checks::$name(&bench).await {
                violations.push(Violation { check: stringify!($name), why });
            }
            bench.clean().await;
        )+};
    }
    run!(
        unknown_pods_are_none,
        a_created_pod_is_held_and_listed,
        creating_twice_is_one_pod,
        its_status_arrives,
        updates_are_kept,
        updating_an_unknown_pod_is_not_found,
        deleting_ends_and_forgets,
        deleting_twice_and_the_unknown_succeeds,
        a_uid_is_a_pod_of_its_own,
        dropped_calls_leave_what_is_listed,
    );
    violations
}

/// What the provider told.
#[derive(Default)]
struct Heard {
    news: Mutex<Vec<(PodKey, Option<PodStatus>)>>,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Heard")
    }
}

impl Heard {
    fn any(&self, what: impl Fn(&PodKey, Option<&PodStatus>) -> bool) -> bool {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.iter().any(|(key, status)| what(key, status.as_ref()))
    }

    fn push(&self, key: &PodKey, status: Option<PodStatus>) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), status));
    }
}

impl StatusSink for Heard {
    fn changed(&self, key: &PodKey, status: PodStatus) {
        self.push(key, Some(status));
    }

    fn forgotten(&self, key: &PodKey) {
        self.push(key, None);
    }

    fn evicted(&self, _key: &PodKey, _grace: Duration) {}
}

/// What a check works with.
struct Bench<'a> {
    harness: &'a dyn Harness,
    provider: Arc<dyn Provider>,
    heard: Arc<Heard>,
    notices: Notices,
}

impl Bench<'_> {
    fn desired(&self, name: &str, uid: &str) -> Result<(PodKey, DesiredPod), String> {
        let pod = Arc::new(self.harness.pod(name, uid));
        let key = PodKey::of(&pod).map_err(|error| format!("the harness made a bad pod: {error}"))?;
        Ok((key, DesiredPod { pod, objects: Arc::default() }))
    }

    async fn created(&self, name: &str, uid: &str) -> Result<(PodKey, DesiredPod), String> {
        let (key, desired) = self.desired(name, uid)?;
        self.provider.create(&desired).await.map_err(|error| failed("create", &error))?;
        Ok((key, desired))
    }

    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, String> {
        self.provider.get(key).await.map_err(|error| failed("get", &error))
    }

    /// Keys that are listed, sorted.
    async fn listed(&self) -> Result<Vec<PodKey>, String> {
        let held = self.provider.list().await.map_err(|error| failed("list", &error))?;
        let mut keys: Vec<PodKey> = held.into_iter().map(|pod| pod.key).collect();
        keys.sort();
        Ok(keys)
    }

    async fn delete(&self, key: &PodKey) -> Result<(), String> {
        match self.provider.delete(key, Duration::ZERO).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(failed("delete", &error)),
        }
    }

    /// Waits until the Pod is not held.
    async fn forgotten(&self, key: &PodKey) -> Result<(), String> {
        let deadline = Instant::now() + self.harness.patience();
        while self.get(key).await?.is_some() {
            self.pause(deadline, "a deleted pod to be forgotten").await?;
        }
        Ok(())
    }

    async fn pause(&self, deadline: Instant, what: &str) -> Result<(), String> {
        if Instant::now() >= deadline {
            return Err(format!("waited {} s for {what}", self.harness.patience().as_secs()));
        }
        sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    /// Deletes what a check left behind.
    async fn clean(&self) {
        for key in self.listed().await.unwrap_or_default() {
            drop(self.delete(&key).await);
            drop(self.forgotten(&key).await);
        }
    }
}

fn failed(operation: &str, error: &ProviderError) -> String {
    format!("{operation} failed: {}", crate::runtime::error_chain(error))
}
