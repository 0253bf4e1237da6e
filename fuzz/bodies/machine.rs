//! Any bytes as what happens to a Pod: its worker's machine keeps its promises.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_kubelet::StopRequest;
use minke_kubelet::worker::lifecycle::{Lifecycle, SavedLifecycle, Step};
use minke_kubelet::worker::machine::{Action, Event, Machine, StepOutcome, SyncOutcome};
use tokio::time::Instant;

fn rank(lifecycle: &Lifecycle) -> u8 {
    match lifecycle {
        Lifecycle::Syncing(_) => 0,
        Lifecycle::Terminating { .. } => 1,
        Lifecycle::Terminated { .. } => 2,
        Lifecycle::Finished { .. } => 3,
        Lifecycle::Removing { .. } => 4,
        Lifecycle::Removed => 5,
    }
}

struct Promises {
    stage: u8,
    job: Option<Action>,
    grace: Option<Duration>,
}

impl Promises {
    fn check(&mut self, machine: &Machine, actions: &[Action]) {
        let stage = rank(machine.lifecycle());
        assert!(stage >= self.stage, "stages are never left backwards");
        for action in actions {
            match action {
                Action::Cancel => assert!(self.job.take().is_some(), "only a job that runs can be cancelled"),
                Action::Sync(_) => {
                    assert_eq!(stage, 0, "no sync after the Pod must stop");
                    assert_eq!(self.job.replace(*action), None, "one job at a time");
                }
                Action::Step(step) => {
                    assert_eq!(self.job.replace(*action), None, "one job at a time");
                    if let Step::StopContainers { grace } = step {
                        assert!(self.grace.is_none_or(|before| *grace <= before), "grace only shrinks");
                        self.grace = Some(*grace);
                    }
                }
                Action::Save | Action::Publish => {}
                Action::Refresh => assert!(stage <= 1, "nothing that runs has news"),
                Action::End => assert_eq!((stage, self.job), (5, None)),
            }
        }
        self.stage = stage;
        let at_rest = matches!(machine.lifecycle(), Lifecycle::Finished { .. } | Lifecycle::Removed);
        let goes_on = u8::from(self.job.is_some()) + u8::from(machine.timer().is_some());
        assert_eq!(goes_on, u8::from(!at_rest), "it works, or has a time when it goes on: {machine:?}");
    }
}

pub(crate) fn run(data: &[u8]) {
    let (grace, data) = data.split_first().map_or((30, data), |(first, rest)| (i64::from(*first), rest));
    let mut pod = Pod::default();
    pod.metadata.uid = Some("u".to_owned());
    pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(grace);
    let (mut machine, actions) = Machine::start(Arc::new(pod), SavedLifecycle::Syncing);
    let mut promises = Promises { stage: 0, job: None, grace: None };
    promises.check(&machine, &actions);
    let mut now = Instant::now();
    for pair in data.chunks(2) {
        let (what, how) = (pair[0], pair.get(1).copied().unwrap_or_default());
        let event = match what % 8 {
            0 => Event::Changed,
            1 => {
                let Some(timer) = machine.timer() else { continue };
                now = now.max(timer);
                Event::Timer
            }
            2 => Event::Deadline,
            3 => {
                let grace = (how & 1 == 1).then(|| Duration::from_secs(u64::from(how >> 2)));
                Event::Stop(StopRequest { grace, remove: how & 2 == 2 })
            }
            4 => {
                now += Duration::from_millis(u64::from(how) * 400);
                Event::Timer
            }
            _ => match promises.job.take() {
                None => continue,
                Some(Action::Sync(_)) => Event::Synced(match how % 8 {
                    0..=2 => SyncOutcome::Settled,
                    3 => SyncOutcome::Terminal,
                    4 => SyncOutcome::BackOff(Duration::from_secs(u64::from(how))),
                    5 => SyncOutcome::NetworkNotReady,
                    6 => SyncOutcome::DeadlineExceeded,
                    _ => SyncOutcome::Failed,
                }),
                Some(_) => Event::Stepped(match how % 8 {
                    0..=4 => StepOutcome::Done,
                    5 => StepOutcome::StillRunning,
                    _ => StepOutcome::Failed,
                }),
            },
        };
        let actions = machine.step(event, now);
        promises.check(&machine, &actions);
    }
}
