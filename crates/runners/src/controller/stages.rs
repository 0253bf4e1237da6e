//! How long runners take from stage to stage: what the histograms show. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::engine::Engine;
use crate::ids::Slot;
use crate::life::Life;

/// A stage that a runner has reached, each counted from when it was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The forge gave a registration.
    Registered,
    /// Its Pod was seen.
    Created,
    /// Its Pod has a node.
    Scheduled,
    /// Its container runs.
    Running,
    /// The forge sees it.
    Online,
    /// It has a job.
    Started,
    /// It has finished and its Pod is gone.
    Gone,
}

impl Stage {
    /// The word for it, as a label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Created => "created",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Online => "online",
            Self::Started => "started",
            Self::Gone => "gone",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Way {
    wanted: Timestamp,
    reached: Option<Stage>,
}

/// The runners that were wanted in this life of the controller, until they are gone: of others nobody knows when that was.
#[derive(Debug, Clone, Default)]
pub(super) struct Stages(BTreeMap<Slot, Way>);

impl Stages {
    /// Who has come further since the last look.
    pub(super) fn observe(&mut self, engine: &Engine, now: Timestamp) -> Vec<(Stage, SignedDuration)> {
        let mut took = Vec::new();
        let mut there = BTreeMap::new();
        for runner in engine.runners() {
            if runner.life == Life::Requested {
                there.insert(runner.slot, Way { wanted: runner.since, reached: None });
                continue;
            }
            let Some(mut way) = self.0.get(&runner.slot).copied() else { continue };
            let pod = runner.pod.as_ref();
            let reached = [
                (Stage::Registered, true),
                (Stage::Created, pod.is_some()),
                (Stage::Scheduled, pod.is_some_and(|pod| pod.scheduled)),
                (Stage::Running, pod.is_some_and(|pod| pod.running_since.is_some())),
                (Stage::Online, matches!(runner.life, Life::Idle { .. } | Life::Busy { .. })),
                (Stage::Started, matches!(runner.life, Life::Busy { .. })),
            ];
            for (stage, is) in reached {
                if is && way.reached < Some(stage) {
                    way.reached = Some(stage);
                    took.push((stage, now.duration_since(way.wanted)));
                }
            }
            there.insert(runner.slot, way);
        }
        for (_, way) in self.0.iter().filter(|(slot, way)| !there.contains_key(slot) && way.reached.is_some()) {
            took.push((Stage::Gone, now.duration_since(way.wanted)));
        }
        self.0 = there;
        took
    }
}
