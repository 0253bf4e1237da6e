//! A day of jobs replayed: what their queues would have been, what it would have cost, and what else the limits could be. Pure.
//!
//! It is no model of the planner but the planner itself: the [engine](crate::engine) that keeps a set in a cluster decides here as
//! well, against a cluster and a forge that take as long as a [`Trace`] says. The same trace and limits give the same
//! answer, always.
//!
//! ```text
//! trace ─► what-if: every mix of limits ─► world: engine, Pods, jobs in virtual time ─► outcome ─► table, picture
//! ```

mod agenda;
mod outcome;
mod picture;
mod trace;
mod world;

pub use agenda::Agenda;
pub use outcome::{Outcome, Point};
pub use picture::picture;
pub use trace::{BadTrace, Takes, Trace, TraceJob, Variant, WhatIf};
pub use world::simulate;
