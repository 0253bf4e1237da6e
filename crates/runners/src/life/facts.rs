//! What a Pod says about its runner.

use jiff::Timestamp;

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
}

impl EndClass {
    /// The class of a Pod that failed, by its reason: upstream's words for what the cluster does to Pods.
    #[must_use]
    pub fn of_failure(reason: &str) -> Self {
        const CLUSTER: &[&str] = &[
            "Evicted",
            "NodeAffinity",
            "NodeLost",
            "NodeShutdown",
            "Preempting",
            "Preempted",
            "Shutdown",
            "Terminated",
            "UnexpectedAdmissionError",
            "DisruptionTarget",
        ];
        if reason.starts_with("OutOf") || CLUSTER.contains(&reason) { Self::Infrastructure } else { Self::Runner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_does_is_no_failure_of_the_runner() {
        for reason in ["Evicted", "OutOfcpu", "OutOfpods", "Preempting", "NodeShutdown"] {
            assert_eq!(EndClass::of_failure(reason), EndClass::Infrastructure, "{reason}");
        }
        for reason in ["", "Error", "OOMKilled", "DeadlineExceeded"] {
            assert_eq!(EndClass::of_failure(reason), EndClass::Runner, "{reason}");
        }
    }
}
