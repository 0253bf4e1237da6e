//! The pure core of Minke.
//!
//! Everything here is data and synchronous functions over data: who a Pod is ([`identity`]), what its manifest
//! means (`manifest`, `defaults`, `validation`), what its containers see (`env`), which containers it has ([`containers`]), what its status is (`status`),
//! when something is tried again (`backoff`). The ports that adapters implement live here too ([`runtime`], [`provider`]),
//! with their scripted fakes (feature `fake`).
//!
//! Deliberately absent: a tokio runtime, sockets, files, a Kubernetes client.

pub mod backoff;
pub mod cgroup;
pub mod clock;
pub mod containers;
pub mod crilog;
pub mod defaults;
pub mod env;
#[cfg(feature = "fake")]
pub mod fake;
pub mod identity;
pub mod judgement;
pub mod manifest;
pub mod objects;
pub mod placement;
pub mod priority;
pub mod provider;
pub mod qos;
pub mod resources;
pub mod runtime;
pub mod spans;
pub mod status;
pub mod validation;
