//! What Pods use.

use async_trait::async_trait;
use minke_core::runtime::{ListFilter, PodUsage, RuntimeError, StatsService};

use crate::api;
use crate::convert::stats;
use crate::error::Subject;
use crate::runtime::CriRuntime;
use crate::sandboxes::selector;

#[async_trait]
impl StatsService for CriRuntime {
    async fn pod_usage(&self, filter: &ListFilter) -> Result<Vec<PodUsage>, RuntimeError> {
        let inner = &self.inner;
        let wanted = api::PodSandboxStatsFilter { label_selector: selector(filter), ..Default::default() };
        let request = api::ListPodSandboxStatsRequest { filter: filter.pod.as_ref().map(|_| wanted) };
        let mut client = inner.connection.runtime();
        let listed = inner.call("pod usage", Subject::Runtime, client.list_pod_sandbox_stats(request)).await?;
        let listed = listed.stats.iter().filter_map(stats::pod);
        Ok(listed.filter(|usage| filter.pod.as_ref().is_none_or(|pod| *pod == usage.pod)).collect())
    }
}
