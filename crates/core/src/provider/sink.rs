//! What a provider tells of its own accord.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use crate::identity::PodKey;

/// Where a provider tells of changes. No call blocks or calls the provider back, so each may be made from any thread and
/// with locks held. News of one Pod coalesce: the newest status wins, none is lost.
pub trait StatusSink: fmt::Debug + Send + Sync + 'static {
    /// The Pod's status is this now.
    fn changed(&self, key: &PodKey, status: PodStatus);
    /// The Pod is not held any more. Its last status was told before.
    fn forgotten(&self, key: &PodKey);
    /// The provider ends the Pod itself (an eviction behind it): it is to be deleted, with this grace.
    fn evicted(&self, key: &PodKey, grace: Duration);
}

/// Whether a provider tells of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notices {
    /// Each change is told soon after it happened. Lists are still made now and then, for what was lost.
    Pushed,
    /// None is told; lists are made every few seconds.
    Polled,
}
