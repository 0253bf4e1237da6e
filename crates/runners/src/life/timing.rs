//! How long each state may last.

use jiff::SignedDuration;

/// The waits and deadlines of a runner's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From asking for a registration until it is given up.
    pub register: SignedDuration,
    /// From the registration until the Pod is seen.
    pub pod: SignedDuration,
    /// From the registration until the runner's container runs: scheduling, images, volumes.
    pub start: SignedDuration,
    /// From the container's start until the forge sees the runner.
    pub online: SignedDuration,
    /// How often an idle runner is looked up.
    pub idle: SignedDuration,
    /// The longest job; then the forge is asked.
    pub job: SignedDuration,
    /// How often it is asked about a job that is longer still.
    pub job_again: SignedDuration,
    /// From a completed job until the runner's exit.
    pub exit: SignedDuration,
    /// From a request to the forge until it is repeated.
    pub ask: SignedDuration,
    /// From the end of a Pod until it goes without the forge's word.
    pub ended: SignedDuration,
    /// From the loss of a node until its Pods go without the forge's word.
    pub node_lost: SignedDuration,
    /// From the deletion of a Pod that may go until it is forced.
    pub force: SignedDuration,
}

impl Default for Timing {
    fn default() -> Self {
        let minutes = SignedDuration::from_mins;
        Self {
            register: minutes(1),
            pod: minutes(2),
            start: minutes(10),
            online: minutes(10),
            idle: minutes(5),
            // GitHub ends a job on a runner of one's own after five days.
            job: SignedDuration::from_hours(5 * 24),
            job_again: minutes(60),
            exit: minutes(1),
            ask: SignedDuration::from_secs(30),
            ended: SignedDuration::from_secs(30),
            node_lost: minutes(5),
            force: minutes(1),
        }
    }
}

impl Timing {
    /// The wait before the forge is asked for the `tries`-th time.
    #[must_use]
    pub fn backoff(&self, tries: u32) -> SignedDuration {
        self.ask * (1 << tries.saturating_sub(1).min(4))
    }
}
