//! Minke's runner pools: how many ephemeral CI runners there are, and how each comes and goes.
//!
//! What decides is pure, `(state, event, now) → (state, actions)`:
//!
//! - [`engine`]: one set of runners, whole; it composes the others,
//! - [`mod@plan`]: how many runners there should be, and who comes and goes for it,
//! - [`life`]: one runner from its registration to its end, and the annotations that keep its state,
//! - [`demand`]: which jobs want a runner,
//! - [`set`]: the kind `RunnerSet`, its definition for a cluster, its validation and status,
//! - [`compat`]: what the controller that people use today decides, to compare with.
//!
//! What performs:
//!
//! - [`forge`]: the port to where runners register and jobs come from, and GitHub,
//! - [`webhook`]: the receiver of GitHub's deliveries.
//!
//! Not here yet: the controller's edge to a cluster, which carries out what the engine says; work volumes; and
//! `minke runners`.

pub mod compat;
pub mod demand;
pub mod engine;
pub mod forge;
pub mod ids;
pub mod life;
pub mod plan;
pub mod set;
pub mod webhook;
