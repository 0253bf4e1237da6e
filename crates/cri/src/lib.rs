//! The Runtime port over CRI v1: containerd, CRI-O, and whatever else speaks it on a unix socket.
//!
//! ```text
//! CriRuntime ── calls ── deadlines, errors ── one gRPC channel ── unix socket ── containerd, CRI-O
//!     │
//!     ├── convert   the port's nouns ↔ CRI's messages, pure
//!     ├── events    one stream for all subscribers, opened with the first of them
//!     └── health    whether the runtime answers, for people and metrics
//! ```
//! The channel connects when it is used and again when it broke, so a runtime that went away is back with the first call
//! after its return. While it is away every call fails with [`minke_core::runtime::RuntimeError::Unavailable`], and
//! nothing is made up.
//!
//! What the port asks and CRI can't say is written where it is left out, and in `docs/cri.md`: progress of pulls,
//! processes of a single container. What CRI leaves to the kubelet, the Pod's own cgroup, is done
//! here (`cgroup`).

mod api;
mod attach;
mod cgroup;
mod claim;
mod connection;
mod containers;
mod convert;
mod deadline;
mod endpoint;
mod error;
mod events;
mod exec;
mod facts;
#[cfg(test)]
mod fake;
mod greeting;
mod health;
mod images;
mod pull_error;
mod runtime;
mod sandbox_image;
mod sandboxes;
mod start;
mod stats;
#[cfg(test)]
mod tests;

pub use endpoint::{Endpoint, EndpointError, WELL_KNOWN};
pub use facts::{CgroupDriver, Facts};
pub use greeting::OpenError;
pub use health::Health;
pub use runtime::{CriConfig, CriRuntime};
pub use sandbox_image::SandboxImage;
