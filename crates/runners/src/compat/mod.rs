//! What actions-runner-controller's legacy replica engine decides, as a pure function: the yardstick, not the planner.
//!
//! An *owner* is an object that owns Pods of runners (there: a `Runner` or a `StatefulSet`). A pass sorts each owner's
//! Pods into buckets ([`bucket`](RunnerPod::bucket)), drops owners that are on their way out ([`collect`]), and
//! compares what runs with what is desired ([`mod@decide`]).
//!
//! Kept as it is there: the order of the rules, one completed owner a pass, one stuck owner holds up all, whole-batch
//! creation, retirement from the oldest, stale owners deleted directly and one a pass. Not kept: it never panics. What
//! upstream dereferences or asserts is a [`Hold`] here, and each hold names a time to look again, where upstream waits for
//! whatever event comes next.
//!
//! [`plan`](crate::plan::plan()) is what Minke does instead; tests hold both against the same situations.

mod bucket;
mod collect;
mod decide;

pub use bucket::{Bucket, Phase, REGISTRATION_TIMEOUT, RunnerPod};
pub use collect::{Collected, Owner, collect};
pub use decide::{Counts, Hold, HoldReason, Inputs, LegacyPlan, RECREATION_DELAY, decide};
