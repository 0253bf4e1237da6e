//! The conditions of a node, with upstream's reasons and messages.
//!
//! Upstream source: `pkg/kubelet/nodestatus/setters.go`. One reason is ours: a node that goes down says `NodeShutdown`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minke_core::provider::{NodeDescription, Readiness};

/// What is known of the node.
#[derive(Debug, Clone, PartialEq)]
pub enum Described {
    /// It is like this.
    Now(Box<NodeDescription>),
    /// Whoever knows it does not answer.
    Silent {
        /// How it was before; `None`: it never answered.
        before: Option<Box<NodeDescription>>,
        /// What failed.
        why: String,
    },
}

impl Described {
    /// How the node is, or was.
    #[must_use]
    pub fn latest(&self) -> Option<&NodeDescription> {
        match self {
            Self::Now(described) => Some(described),
            Self::Silent { before, .. } => before.as_deref(),
        }
    }
}

type Words = (&'static str, &'static str);

const MEMORY: (&str, Words, Words) = (
    "MemoryPressure",
    ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
);
const DISK: (&str, Words, Words) = (
    "DiskPressure",
    ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("KubeletHasDiskPressure", "kubelet has disk pressure"),
);
const PIDS: (&str, Words, Words) = (
    "PIDPressure",
    ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
);

/// The conditions that are ours, `Ready` last, as upstream orders them. Each carries `now`; who publishes them keeps the time of
/// what did not change.
#[must_use]
pub fn conditions(described: &Described, going_down: bool, now: Timestamp) -> Vec<NodeCondition> {
    let mut all = Vec::new();
    if let Some(latest) = described.latest() {
        let shortages = latest.shortages;
        for ((kind, fine, short), is_short) in
            [(MEMORY, shortages.memory), (DISK, shortages.disk), (PIDS, shortages.pids)]
        {
            let (reason, message) = if is_short { short } else { fine };
            all.push(condition(kind, is_short, reason, message.to_owned(), now));
        }
    }
    let (ready, reason, message) = ready(described, going_down);
    all.push(condition("Ready", ready, reason, message, now));
    all
}

fn ready(described: &Described, going_down: bool) -> (bool, &'static str, String) {
    const NOT_READY: &str = "KubeletNotReady";
    if going_down {
        return (false, "NodeShutdown", "node is shutting down".to_owned());
    }
    match described {
        Described::Silent { why, .. } => (false, NOT_READY, format!("the node's provider does not answer: {why}")),
        Described::Now(described) => match &described.readiness {
            Readiness::Ready => (true, "KubeletReady", "kubelet is posting ready status".to_owned()),
            // One reason stands alone, several in brackets, as upstream joins errors.
            Readiness::NotReady(reasons) => match reasons.as_slice() {
                [one] => (false, NOT_READY, one.clone()),
                several => (false, NOT_READY, format!("[{}]", several.join(", "))),
            },
        },
    }
}

fn condition(kind: &str, holds: bool, reason: &str, message: String, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

#[cfg(test)]
mod tests {
    use minke_core::provider::Shortages;

    use super::*;

    fn shown(described: &Described, going_down: bool) -> Vec<String> {
        let all = conditions(described, going_down, Timestamp::UNIX_EPOCH);
        let text = |c: NodeCondition| format!("{}={} {}: {}", c.type_, c.status, c.reason.unwrap(), c.message.unwrap());
        all.into_iter().map(text).collect()
    }

    #[test]
    fn upstreams_reasons() {
        let mut described = NodeDescription::default();
        let fine = shown(&Described::Now(Box::new(described.clone())), false);
        assert_eq!(
            fine,
            [
                "MemoryPressure=False KubeletHasSufficientMemory: kubelet has sufficient memory available",
                "DiskPressure=False KubeletHasNoDiskPressure: kubelet has no disk pressure",
                "PIDPressure=False KubeletHasSufficientPID: kubelet has sufficient PID available",
                "Ready=True KubeletReady: kubelet is posting ready status",
            ]
        );
        described.shortages = Shortages { memory: true, disk: true, pids: true };
        described.readiness = Readiness::NotReady(vec!["a".to_owned(), "b".to_owned()]);
        let short = shown(&Described::Now(Box::new(described.clone())), false);
        assert_eq!(
            short,
            [
                "MemoryPressure=True KubeletHasInsufficientMemory: kubelet has insufficient memory available",
                "DiskPressure=True KubeletHasDiskPressure: kubelet has disk pressure",
                "PIDPressure=True KubeletHasInsufficientPID: kubelet has insufficient PID available",
                "Ready=False KubeletNotReady: [a, b]",
            ]
        );
        let silent = Described::Silent { before: Some(Box::new(described.clone())), why: "late".to_owned() };
        assert_eq!(shown(&silent, false)[3], "Ready=False KubeletNotReady: the node's provider does not answer: late");
        assert_eq!(shown(&silent, false)[0], short[0], "what was known last still counts");
        assert_eq!(
            shown(&Described::Now(Box::new(described)), true)[3],
            "Ready=False NodeShutdown: node is shutting down"
        );
        let never = Described::Silent { before: None, why: "late".to_owned() };
        assert_eq!(shown(&never, false).len(), 1, "nothing is said of what was never known");
    }
}
