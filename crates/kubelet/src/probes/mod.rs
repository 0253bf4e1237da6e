//! Probes: whether containers have started, may get work, and still do it.
//!
//! ```text
//!  worker ──what the runtime shows──► Prober ── due ──► a run (io) ──► answer ──► Machine (pure) ──► verdict
//!    ▲                                   │ results, by container                                       │
//!    └──────────── status, plan ◄────────┴──────────────────── woken when a verdict changes ◄──────────┘
//! ```
//! [`machine`](Machine) decides, `table` keeps the machines of all Pods and their timetable, `prober` is the task that
//! runs them, `io` asks. Workers hand in each observation and get the results for it in the same call, so a status
//! never mixes one container with the probes of another. What a verdict leads to is the worker's: it publishes
//! readiness, and its plan kills what is condemned.

pub(crate) mod io;
mod machine;
mod metrics;
mod prober;
mod table;
mod timing;

pub use machine::*;
pub use metrics::ProbeMetrics;
pub use prober::Prober;
pub(crate) use table::{Now, Recovered};
pub use timing::*;
