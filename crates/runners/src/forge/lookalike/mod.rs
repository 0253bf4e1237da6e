//! A GitHub to test against, and for the demo: the calls that the client makes, with their error codes, rate limits and
//! latencies, deliveries signed as GitHub signs them, runners that connect and take jobs, and faults by script.
//!
//! [`State`] is pure: registrations, jobs, who has which. [`faults`] says what goes wrong. [`Lookalike`] serves it over HTTP on a
//! loopback address and sends the deliveries. It speaks what runners need in few calls of its own (`/_runner/…`), which GitHub
//! has not.

mod deliver;
mod faults;
mod server;
mod state;

pub use faults::{Fault, Faults, Kind};
pub use server::{Limits, Lookalike, LookalikeError, LookalikeSettings};
pub use state::{Job, JobState, News, NotRemoved, State};
