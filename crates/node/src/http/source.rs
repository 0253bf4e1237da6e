//! What is served: the node's Pods, and what is known of the node itself.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::provider::{Provider, ProviderError};
use serde_json::Value;

/// The Pods that are wanted on this node.
#[async_trait]
pub trait PodSource: fmt::Debug + Send + Sync + 'static {
    /// All of them.
    async fn all(&self) -> Result<Vec<Arc<Pod>>, ProviderError>;
    /// The one of this name; of two, which happens while one ends and its successor is there, the one that is not ending.
    async fn named(&self, namespace: &str, name: &str) -> Result<Option<Arc<Pod>>, ProviderError>;
}

/// The Pods that a provider holds, taken for those that are wanted.
#[derive(Debug, Clone)]
pub struct Held(pub Arc<dyn Provider>);

#[async_trait]
impl PodSource for Held {
    async fn all(&self) -> Result<Vec<Arc<Pod>>, ProviderError> {
        Ok(self.0.list().await?.into_iter().map(|held| held.pod).collect())
    }

    async fn named(&self, namespace: &str, name: &str) -> Result<Option<Arc<Pod>>, ProviderError> {
        let held = self.0.list().await?;
        let of_name = held.into_iter().filter(|held| &*held.key.namespace == namespace && &*held.key.name == name);
        Ok(of_name.map(|held| held.pod).min_by_key(|pod| pod.metadata.deletion_timestamp.is_some()))
    }
}

/// What the machine uses. What can't be told is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeUsage {
    /// Since when the machine runs.
    pub started: Option<Timestamp>,
    /// Processor time of all cores since then, in nanoseconds of one core.
    pub cpu_nanos: Option<u64>,
    /// Memory.
    pub memory: Option<NodeMemory>,
    /// The file system of Pods and images.
    pub disk: Option<NodeDisk>,
    /// Most processes, and how many there are.
    pub processes: Option<(u64, u64)>,
}

/// The machine's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeMemory {
    /// What can be had without loss.
    pub available: u64,
    /// In use, page cache included.
    pub usage: u64,
    /// In use and not reclaimable without loss.
    pub working_set: u64,
    /// Anonymous.
    pub rss: u64,
}

/// A file system, in bytes and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeDisk {
    /// All of it.
    pub capacity: u64,
    /// What is left to Pods.
    pub available: u64,
    /// What is used.
    pub used: u64,
    /// All inodes.
    pub inodes: u64,
    /// Inodes that are left.
    pub inodes_free: u64,
}

/// A check of the node's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What `/healthz/{name}` asks for.
    pub name: &'static str,
    /// Why it fails; for logs, clients learn only that it does.
    pub failure: Option<String>,
}

/// What is known of the node itself. No call blocks for long.
pub trait NodeFacts: fmt::Debug + Send + Sync + 'static {
    /// What the machine uses.
    fn usage(&self) -> NodeUsage {
        NodeUsage::default()
    }
    /// Metrics in the OpenMetrics text format; families of probes (`prober_…`) are served apart.
    fn metrics(&self) -> String {
        String::new()
    }
    /// Checks beside `ping`, which succeeds whenever somebody answers.
    fn health(&self) -> Vec<Check> {
        Vec::new()
    }
    /// A `KubeletConfiguration`, as far as its fields apply. No secrets.
    fn config(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }
}

/// Nothing is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFacts;

impl NodeFacts for NoFacts {}
