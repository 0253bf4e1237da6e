//! What the fake provider holds, and how time changes it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::FakePodLife;
use super::faults::{ProviderFault, ProviderFaultAction, ProviderOp};
use super::pod::{Entry, Stage};
use crate::identity::PodKey;
use crate::provider::ProviderError;

/// What is to be told of a Pod.
#[derive(Debug)]
pub(super) enum News {
    Changed(Entry),
    Forgotten,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) pods: HashMap<PodKey, Entry>,
    pub(super) life: FakePodLife,
    pub(super) faults: Vec<ProviderFault>,
    pub(super) calls: HashMap<ProviderOp, u64>,
    pub(super) starts: HashMap<PodKey, u32>,
    pub(super) violations: Vec<String>,
    pub(super) news: Vec<(PodKey, News)>,
    /// When which Pod changes by itself. An entry that does not fit its Pod any more is skipped.
    due: BTreeSet<(Instant, PodKey)>,
    /// The last Pod of each namespace and name.
    newest: HashMap<(Arc<str>, Arc<str>), PodKey>,
    created: u32,
}

impl World {
    /// Counts a call; returns what goes wrong with it.
    pub(super) fn called(&mut self, op: ProviderOp, key: Option<&PodKey>) -> Option<ProviderFaultAction> {
        *self.calls.entry(op).or_default() += 1;
        let mut faults = self.faults.iter_mut();
        faults.find_map(|fault| fault.hits(op, key).then(|| fault.action.clone()))
    }

    pub(super) fn create(&mut self, key: &PodKey, pod: Arc<Pod>, now: Instant) {
        if self.pods.contains_key(key) {
            return;
        }
        let name = (key.namespace.clone(), key.name.clone());
        if let Some(other) = self.newest.insert(name, key.clone()).filter(|other| self.pods.contains_key(other)) {
            self.violations.push(format!("{key} was created while {other} is held"));
        }
        let starts = self.starts.entry(key.clone()).or_default();
        *starts += 1;
        if *starts > 1 {
            self.violations.push(format!("{key} was started {starts} times"));
        }
        self.created += 1;
        let stage = Stage::Starting { until: now + self.life.starts_after };
        self.put(key, Entry { pod, life: self.life, stage, number: self.created });
    }

    pub(super) fn delete(&mut self, key: &PodKey, grace: Duration, now: Instant) -> Result<(), ProviderError> {
        let Some(entry) = self.pods.get(key) else {
            return Err(ProviderError::no_pod("delete", key.to_string()));
        };
        let mut entry = entry.clone();
        let until = now + entry.life.stops_after.min(grace);
        match entry.stage {
            Stage::Starting { .. } => entry.stage = Stage::Stopping { since: now, until },
            Stage::Running { since } => entry.stage = Stage::Stopping { since, until },
            Stage::Stopping { since, until: before } => {
                entry.stage = Stage::Stopping { since, until: before.min(until) };
            }
            Stage::Ended { .. } => {
                self.forget(key);
                return Ok(());
            }
        }
        self.put(key, entry);
        Ok(())
    }

    pub(super) fn end(&mut self, key: &PodKey, exit_code: i32, now: Instant) {
        let Some(entry) = self.pods.get(key) else { return };
        let mut entry = entry.clone();
        match entry.stage {
            Stage::Starting { .. } => entry.stage = Stage::Ended { since: now, at: now, exit_code },
            Stage::Running { since } => entry.stage = Stage::Ended { since, at: now, exit_code },
            Stage::Stopping { .. } | Stage::Ended { .. } => return,
        }
        self.put(key, entry);
    }

    /// Lets everything happen that was due.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some((due, key)) = self.due.first().cloned().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, key.clone()));
            let Some(entry) = self.pods.get(&key).filter(|entry| entry.due() == Some(due)) else { continue };
            let mut entry = entry.clone();
            match (entry.stage, entry.life.ends) {
                (Stage::Starting { until }, _) => {
                    entry.stage = Stage::Running { since: until };
                    self.put(&key, entry);
                }
                (Stage::Running { since }, Some((_, exit_code))) => {
                    entry.stage = Stage::Ended { since, at: due, exit_code };
                    self.put(&key, entry);
                }
                (Stage::Stopping { since, until }, _) => {
                    entry.stage = Stage::Ended { since, at: until, exit_code: 0 };
                    self.put(&key, entry);
                    self.forget(&key);
                }
                (Stage::Running { .. }, None) | (Stage::Ended { .. }, _) => {}
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    fn put(&mut self, key: &PodKey, entry: Entry) {
        if let Some(due) = entry.due() {
            self.due.insert((due, key.clone()));
        }
        self.news.push((key.clone(), News::Changed(entry.clone())));
        self.pods.insert(key.clone(), entry);
    }

    fn forget(&mut self, key: &PodKey) {
        self.pods.remove(key);
        self.news.push((key.clone(), News::Forgotten));
    }
}
