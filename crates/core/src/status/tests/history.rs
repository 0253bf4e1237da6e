//! Random histories: what was said is never taken back.

use k8s_openapi::api::core::v1::PodStatus;
use proptest::prelude::*;
use serde_json::json;

use super::bed::*;
use crate::runtime::{ContainerState, ExitCode};
use crate::status::{FailureOverride, Phase, publishable};

#[derive(Debug, Clone)]
enum Step {
    Add(usize, Seen),
    Set(usize, Seen),
    Forget,
    Wait(usize),
    Terminal,
    Deadline,
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    Created,
    Running,
    Exited(i32),
    Lost,
    Unknown,
}

impl Seen {
    fn state(self) -> ContainerState {
        match self {
            Self::Created => ContainerState::Created,
            Self::Running => running(),
            Self::Exited(code) => exited(code),
            Self::Lost => ended(ExitCode::Lost),
            Self::Unknown => ContainerState::Unknown,
        }
    }
}

const NAMES: [&str; 4] = ["a", "b", "i", "s"];

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![
        Just(Seen::Created),
        Just(Seen::Running),
        Just(Seen::Exited(0)),
        Just(Seen::Exited(1)),
        Just(Seen::Lost),
        Just(Seen::Unknown),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..NAMES.len(), seen()).prop_map(|(n, s)| Step::Add(n, s)),
        4 => (0..NAMES.len(), seen()).prop_map(|(n, s)| Step::Set(n, s)),
        1 => Just(Step::Forget),
        1 => (0..NAMES.len()).prop_map(Step::Wait),
        1 => Just(Step::Terminal),
        1 => Just(Step::Deadline),
    ]
}

fn phase_of(status: &PodStatus) -> Phase {
    Phase::parse(status.phase.as_deref()).unwrap()
}

fn restart_counts(status: &PodStatus) -> Vec<i32> {
    NAMES.iter().map(|name| of(status, name).restart_count).collect()
}

proptest! {
    #[test]
    fn what_was_said_is_never_taken_back(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let spec = json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": named(&["a", "b"]),
        });
        let mut bed = Bed::new(pod(&spec));
        let mut said: Option<PodStatus> = None;
        for (second, step) in steps.into_iter().enumerate() {
            bed.now = at(200 + i64::try_from(second).unwrap());
            match step {
                Step::Add(n, seen) => { bed.add(NAMES[n], seen.state()); }
                Step::Set(n, seen) => {
                    if bed.runtime.newest(NAMES[n]).is_some() {
                        bed.set(NAMES[n], seen.state());
                    }
                }
                Step::Forget => bed.runtime.containers.clear(),
                Step::Wait(n) => bed.waits(NAMES[n], "CrashLoopBackOff"),
                Step::Terminal => bed.is_terminal = true,
                Step::Deadline => bed.failure = Some(FailureOverride::deadline_exceeded()),
            }
            let may_run = bed.runtime.may_have_running_containers();
            let computed = bed.compute();
            let next = publishable(&bed.pod, computed.clone(), said.as_ref(), may_run);

            // A terminal phase is said only when nothing may run, and then stays with its reason.
            if let Some(before) = said.as_ref().filter(|s| phase_of(s).is_terminal()) {
                prop_assert_eq!(&next.phase, &before.phase);
                prop_assert_eq!(&next.reason, &before.reason);
            } else {
                prop_assert!(!(phase_of(&next).is_terminal() && may_run));
            }
            // The computed one, once terminal, stays as well.
            if let Some(before) = bed.previous.as_ref().filter(|s| phase_of(s).is_terminal()) {
                prop_assert_eq!(&computed.phase, &before.phase);
            }
            if let Some(before) = &said {
                prop_assert_eq!(&next.start_time, &before.start_time);
                let pairs = restart_counts(before).into_iter().zip(restart_counts(&next));
                prop_assert!(pairs.into_iter().all(|(old, new)| old <= new));
            }
            // A lost code is never success, a ready container runs, a terminal Pod is not ready.
            for name in NAMES {
                if let Some(newest) = bed.runtime.newest(name)
                    && matches!(&newest.state, ContainerState::Exited { exit, .. } if exit.code == ExitCode::Lost)
                {
                    let terminated = of(&computed, name).state.and_then(|s| s.terminated);
                    prop_assert!(terminated.is_none_or(|t| t.exit_code == 137));
                }
            }
            if phase_of(&next).is_terminal() {
                let ready = next.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
                prop_assert_eq!(&ready.status, "False");
            }
            bed.previous = Some(computed);
            said = Some(next);
        }
    }
}
