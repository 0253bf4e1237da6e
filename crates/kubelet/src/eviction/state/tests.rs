//! Thresholds, ranks, limits and messages by upstream's names; and what must hold in every run.

mod properties;
mod ranks;
mod thresholds;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use serde_json::{Value, json};

use super::*;
use crate::eviction::candidate::{ContainerUsed, Space, Used, VolumeUsed};
use crate::eviction::signal::Level;
use crate::eviction::threshold::ThresholdValue;

const MIB: u64 = 1 << 20;

fn uid(name: &str) -> PodUid {
    PodUid::new(name).unwrap()
}

fn pod(name: &str, priority: i32, spec: Value) -> Arc<Pod> {
    let mut spec = spec;
    spec["priority"] = json!(priority);
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "spec": spec})).unwrap())
}

/// A Pod of one container that asks for this and uses this much memory (MiB).
fn memory_user(name: &str, priority: i32, asks: u64, uses: u64) -> Candidate {
    let requests = if asks == 0 { json!({}) } else { json!({"memory": format!("{asks}Mi")}) };
    let pod = pod(name, priority, json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}));
    let container = ContainerUsed { name: "c".to_owned(), memory_bytes: Some(uses * MIB), ..ContainerUsed::default() };
    let used = Used { memory_bytes: uses * MIB, containers: vec![container], ..Used::default() };
    Candidate { uid: uid(name), pod, used: Some(used) }
}

/// A Pod of one container that asks for this and uses this much disk (MiB).
fn disk_user(name: &str, priority: i32, asks: u64, uses: u64, inodes: u64) -> Candidate {
    let requests = json!({"ephemeral-storage": format!("{asks}Mi")});
    let pod = pod(name, priority, json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}));
    let writable = Space { bytes: uses * MIB, inodes };
    let container = ContainerUsed { name: "c".to_owned(), writable, ..ContainerUsed::default() };
    Candidate { uid: uid(name), pod, used: Some(Used { containers: vec![container], ..Used::default() }) }
}

fn levels(levels: &[(Signal, u64, u64)]) -> Observations {
    let level = |(signal, available, capacity): &(Signal, u64, u64)| {
        (*signal, Level { available: *available, capacity: *capacity })
    };
    Observations { levels: levels.iter().map(level).collect(), separate_imagefs: false }
}

fn memory(available_mib: u64) -> Observations {
    levels(&[(Signal::Memory, available_mib * MIB, 1024 * MIB)])
}

fn config(thresholds: Vec<Threshold>) -> EvictionConfig {
    EvictionConfig { thresholds, ..EvictionConfig::default() }
}

fn hard_memory() -> Threshold {
    Threshold::hard(Signal::Memory, ThresholdValue::Quantity(100 * MIB))
}

/// One whole round; reclaiming changes nothing.
fn round(
    state: &mut EvictionState,
    config: &EvictionConfig,
    observed: &Observations,
    pods: &[Candidate],
    now: Instant,
) -> Vec<Verdict> {
    let mut actions = state.step(config, Event::Observed { observations: observed, limited: &[] }, now);
    let mut evicted = Vec::new();
    while !actions.is_empty() {
        let perform = |action| match action {
            Action::Reclaim(_) => state.step(config, Event::Reclaimed(observed), now),
            Action::Measure(_) => state.step(config, Event::Measured(pods), now),
            Action::Evict(verdict) => {
                evicted.push(verdict);
                vec![]
            }
        };
        actions = actions.into_iter().flat_map(perform).collect();
    }
    evicted
}

fn names(verdicts: &[Verdict]) -> Vec<String> {
    verdicts.iter().map(|v| v.uid.to_string()).collect()
}
