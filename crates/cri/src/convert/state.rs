//! What a container does.

use minke_core::runtime::{ContainerPhase, ContainerState, Exit, ExitCode};

use super::time::{given, time};
use crate::api;

/// The code of a container whose end the runtime did not see: it was down itself, or its shim had died.
const NOT_SEEN: i32 = 255;

/// As a list shows it.
pub(crate) fn phase(state: api::ContainerState) -> ContainerPhase {
    match state {
        api::ContainerState::ContainerCreated => ContainerPhase::Created,
        api::ContainerState::ContainerRunning => ContainerPhase::Running,
        api::ContainerState::ContainerExited => ContainerPhase::Exited,
        api::ContainerState::ContainerUnknown => ContainerPhase::Unknown,
    }
}

/// In full.
pub(crate) fn state(status: &api::ContainerStatus) -> ContainerState {
    match status.state() {
        api::ContainerState::ContainerCreated => ContainerState::Created,
        api::ContainerState::ContainerRunning => ContainerState::Running { started_at: given(status.started_at) },
        api::ContainerState::ContainerExited => {
            ContainerState::Exited { started_at: time(status.started_at), exit: exit(status) }
        }
        api::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

/// Whether it may have ended for the runtime alone: nobody saw its end.
pub(crate) fn may_live_on(status: &api::ContainerStatus) -> bool {
    let unseen = status.state() == api::ContainerState::ContainerExited && status.exit_code == NOT_SEEN;
    unseen || cut_off(status) == Some(CutOff::MayHaveRun)
}

/// A start that came to nothing because whoever had asked for it was gone, or the runtime itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// Its program was not run.
    NeverRan,
    /// Its program may have been run, and was killed then.
    MayHaveRun,
}

/// Whether its start was cut off. containerd says so with its word for a call whose caller is gone. One that is killed itself
/// while it starts a container may come back without having seen what its shim has made of it: it shows the container as
/// created, and the next start finds that its task "already exists".
pub(crate) fn cut_off(status: &api::ContainerStatus) -> Option<CutOff> {
    let message = status.message.trim_end_matches(": unknown");
    if status.state() != api::ContainerState::ContainerExited || status.reason != "StartError" {
        return None;
    }
    let (creating, canceled) =
        (message.starts_with("failed to create containerd task"), message.ends_with("context canceled"));
    match (creating, canceled) {
        (true, true) => Some(CutOff::NeverRan),
        (false, true) => Some(CutOff::MayHaveRun),
        (true, false) => message.ends_with(": already exists").then_some(CutOff::MayHaveRun),
        (false, false) => None,
    }
}

fn exit(status: &api::ContainerStatus) -> Exit {
    let finished_at = given(status.finished_at);
    let lost = |message: &str| {
        let reason = "ContainerStatusUnknown".to_owned();
        Exit { code: ExitCode::Lost, reason, message: message.to_owned(), finished_at }
    };
    if is_lost(status) {
        return lost("the container runtime was not there when it ended, so how it ended is not known");
    }
    if cut_off(status).is_some() {
        return lost(
            "its start was cut off when the agent that asked for it or the runtime ended, so whether it ran is not known",
        );
    }
    let (reason, message) = (status.reason.clone(), status.message.clone());
    Exit { code: ExitCode::Known(status.exit_code), reason, message, finished_at }
}

/// containerd reports such an end as code 255 with reason `Unknown`. A program's own 255 has reason `Error`.
fn is_lost(status: &api::ContainerStatus) -> bool {
    status.exit_code == NOT_SEEN && status.reason == "Unknown"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: i32, reason: &str, started_at: i64) -> ContainerState {
        state(&api::ContainerStatus {
            state: api::ContainerState::ContainerExited.into(),
            exit_code,
            reason: reason.to_owned(),
            message: "words".to_owned(),
            started_at,
            finished_at: 9,
            ..Default::default()
        })
    }

    fn code(state: &ContainerState) -> ExitCode {
        match state {
            ContainerState::Exited { exit, .. } => exit.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_end_that_nobody_saw_is_lost_and_a_programs_own_255_is_not() {
        let lost = ended(255, "Unknown", 1);
        assert_eq!(code(&lost), ExitCode::Lost);
        let ContainerState::Exited { exit, .. } = lost else { panic!() };
        assert_eq!(exit.reason, "ContainerStatusUnknown");
        assert_eq!(code(&ended(255, "Error", 1)), ExitCode::Known(255));
        assert_eq!(code(&ended(0, "Completed", 1)), ExitCode::Known(0));
        assert_eq!(code(&ended(137, "OOMKilled", 1)), ExitCode::Known(137));
    }

    #[test]
    fn a_start_that_failed_never_started() {
        let ContainerState::Exited { started_at, exit } = ended(128, "StartError", 0) else { panic!() };
        assert_eq!((started_at, exit.reason.as_str(), exit.message.as_str()), (None, "StartError", "words"));
    }

    #[test]
    fn a_start_that_was_cut_off_is_no_end_of_the_program() {
        let with = |message: &str| api::ContainerStatus {
            state: api::ContainerState::ContainerExited.into(),
            exit_code: 128,
            reason: "StartError".to_owned(),
            message: message.to_owned(),
            ..Default::default()
        };
        for (message, cut) in [
            ("failed to create containerd task: failed to create shim task: context canceled", Some(CutOff::NeverRan)),
            ("failed to create containerd task: context canceled: unknown", Some(CutOff::NeverRan)),
            ("failed to start containerd task \"c\": context canceled", Some(CutOff::MayHaveRun)),
            ("failed to create containerd task: task c: already exists: unknown", Some(CutOff::MayHaveRun)),
            ("failed to create containerd task: task c: already exists", Some(CutOff::MayHaveRun)),
            ("failed to start containerd task: file already exists", None),
            ("failed to create containerd task: exec: \"context canceled\": executable file not found in $PATH", None),
        ] {
            assert_eq!(cut_off(&with(message)), cut, "{message}");
            assert_eq!(code(&state(&with(message))) == ExitCode::Lost, cut.is_some(), "{message}");
        }
        assert!(may_live_on(&with("failed to create containerd task: task c: already exists")), "its task may run");
        let own = api::ContainerStatus { reason: "Error".to_owned(), ..with("context canceled") };
        assert_eq!(cut_off(&own), None, "a program that ran");
    }

    #[test]
    fn every_state_has_its_phase() {
        for there in [
            api::ContainerState::ContainerCreated,
            api::ContainerState::ContainerRunning,
            api::ContainerState::ContainerExited,
            api::ContainerState::ContainerUnknown,
        ] {
            let status = api::ContainerStatus { state: there.into(), ..Default::default() };
            assert_eq!(ContainerPhase::from(&state(&status)), phase(there));
        }
        // A number that no version of the API has.
        let odd = api::ContainerStatus { state: 77, ..Default::default() };
        assert_ne!(state(&odd), ContainerState::Running { started_at: given(0) });
    }
}
