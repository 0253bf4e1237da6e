//! How the life of a Pod begins.

use k8s_openapi::api::core::v1::Pod;
use minke_core::runtime::PodRuntimeStatus;
use minke_core::status::Phase;

use crate::worker::grace::effective_grace;
use crate::worker::lifecycle::{Cause, SavedLifecycle, Then};

/// Whether a Pod says of itself that it is not to run: it is being deleted, or has ended elsewhere.
pub(super) fn ends_itself(pod: &Pod) -> Option<Cause> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Cause::Stopped);
    }
    let phase = Phase::parse(pod.status.as_ref().and_then(|s| s.phase.as_deref()));
    phase.is_some_and(Phase::is_terminal).then_some(Cause::Completed)
}

/// How the life of a Pod begins that is seen for the first time. Most begin by being synced. One that is being deleted,
/// or whose status says that it has ended, is never started: what may run of it is stopped, and without anything of
/// that kind it only needs to be cleaned up. `runtime` is `None` where nobody can say what runs.
#[must_use]
pub fn first_seen(pod: &Pod, runtime: Option<&PodRuntimeStatus>) -> SavedLifecycle {
    let Some(cause) = ends_itself(pod) else { return SavedLifecycle::Syncing };
    let quiet = runtime.is_some_and(|r| !r.may_have_running_containers() && !r.has_ready_sandbox());
    if cause == Cause::Completed && quiet {
        return SavedLifecycle::Terminated { cause, then: Then::Keep };
    }
    SavedLifecycle::Terminating { cause, grace: effective_grace(pod, None, None), then: Then::Keep }
}
