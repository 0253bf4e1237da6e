//! Minke's runner pools: how many ephemeral CI runners there are, and how each comes and goes.
//!
//! What decides is pure, `(state, event, now) → (state, actions)`:
//!
//! - [`engine`]: one set of runners, whole; it composes the others,
//! - [`mod@plan`]: how many runners there should be, and who comes and goes for it,
//! - [`life`]: one runner from its registration to its end, and the annotations that keep its state,
//! - [`demand`]: which jobs want a runner,
//! - [`set`]: the kind `RunnerSet`, its definition for a cluster, its validation and status,
//! - [`claims`]: which claim goes to which runner,
//! - [`simulate`]: a day of jobs replayed, with other limits,
//! - [`compat`]: what the controller that people use today decides, to compare with.
//!
//! What performs:
//!
//! - [`forge`]: the port to where runners register and jobs come from, and GitHub,
//! - [`webhook`]: the receiver of GitHub's deliveries,
//! - [`controller`]: all sets of a cluster,
//! - [`lease`]: who of several replicas acts,
//! - [`observe`]: health and metrics,
//! - [`pretend`]: what a demo and a measurement need besides a cluster.

pub mod claims;
pub mod compat;
pub mod controller;
pub mod demand;
pub mod engine;
pub mod forge;
pub mod ids;
pub mod lease;
pub mod life;
pub mod observe;
pub mod plan;
pub mod pretend;
pub mod set;
pub mod simulate;
pub mod webhook;
