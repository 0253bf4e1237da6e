//! How many runners there should be, and who comes and goes for it: `(snapshot, demand, now) → plan`.
//!
//! The sum is short. Wanted are the busy runners, one for each queued job, and the idle headroom; at least the minimum, at
//! most the maximum. What is missing is created, all at once, in the lowest free slots; what is too much for longer than the
//! stabilisation is retired: what never got a node first, then what never came to the forge, then the longest idle. Busy ones
//! are never retired.
//!
//! What keeps it calm:
//! - a pass creates or retires, never both; idle runners of an old template go before new ones come;
//! - a runner that can't become capacity (draining, ended, deleted) is no capacity, and no reason to stop either;
//! - runners that fail before their first job make a [breaker] hold back their template's next ones;
//! - whatever is wanted and not done is a [`Hold`] with a reason and a time at which it is looked at again.
//!
//! The function is total: no input makes it panic, and the same input gives the same plan. What it has to remember
//! ([`Memory`]) it is given and gives back.

pub mod breaker;
mod limits;
mod planner;
mod schedule;
mod window;

pub use breaker::Breaker;
pub use limits::{Limits, Scaling};
pub use planner::{Blocked, Counts, Hold, HoldReason, Memory, Plan, Snapshot, Wanted, plan};
pub use schedule::{BadSchedule, Recurrence, Schedule};
pub use window::Window;
