//! The kind `RunnerSet` (`minke.dev/v1alpha1`): what people write, and what they are told.
//!
//! The schema is written by hand ([`crd`]) and its manifest is `packaging/runners/runnersets.json`; tests hold both against
//! the Rust types. A derive would bring two crates, and still leave the Pod template, the rules and the columns to be written.

mod conditions;
mod moves;
mod schema;
mod types;
mod validate;

/// The name of the work volume in Pods.
pub const WORK_VOLUME: &str = "work";

pub use conditions::{invalid_status, status, unreadable_status};
pub use moves::{MOVES, changed, moves};
pub use schema::{crd, manifest};
pub use types::{
    GitHubScope, Repeat, RunnerSet, RunnerSetSpec, RunnerSetStatus, ScheduleSpec, Stabilization, WorkVolume,
};
pub use validate::{
    Invalid, LABEL_SET, LABEL_STATE, RUNNER_CONTAINER, scaling, settings, settings_or_none, template_hash,
};

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::validate::tests::set;
}
