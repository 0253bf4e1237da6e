//! Which jobs want a runner: by the jobs' own identity, never by counting events.
//!
//! ```text
//!   queued ──► running(on whom) ──► over ──► forgotten
//! ```
//! A job only moves forward. An event that is late, doubled or out of order therefore changes nothing, and one that was lost
//! is made up for by the next [poll](Demand::poll), which also ends what the forge does not know any more. Nothing stays for
//! ever: each state has a time after which the job is dropped.

mod access;
mod book;
mod labels;
mod router;

pub use access::Access;
pub use book::{Change, Demand, JobEvent, Lifetimes, Poll, Status};
pub use labels::{Labels, SetLabels, route};
pub use router::{Reach, Router, Serves, SetKey, Told};
