//! What Pods use, read from their cgroups and writable layers.
//!
//! Cgroups are read at each call. Walking a writable layer costs much more, so what a walk found is kept: it holds
//! until the container used the processor again (what does not run writes nothing), and a busy container is walked
//! at most every ten seconds, or less often when its walks take long. A Pod that idles thus costs a few small reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use minke_core::runtime::{
    ContainerId, ContainerUsage, HealthService, ListFilter, PodUsage, RuntimeError, Silence, StatsService, error_chain,
};
use tokio::time::Instant;

use super::EmbeddedRuntime;
use super::embedded::{Inner, blocking};
use super::state::{Container, Life, Sandbox, lock};
use crate::cgroup::Cgroup;
use crate::snapshot::{self, Usage};

/// A container that runs is walked at most so often.
const LEAST_AGE: Duration = Duration::from_secs(10);
/// A walk may take one part in so many of the time.
const SHARE: u32 = 20;
/// After this no further walk begins within one call; the next call goes on where this one stopped.
const BUDGET: Duration = Duration::from_secs(5);

/// What the last walk of a writable layer found.
#[derive(Debug, Clone, Copy)]
struct Measured {
    usage: Usage,
    /// Processor time of the container before the walk; `None` when it did not run.
    cpu_nanos: Option<u64>,
    /// When it may be walked again.
    next: Instant,
}

/// What is known of writable layers. Locked while walking, so that two callers never walk at a time.
#[derive(Debug, Default)]
pub(super) struct WritableLayers {
    measured: Mutex<HashMap<ContainerId, Measured>>,
}

/// Whether what was measured may still be told.
fn holds(measured: &Measured, cpu_nanos: Option<u64>, now: Instant) -> bool {
    measured.cpu_nanos == cpu_nanos || now < measured.next
}

#[async_trait]
impl StatsService for EmbeddedRuntime {
    async fn pod_usage(&self, filter: &ListFilter) -> Result<Vec<PodUsage>, RuntimeError> {
        let (inner, filter) = (Arc::clone(&self.inner), filter.clone());
        blocking("pod usage", move || Ok(read(&inner, &filter))).await
    }
}

impl HealthService for EmbeddedRuntime {
    /// There is no daemon that could be away.
    fn silence(&self) -> Option<Silence> {
        None
    }
}

fn read(inner: &Inner, filter: &ListFilter) -> Vec<PodUsage> {
    let wanted = |s: &Arc<Sandbox>| filter.pod.as_ref().is_none_or(|pod| *pod == s.record.config.pod.uid);
    let ready = inner.sandboxes().into_iter().filter(|s| s.client().is_some() && wanted(s));
    let mut walks = Walks { known: lock(&inner.writable.measured), began: Instant::now() };
    let pods = ready.map(|sandbox| pod_usage(inner, &sandbox, &mut walks)).collect();
    walks.known.retain(|id, _| inner.container(id).is_some());
    pods
}

fn pod_usage(inner: &Inner, sandbox: &Sandbox, walks: &mut Walks<'_>) -> PodUsage {
    let parent = &sandbox.record.config.cgroup_parent;
    let containers = inner.containers_of(sandbox.id());
    let shown = containers.iter().filter(|c| !matches!(*c.life.borrow(), Life::Creating));
    PodUsage {
        pod: sandbox.record.config.pod.uid.clone(),
        sandbox: sandbox.id().clone(),
        cgroup: Cgroup::new(&inner.hierarchies, parent).usage(),
        containers: shown.map(|c| container_usage(inner, parent, c, walks)).collect(),
    }
}

fn container_usage(inner: &Inner, parent: &str, container: &Container, walks: &mut Walks<'_>) -> ContainerUsage {
    let path = format!("{}/{}", parent.trim_end_matches('/'), container.id());
    let running = matches!(*container.life.borrow(), Life::Running(_));
    let cgroup = running.then(|| Cgroup::new(&inner.hierarchies, &path).usage()).flatten();
    let writable = walks.usage(container, cgroup.map(|c| c.cpu_nanos));
    ContainerUsage {
        id: container.id().clone(),
        name: container.record.name.clone(),
        cgroup,
        writable_bytes: writable.map(|u| u.bytes),
        writable_inodes: writable.map(|u| u.inodes),
    }
}

/// The walks of one call.
struct Walks<'a> {
    known: std::sync::MutexGuard<'a, HashMap<ContainerId, Measured>>,
    began: Instant,
}

impl Walks<'_> {
    fn usage(&mut self, container: &Container, cpu_nanos: Option<u64>) -> Option<Usage> {
        let now = Instant::now();
        let known = self.known.get(container.id()).copied();
        if let Some(known) = known.filter(|known| holds(known, cpu_nanos, now) || now > self.began + BUDGET) {
            return Some(known.usage);
        }
        if now > self.began + BUDGET {
            return None;
        }
        let usage = match snapshot::usage(container.dir.state()) {
            Ok(usage) => usage,
            Err(error) => {
                tracing::debug!(container = %container.id(), error = error_chain(&error), "can't measure what it wrote");
                return known.map(|k| k.usage);
            }
        };
        let after = Instant::now();
        let next = after + LEAST_AGE.max((after - now) * SHARE);
        self.known.insert(container.id().clone(), Measured { usage, cpu_nanos, next });
        Some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_measurement_holds_while_the_container_idles_or_was_just_walked() {
        let now = Instant::now();
        let at = |cpu_nanos| Measured { usage: Usage::default(), cpu_nanos, next: now + LEAST_AGE };
        let later = now + Duration::from_secs(3600);
        assert!(holds(&at(Some(5)), Some(5), later), "it has not run since");
        assert!(holds(&at(None), None, later), "it had ended");
        assert!(holds(&at(Some(5)), Some(6), now), "it was walked a moment ago");
        assert!(!holds(&at(Some(5)), Some(6), later));
        assert!(!holds(&at(Some(5)), None, later), "what it wrote last before it ended counts");
    }
}
