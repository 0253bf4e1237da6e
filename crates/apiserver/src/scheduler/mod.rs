//! The scheduler: gives Pods without a node one, and says why those that wait do.
//!
//! ```text
//! task: watches of Nodes and Pods ──► Scheduler::step(events, now) ──► actions ──► task: bind, report, tell, preempt
//!        ▲                              pure: queue, filters, scores, preemption                 │
//!        └────────────── what failed comes back as an event; what worked is seen by the watch ◄──┘
//! ```
//!
//! A Pod without a node is in one stage:
//!
//! ```text
//!            gates gone                 fits                    bound (seen)
//!  Gated ───────────────► Queued ─────────────► Binding ─────────────────────► placed
//!                          ▲  ▲ │ does not          │ refused
//!            back-off over │  │ ▼                   ▼
//!                    BackingOff ◄──────────────── Waiting (for a change that may help, or five minutes)
//! ```
//!
//! For one machine this replaces kube-scheduler: its filters for labels, affinity to nodes, taints, resources, numbers of Pods
//! and host ports, its order by priority, its preemption, back-off and words. Affinity between Pods, spreading and volumes
//! are not looked at.

mod decide;
mod facts;
mod fit;
mod machine;
mod message;
mod node;
mod preempt;
mod queue;
mod task;
#[cfg(test)]
mod tests;
mod usage;

pub use facts::{PodFacts, PodRef};
pub use machine::{Action, Event, Note, Scheduler};
pub use message::{Report, SCHEDULER};
pub use node::NodeFacts;
pub use task::run;
