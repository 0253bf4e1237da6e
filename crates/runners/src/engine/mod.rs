//! One set of runners, whole and pure: what was heard goes in, what is to be done comes out.
//!
//! ```text
//! Pods, answers of the forge, jobs, time ──► lives of runners ──► plan ──► commands
//!                                                  ▲                │
//!                                                  └── expectations ┘
//! ```
//! The engine keeps its runners itself. It alone writes their state, so what a cache says of a state it has moved on from is
//! old news; of the cache it takes what only the cluster knows, the [facts](crate::life::PodFacts). What it has commanded it
//! believes at once: a slot that is being filled is filled, a runner that is asked to go is going. A stale cache can
//! therefore make it neither create nor retire twice; and two engines that don't know of each other make the same names.
//!
//! After a crash the next one begins with a consistent list and the states on the Pods. Registrations that no Pod belongs to
//! are found in the forge's list and removed ([`orphans`](Orphans)).

mod inputs;
mod orphans;
mod set;

pub use inputs::{Command, ForgeRunner, Input, NotCreated, Refused, Seen, Settings, Warning};
pub use orphans::Orphans;
pub use set::Engine;
