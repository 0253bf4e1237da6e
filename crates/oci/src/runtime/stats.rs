//! What Pods use, read from their cgroups and writable layers.

use async_trait::async_trait;
use minke_core::runtime::{ListFilter, PodUsage, RuntimeError, StatsService};

use super::EmbeddedRuntime;

#[async_trait]
impl StatsService for EmbeddedRuntime {
    async fn pod_usage(&self, _filter: &ListFilter) -> Result<Vec<PodUsage>, RuntimeError> {
        Err(RuntimeError::Unsupported { operation: "pod usage", feature: "statistics".to_owned() })
    }
}
