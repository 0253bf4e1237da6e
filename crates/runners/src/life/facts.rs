//! What a Pod says about its runner.

use std::fmt;

use jiff::Timestamp;
use minke_core::judgement::{Category, Cause};

/// Whose doing an end was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndClass {
    /// The runner returned 0.
    Success,
    /// The runner, or something of its template, failed.
    Runner,
    /// The cluster took it: evicted, preempted, drained, out of something, node shut down. No fault of the template.
    Infrastructure,
}

/// All that matters of the Pod has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Whose doing it was.
    pub class: EndClass,
    /// When it was seen.
    pub at: Timestamp,
}

/// What is wrong with a Pod, as the core's judgement names it for everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The root.
    pub cause: Cause,
    /// To whom it happened, with the cluster's own words: one line.
    pub evidence: String,
}

/// What is to be expected of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Outlook {
    /// Nothing is wrong that is known.
    #[default]
    Fine,
    /// Something is wrong that may heal.
    Troubled(Fault),
    /// It will never work; if it has ended, that is why.
    Hopeless(Fault),
}

/// The Pod as the cache has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Its uid: a Pod of the same name may be another.
    pub uid: String,
    /// It has a node.
    pub scheduled: bool,
    /// Since when the runner's container runs.
    pub running_since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// It has ended.
    pub ended: Option<Ended>,
    /// Its node is gone, or silent and given up by the cluster: nobody will tell how the Pod ended.
    pub node_lost: bool,
    /// What is to be expected of it.
    pub outlook: Outlook,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.cause, self.cause.category(), self.evidence)
    }
}

impl Outlook {
    /// What is wrong.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fine => None,
            Self::Troubled(fault) | Self::Hopeless(fault) => Some(fault),
        }
    }

    /// Why it will never work.
    #[must_use]
    pub fn hopeless(&self) -> Option<&Fault> {
        match self {
            Self::Fine | Self::Troubled(_) => None,
            Self::Hopeless(fault) => Some(fault),
        }
    }
}

impl EndClass {
    /// Whose doing an end of this cause is: the cluster's if the next Pod of the template may well fare better, for the Pod's
    /// place was taken, refused or lost. A registry that does not answer is nobody's fault, but all Pods of the template
    /// meet it: that holds the next ones back as well.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        let place = matches!(
            cause,
            Cause::OutOfResource | Cause::AdmissionRejected | Cause::ExitUnknown | Cause::RestartedDespiteNever
        );
        if place || cause.is_disruption() || cause.category() == Category::Cancelled {
            Self::Infrastructure
        } else {
            Self::Runner
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_does_is_no_failure_of_the_runner() {
        for cause in [Cause::Evicted, Cause::OutOfResource, Cause::Preempted, Cause::NodeShutdown, Cause::Deleted] {
            assert_eq!(EndClass::of(cause), EndClass::Infrastructure, "{cause}");
        }
        for cause in [
            Cause::ContainerFailed,
            Cause::PodFailed,
            Cause::OomKilled,
            Cause::DeadlineExceeded,
            Cause::ImageNotFound,
            Cause::RegistryUnavailable,
            Cause::Unschedulable,
        ] {
            assert_eq!(EndClass::of(cause), EndClass::Runner, "{cause}");
        }
    }
}
