//! Minke as a node of a cluster: the pod controller over any [`minke_core::provider::Provider`].
//!
//! ```text
//!  API's watch ──► Book: one pure machine a Pod ([`pod`]) ──► queues ([`queue`]) ──► calls on the provider
//!  provider's news ──┘        ▲                                        └──────────► writes to the API
//!                             └────────────── results ◄────────────────────────────┘
//! ```
//!
//! Here: the controller ([`controller`]) and what it asks of an API ([`api`]), over a Kubernetes client ([`kube`]); the
//! queue ([`queue`]), the machine of a Pod ([`pod`]), all Pods of a node ([`book`]), what Pods refer to ([`references`]) and
//! their environment ([`environment`]); the Node object with its lease ([`node`]) and its certificates ([`certificates`]); the
//! kubelet's HTTP API ([`http`]); a provider that runs nothing ([`mock`]).

pub mod api;
pub mod book;
pub mod certificates;
pub mod controller;
pub mod correlate;
pub mod environment;
pub mod http;
pub mod kube;
pub mod mock;
pub mod node;
pub mod pod;
pub mod queue;
pub mod references;
mod refusals;

use jiff::Timestamp;
use tokio::time::Instant;

/// One moment on both clocks: timers go by the monotonic one, what the API says by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic; tests pause it.
    pub instant: Instant,
    /// The wall clock.
    pub wall: Timestamp,
}
