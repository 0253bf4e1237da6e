//! What is asked of the forges for all sets at once: the jobs of a repository, the runners of a scope, whom a group is open to.

use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::error_chain;
use tokio::time::timeout;

use super::super::groups::GroupKey;
use super::super::messages::Heard;
use super::{Brought, Loop};
use crate::demand::SetKey;
use crate::forge::ForgeError;
use crate::set::RunnerSet;

/// A list of the forge takes no longer.
const LIST: Duration = Duration::from_secs(120);

impl Loop {
    pub(super) fn poll(&mut self) {
        let now = self.now();
        self.router.expire(now);
        self.with.metrics.budgets(&self.with.forges.budgets());
        self.ask_groups();
        for (source, key) in self.router.sources(now) {
            let Some(kept) = self.sets.get(&key) else { continue };
            if !self.polling.insert(source.clone()) {
                continue;
            }
            let (forges, spec, metrics) =
                (Arc::clone(&self.with.forges), kept.set.spec.clone(), self.with.metrics.clone());
            self.side.spawn(async move {
                let asked = async { forges.forge(&key.namespace, &spec).await?.jobs(&source).await };
                let jobs = timeout(LIST, asked).await.unwrap_or(Err(ForgeError::TimedOut));
                metrics.forge_call("jobs", if jobs.is_ok() { "ok" } else { "error" });
                Brought::Jobs { source, began: now, jobs }
            });
        }
    }

    /// Asks which repositories groups are open to: once for all sets of a group, and again when the answer is old.
    pub(super) fn ask_groups(&mut self) {
        let now = self.now();
        let groups = self.sets.iter().filter_map(|(key, kept)| GroupKey::of(key, &kept.set)).collect();
        for group in self.groups.due(groups, now) {
            let Some((key, kept)) =
                self.sets.iter().find(|(key, kept)| GroupKey::of(key, &kept.set).as_ref() == Some(&group))
            else {
                continue;
            };
            let (forges, spec, metrics, namespace) = (
                Arc::clone(&self.with.forges),
                kept.set.spec.clone(),
                self.with.metrics.clone(),
                key.namespace.clone(),
            );
            self.side.spawn(async move {
                let asked = async { forges.forge(&namespace, &spec).await?.access().await };
                let access = timeout(LIST, asked).await.unwrap_or(Err(ForgeError::TimedOut));
                metrics.forge_call("group", if access.is_ok() { "ok" } else { "error" });
                Brought::Access { group, access }
            });
        }
    }

    /// One list serves all sets of a scope.
    pub(super) fn list(&mut self, key: &SetKey) {
        let Some(kept) = self.sets.get(key) else { return };
        let scope = scope_of(key, &kept.set);
        if !self.listing.insert(scope.clone()) {
            return;
        }
        let now = self.now();
        let (forges, spec, metrics, namespace) =
            (Arc::clone(&self.with.forges), kept.set.spec.clone(), self.with.metrics.clone(), key.namespace.clone());
        self.side.spawn(async move {
            let asked = async { forges.forge(&namespace, &spec).await?.runners().await };
            let runners = timeout(LIST, asked).await.unwrap_or(Err(ForgeError::TimedOut));
            metrics.forge_call("list", if runners.is_ok() { "ok" } else { "error" });
            Brought::Runners { scope, began: now, runners }
        });
    }

    pub(super) fn brought(&mut self, brought: Brought) {
        match brought {
            Brought::Runners { scope, began, runners } => {
                self.listing.remove(&scope);
                match runners {
                    Ok(runners) => {
                        let runners = Arc::new(runners);
                        for (_, kept) in self.sets.iter().filter(|(key, kept)| scope_of(key, &kept.set) == scope) {
                            let runners = Arc::clone(&runners);
                            let _ = kept.inbox.send(Heard::Runners { began, runners });
                        }
                    }
                    Err(error) => tracing::warn!(scope, error = error_chain(&error), "runners can't be listed"),
                }
            }
            Brought::Jobs { source, began, jobs } => {
                self.polling.remove(&source);
                match jobs {
                    Ok(jobs) => {
                        let now = self.now();
                        let told = self.router.polled(&source, began, &jobs, now);
                        self.tell(told);
                        self.count_jobs();
                    }
                    Err(error) => tracing::warn!(source, error = error_chain(&error), "jobs can't be listed"),
                }
            }
            Brought::Access { group, access } => {
                if let Err(error) = &access {
                    tracing::warn!(?group, error = error_chain(error), "the runner group can't be asked for");
                }
                let now = self.now();
                if !self.groups.answered(&group, access.ok(), now) {
                    return;
                }
                let access = self.groups.access(&group);
                let of_group =
                    self.sets.iter().filter(|(key, kept)| GroupKey::of(key, &kept.set).as_ref() == Some(&group));
                let keys: Vec<SetKey> = of_group.map(|(key, _)| key.clone()).collect();
                for key in keys {
                    let told = self.router.access(&key, access.clone());
                    self.tell(told);
                }
                self.count_jobs();
            }
            Brought::Strays => {}
        }
    }
}

/// What tells scopes apart whose runners are listed together.
fn scope_of(key: &SetKey, set: &RunnerSet) -> String {
    let github = &set.spec.github;
    let scope = [&github.url, &github.enterprise, &github.organization, &github.repository];
    let scope: Vec<&str> = scope.iter().map(|part| part.as_deref().unwrap_or_default()).collect();
    format!("{}/{} {}", key.namespace, github.credentials_secret, scope.join(" "))
}
