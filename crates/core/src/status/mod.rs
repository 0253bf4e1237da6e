//! The status of a Pod: a pure function of its spec, what the runtime says, and what was published before.
//!
//! The way of a status: [`compute`] makes what is true now (phase table, container statuses, conditions);
//! [`publishable`] holds back what must not be said yet (a terminal phase while something may still run) and never
//! goes back on what was said; [`finalize`] closes the books of a Pod whose containers are all gone.
//!
//! Upstream sources: `pkg/kubelet/kubelet_pods.go` (`getPhase`, `convertToAPIContainerStatuses`),
//! `pkg/kubelet/status/`.

mod compute;
mod conditions;
mod containers;
mod input;
mod phase;
mod publish;
mod restart;
mod termination;

pub use compute::compute;
pub use input::*;
pub use phase::{Phase, phase};
pub use publish::{disrupted, finalize, publishable};
pub use restart::*;
pub use termination::*;

#[cfg(test)]
mod tests;
