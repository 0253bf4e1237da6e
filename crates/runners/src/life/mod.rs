//! The life of one runner as a pure machine: what it is, what happened, what is to be done.
//!
//! ```text
//!            registered          online at the forge         job started
//! Requested ───────────► Registered ─────────────────► Idle ─────────────► Busy
//!     │ no answer            │ will never work, fails    │ retired, vanished │ job completed, Pod ended
//!     │                      └──────────┬────────────────┴───────────────────┘
//!     │                                 ▼        the forge says: busy
//!     │                             Draining ───────────────────────► Busy
//!     │                                 │ the forge says: gone (or the Pod has ended, or its node is lost, long enough)
//!     ▼                                 ▼                  Pod gone
//!    Gone ◄────────────────────── Deregistered ◄─ planner deletes the Pod
//! ```
//! A registration is taken off the forge before its Pod is touched, and only the forge knows whether a runner is busy: it is
//! asked to remove the registration, and what it answers decides. Each state but the last has a deadline and says what
//! happens then ([`Runner::deadline`]).
//!
//! [`step`] moves a runner; the [engine](crate::engine) performs nothing either, it hands the [`Action`]s on.

mod facts;
mod machine;
mod record;
mod state;
mod timing;

pub use facts::{EndClass, Ended, Fault, Outlook, PodFacts};
pub use machine::{Action, Event, Removal, step};
pub use record::{
    ANNOTATION_CAUSE, ANNOTATION_ID, ANNOTATION_JOB, ANNOTATION_SINCE, ANNOTATION_STATE, ANNOTATION_TEMPLATE,
    ANNOTATION_WHY, BadRecord, Record,
};
pub use state::{Life, Runner, Why};
pub use timing::Timing;
