//! The kubelet's removed run-once mode: start the Pods of one manifest, see all their containers running at one
//! moment, and leave. A strict contract of its own; the better way is [`crate::Kubelet`].
//!
//! - The first update counts, and must come within a second. No Pods in it is success.
//! - Pods are admitted in order, against those of this run only. **A rejected Pod is no error.**
//! - Each admitted Pod has a task: look at the runtime directly; done if every container of `spec.containers` runs;
//!   otherwise sync once and look again after 1, 2, 4, … 512 s. An error in either ends the Pod at once.
//! - Nobody restarts, probes or rotates anything afterwards. A container that ends by itself is never seen running,
//!   so its Pod fails after 1023 s.
//!
//! Beyond the original, volumes and Pods' own networks work. Pods are kept in the checkpoints, so that an agent that
//! runs later adopts them instead of taking them for orphans.

mod machine;
mod run;

pub use machine::{Action, Event, MAX_RETRIES, PodRun, RETRY_DELAY};
pub use run::{MANIFEST_DELAY, RunOnceError, RunOnceReport, RunPodError, RunPodResult, run, run_with};
