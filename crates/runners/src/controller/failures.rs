//! The runners that never worked: each is told once, with the cause. Pure.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::ids::Slot;
use crate::life::{EndClass, Fault, Why};

/// Why runners go for which a Pod may show no cause: then these are the causes, of this category.
pub(super) const NAMELESS: [&str; 4] = ["NeverStarted", "NeverOnline", "RunnerFailed", "Evicted"];
pub(super) const UNKNOWN: &str = "unknown";

/// A runner goes, and never had a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) slot: Slot,
    pub(super) uid: String,
    pub(super) why: Why,
    /// What its Pod says; `None`: nothing is wrong with that.
    pub(super) fault: Option<Fault>,
}

/// Those that were told and are still there, by their Pods. Who starts anew tells them again.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Slot, String>);

impl Failures {
    /// Who has failed since the last look.
    pub(super) fn observe(&mut self, engine: &Engine) -> Vec<Failed> {
        let mut failed = Vec::new();
        let mut there = BTreeMap::new();
        for runner in engine.runners() {
            let Some((pod, why)) = runner.pod.as_ref().zip(runner.life.why()) else { continue };
            let told = matches!(why, Why::NeverWorks(_) | Why::Ended(EndClass::Infrastructure)) || why.is_failure();
            if !told {
                continue;
            }
            if self.0.get(&runner.slot) != Some(&pod.uid) {
                let fault = pod.outlook.fault().cloned();
                failed.push(Failed { slot: runner.slot, uid: pod.uid.clone(), why, fault });
            }
            there.insert(runner.slot, pod.uid.clone());
        }
        self.0 = there;
        failed
    }
}

impl Failed {
    /// The identifier of the cause; without one, that of why it goes.
    pub(super) fn cause(&self) -> &'static str {
        self.fault.as_ref().map_or(self.why.word(), |fault| fault.cause.as_str())
    }

    /// Whose matter it is.
    pub(super) fn category(&self) -> &'static str {
        self.fault.as_ref().map_or(UNKNOWN, |fault| fault.cause.category().as_str())
    }

    /// A sentence or two for people.
    pub(super) fn message(&self) -> String {
        let what = match self.why {
            Why::NeverStarted => "its Pod did not start in time",
            Why::NeverOnline => "its Pod runs, and GitHub never saw it",
            Why::Ended(_) => "its Pod ended before it had a job",
            Why::NeverWorks(_)
            | Why::Done
            | Why::Surplus
            | Why::Stale
            | Why::Vanished
            | Why::PodDeleted
            | Why::NodeLost
            | Why::Unreadable => "its Pod will never work",
        };
        match &self.fault {
            None => format!("{what}; nothing in the Pod's status says why: read the log of its container runner"),
            Some(fault) => format!("{what}: {fault}. {}", fault.cause.remedy()),
        }
    }
}
