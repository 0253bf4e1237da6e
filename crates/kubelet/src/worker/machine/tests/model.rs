//! Every history against a small model of a Pod's life.

use proptest::prelude::*;

use super::*;

/// The model knows five things: how far the Pod is, what was saved of that, which job runs, the least grace so far, and
/// the time.
#[derive(Debug)]
struct Model {
    stage: u8,
    job: Option<Action>,
    grace: Option<Duration>,
    saved: SavedLifecycle,
}

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

impl Model {
    fn check(&mut self, machine: &Machine, actions: &[Action]) {
        let stage = rank(machine.lifecycle());
        // A removal that was cut off begins with the clean-up again.
        let again = stage == 2 && self.stage == 4;
        assert!(stage >= self.stage || again, "stages are never left backwards: {machine:?}");
        for action in actions {
            match action {
                Action::Cancel => assert!(self.job.take().is_some(), "only a job that runs can be cancelled"),
                Action::Sync(_) | Action::Step(_) => {
                    assert_eq!(self.job.replace(*action), None, "one job at a time");
                    if let Action::Step(_) = action {
                        let (now, durable) = (machine.lifecycle().saved(), &self.saved);
                        let same = std::mem::discriminant(&now) == std::mem::discriminant(durable);
                        assert!(same, "a stage is saved before anything follows from it: {now:?}, {durable:?}");
                    }
                    if let Action::Sync(_) = action {
                        assert_eq!(stage, 0, "no sync after the Pod must stop");
                    }
                    if let Action::Step(Step::StopContainers { grace }) = action {
                        assert!(self.grace.is_none_or(|before| *grace <= before), "grace only shrinks");
                        self.grace = Some(*grace);
                    }
                }
                Action::Save => self.saved = machine.lifecycle().saved(),
                Action::Publish => {}
                Action::Refresh => assert!(stage <= 1, "nothing that runs has news"),
                Action::End => assert_eq!((stage, self.job), (5, None)),
            }
        }
        self.stage = stage;
        let at_rest = matches!(machine.lifecycle(), Lifecycle::Finished { .. } | Lifecycle::Removed);
        assert_eq!(
            u8::from(self.job.is_some()) + u8::from(machine.timer().is_some()),
            u8::from(!at_rest),
            "a Pod that is not at rest either works or has a time when it goes on: {machine:?}"
        );
    }
}

#[derive(Debug, Clone)]
enum Input {
    Changed,
    Probed,
    Returned,
    Timer,
    Deadline,
    Stop(Option<u64>, bool),
    Evict(Option<u64>),
    Update(Option<i64>),
    Ended(&'static str),
    Restart,
    JobDone(u8),
    Pass(u64),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        3 => Just(Input::Changed),
        2 => Just(Input::Probed),
        1 => Just(Input::Returned),
        3 => Just(Input::Timer),
        1 => Just(Input::Deadline),
        1 => (prop::option::of(0_u64..40), any::<bool>()).prop_map(|(g, r)| Input::Stop(g, r)),
        1 => prop::option::of(0_u64..40).prop_map(Input::Evict),
        1 => prop::option::weighted(0.2, 0_i64..40).prop_map(Input::Update),
        1 => prop_oneof![Just("Failed"), Just("Succeeded"), Just("Running")].prop_map(Input::Ended),
        1 => Just(Input::Restart),
        6 => (0_u8..9).prop_map(Input::JobDone),
        2 => (0_u64..100_000).prop_map(Input::Pass),
    ]
}

proptest! {
    #[test]
    fn every_history_agrees_with_the_model(inputs in prop::collection::vec(input(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut now = Instant::now();
            let (mut machine, actions) = start();
            let mut model = Model { stage: 0, job: None, grace: None, saved: SavedLifecycle::Syncing };
            model.check(&machine, &actions);
            for input in inputs {
                let event = match input {
                    Input::Changed => Event::Changed,
                    Input::Probed => Event::Probed,
                    Input::Returned => Event::Returned,
                    Input::Timer => {
                        let Some(timer) = machine.timer() else { continue };
                        now = now.max(timer);
                        Event::Timer
                    }
                    Input::Deadline => Event::Deadline,
                    Input::Stop(grace, remove) => stop(grace, remove),
                    Input::Evict(grace) => evict(grace),
                    Input::Update(deletion) => updated(deletion),
                    Input::Ended(phase) => ended(phase),
                    // The agent dies here, wherever here is, and the next one begins with what was saved.
                    Input::Restart => {
                        // Nothing of it was left to begin with.
                        if model.stage == 5 {
                            continue;
                        }
                        let (next, actions) = Machine::start(machine.pod.clone(), model.saved.clone());
                        machine = next;
                        model.job = None;
                        model.check(&machine, &actions);
                        continue;
                    }
                    Input::Pass(ms) => {
                        now += Duration::from_millis(ms);
                        Event::Timer
                    }
                    Input::JobDone(how) => match model.job.take() {
                        None => continue,
                        Some(Action::Sync(_)) => Event::Synced(match how {
                            0..=2 => SyncOutcome::Settled,
                            3 => SyncOutcome::Terminal,
                            4 => SyncOutcome::BackOff(Duration::from_secs(20)),
                            5 => SyncOutcome::NetworkNotReady,
                            6 => SyncOutcome::DeadlineExceeded,
                            7 => SyncOutcome::SandboxFailed,
                            _ => SyncOutcome::Failed,
                        }),
                        Some(_) => Event::Stepped(match how {
                            0..=4 => StepOutcome::Done,
                            5 => StepOutcome::StillRunning,
                            _ => StepOutcome::Failed,
                        }),
                    },
                };
                let actions = machine.step(event, now);
                model.check(&machine, &actions);
            }
        });
    }
}
