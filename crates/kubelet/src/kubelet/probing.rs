//! From the prober to the workers: a verdict that changed wakes the worker of its Pod.

use std::sync::Arc;

use minke_core::identity::PodUid;
use minke_core::runtime::Runtime;

use crate::probes::ProbeMetrics;
use crate::sync::SyncContext;
use crate::worker::Registry;

pub(super) fn run(
    sync: &SyncContext,
    runtime: Arc<dyn Runtime>,
    registry: Registry,
    metrics: ProbeMetrics,
) -> impl Future<Output = ()> + use<> {
    let tell = move |uid: &PodUid| {
        if let Some(worker) = registry.get(uid) {
            worker.mailbox.probed();
        }
    };
    sync.probes.clone().run(runtime, sync.recorder.clone(), metrics, Box::new(tell))
}
