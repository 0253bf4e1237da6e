//! Will this Pod ever work? A pure judgement of what can be seen of a Pod, with the true first cause when it won't.
//!
//! ```text
//! (Pod, Node?, Events, History, now) ──find──► findings ──judge──► Healthy │ Waiting │ Doomed │ Failed │ Succeeded
//!                                                 ▲                    │
//!                                   severity and budget of each     History: budgets running, last pull errors,
//!                                   (permanent · transient · waiting)        the sealed end
//! ```
//!
//! `find/` says what is wrong with what is seen now; it knows the words of kubelets, runtimes, schedulers and controllers.
//! `judge` decides what that means over time: a transient trouble may heal within its budget; a terminal one settles for a
//! moment, so that an eviction is not taken for the exit code 137 that it causes; then the first root cause is sealed for
//! this uid for ever, and what comes later is added as evidence.
//!
//! It lives in the core because everybody judges (`minke watch`, `minke run`, pools of runners), and adapters never see
//! each other. Ephemeral containers are never looked at. Times are moments on the caller's monotonic clock: the clocks of
//! a cluster and of its observer need not agree.

mod budget;
mod cause;
mod describe;
mod find;
mod history;
mod image;
mod judge;
mod verdict;

pub use budget::{Budget, Budgets, Limit};
pub use cause::{Category, Cause};
pub use find::{Now, Policy, Presence, Sight};
pub use history::History;
pub use image::pull_cause;
pub use judge::{Judged, diagnose, judge};
pub use verdict::{Evidence, Failure, Finding, Healthy, Role, Severity, Stage, Verdict};

#[cfg(test)]
mod tests;
