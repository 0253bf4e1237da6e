//! Whether a runtime answers at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A runtime does not answer. What runs goes on, unseen; nothing may be concluded from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// For how long.
    pub lasts: Duration,
    /// What was asked in vain, and how it went.
    pub why: String,
}

/// What a runtime's adapter knows of the runtime without anybody's question. Full lists come seldom while there are events,
/// and one that hangs is given up after minutes; an adapter to a daemon sees sooner that nobody is there.
pub trait HealthService: Send + Sync + 'static {
    /// `None` while it answers, and always where the runtime is part of this process. For people, metrics and the Node's
    /// condition; asks nothing and does not block.
    fn silence(&self) -> Option<Silence>;
}
