//! The Provider port: what the pod controller asks of whoever runs its Pods.
//!
//! A provider takes Pods and sees them through by itself: the kubelet core on this machine, a cloud, a simulation. Whoever
//! implements it can check itself against this contract with the conformance suite (feature `fake`).
//!
//! Contract, for every implementation:
//! - **Keyed by uid**: a Pod is its [`PodKey`]. Two Pods of one name and different uids are two Pods. The controller
//!   does not create the second before the first is gone.
//! - **Idempotent**: creating what is held with the same uid changes nothing and succeeds; so does deleting what is being
//!   deleted or is gone. An update carries the whole Pod, not a difference.
//! - **Cancel-safe**: a call that is dropped at any await either took effect or did not; what took effect is listed, and a
//!   delete undoes it. The same holds for a call that failed, except where [`ProviderError`] says otherwise.
//! - **Durable**: what was created is found by [`Provider::list`] after a restart of the controller, and no more than
//!   that: a provider that is shared lists only what was created through it for this node.
//! - **Truthful**: an exit code that nobody saw is none, and what can't be known fails the call. An empty list means that there
//!   are no Pods.
//! - **May take its time, may not block**: calls are async and may last; the controller makes as many at once as it has
//!   workers, never two for one Pod. [`Provider::notify`] and [`Provider::extras`] return at once.
//!
//! The life of a Pod here: created → reported again and again → either it ends by itself and is **kept, with its last status, until
//! it is deleted**; or it is deleted, reports its containers terminated, and is forgotten by the provider itself.
//! Deleting a Pod that has ended forgets it at once.

#[cfg(feature = "fake")]
pub mod conformance;
mod error;
mod extras;
mod held;
mod node;
mod sink;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodStatus;

use crate::identity::PodKey;

pub use error::ProviderError;
pub use extras::*;
pub use held::{DesiredPod, Environment, HeldPod};
pub use node::*;
pub use sink::{Notices, StatusSink};

/// Whoever runs Pods. See the module for the contract.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// How Pods come: with their environment resolved, or as they were written.
    fn environment(&self) -> Environment {
        Environment::Resolved
    }

    /// Takes a Pod on and starts it. Success means that the Pod is kept, not that it runs; what becomes of it is
    /// reported.
    async fn create(&self, pod: &DesiredPod) -> Result<(), ProviderError>;

    /// Makes a Pod that is held become this. [`ProviderError::NotFound`] without it.
    async fn update(&self, pod: &DesiredPod) -> Result<(), ProviderError>;

    /// Begins to end a Pod, which may take as long as `grace` before it is killed. Called again it can only shorten what is
    /// left. Returns when this is under way, not when the Pod has ended. [`ProviderError::NotFound`] is allowed and
    /// means success.
    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ProviderError>;

    /// The Pod as it is held, with its status; `None`: it is not held.
    async fn get(&self, key: &PodKey) -> Result<Option<HeldPod>, ProviderError>;

    /// Only its status; `None`: it is not held.
    async fn status(&self, key: &PodKey) -> Result<Option<PodStatus>, ProviderError> {
        Ok(self.get(key).await?.map(|held| held.status()))
    }

    /// All Pods that are held for this node, those that have ended included. All or an error, never a part.
    async fn list(&self) -> Result<Vec<HeldPod>, ProviderError>;

    /// Where to tell of changes from now on; there is one sink, the last one given. Returns at once.
    fn notify(&self, sink: Arc<dyn StatusSink>) -> Notices;

    /// What else it can do.
    fn extras(&self) -> Extras<'_> {
        Extras::default()
    }
}
