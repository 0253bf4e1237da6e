//! What calls return and what containers do, in the words of a transcript. Only what every runtime must say alike: no
//! ids, times or texts for people.

use minke_core::runtime::{ContainerPhase, ContainerState, ExitCode, PullError, RuntimeError, SandboxState};

/// How a call ended.
pub(crate) fn outcome<T>(result: &Result<T, RuntimeError>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => refusal(error),
    }
}

/// The kind of an error.
pub(crate) fn refusal(error: &RuntimeError) -> String {
    match error {
        RuntimeError::NotFound { what, .. } => format!("no such {what}"),
        RuntimeError::AlreadyExists { what, .. } => format!("{what} exists already"),
        RuntimeError::Invalid { .. } => "invalid".to_owned(),
        RuntimeError::NotExecutable { exit_code, .. } => format!("not executable {exit_code}"),
        RuntimeError::Unsupported { .. } => "unsupported".to_owned(),
        RuntimeError::NotPermitted { .. } => "not permitted".to_owned(),
        RuntimeError::Unavailable { .. } => "unavailable".to_owned(),
        RuntimeError::TimedOut { .. } => "timed out".to_owned(),
        RuntimeError::Failed { .. } => "failed".to_owned(),
    }
}

/// The kind of an error of a pull.
pub(crate) fn pull_refusal(error: &PullError) -> &'static str {
    match error {
        PullError::InvalidName { .. } => "invalid name",
        PullError::NotFound { .. } => "not found",
        PullError::Denied { .. } => "denied",
        PullError::RateLimited { .. } => "rate limited",
        PullError::Network { .. } => "network",
        PullError::DigestMismatch { .. } => "digest mismatch",
        PullError::NoPlatform { .. } => "no platform",
        PullError::BadContent { .. } => "bad content",
        PullError::Storage { .. } => "storage",
    }
}

/// An exit code.
pub(crate) fn code(code: ExitCode) -> String {
    match code {
        ExitCode::Known(code) => code.to_string(),
        ExitCode::Lost => "lost".to_owned(),
    }
}

/// What a container does.
pub(crate) fn state(state: &ContainerState) -> String {
    match state {
        ContainerState::Created => "created".to_owned(),
        ContainerState::Running { .. } => "running".to_owned(),
        ContainerState::Unknown => "unknown".to_owned(),
        ContainerState::Exited { started_at, exit } => {
            let never = if started_at.is_none() { ", never started" } else { "" };
            format!("exited {} {}{never}", code(exit.code), exit.reason)
        }
    }
}

/// What a list says that a container does.
pub(crate) fn phase(phase: ContainerPhase) -> &'static str {
    match phase {
        ContainerPhase::Created => "created",
        ContainerPhase::Running => "running",
        ContainerPhase::Exited => "exited",
        ContainerPhase::Unknown => "unknown",
    }
}

/// Whether a sandbox can hold containers.
pub(crate) fn ready(state: SandboxState) -> &'static str {
    match state {
        SandboxState::Ready => "ready",
        SandboxState::NotReady => "not ready",
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use minke_core::runtime::Exit;

    use super::*;

    #[test]
    fn an_end_says_code_reason_and_whether_there_was_a_start() {
        let exit = |code| Exit {
            code,
            reason: "Error".to_owned(),
            message: "not for transcripts".to_owned(),
            finished_at: Timestamp::UNIX_EPOCH,
        };
        let known = ContainerState::Exited { started_at: Some(Timestamp::UNIX_EPOCH), exit: exit(ExitCode::Known(3)) };
        assert_eq!(state(&known), "exited 3 Error");
        let lost = ContainerState::Exited { started_at: None, exit: exit(ExitCode::Lost) };
        assert_eq!(state(&lost), "exited lost Error, never started");
    }

    #[test]
    fn the_kind_of_an_error_has_no_text_for_people() {
        let error = RuntimeError::NotFound { operation: "x", what: "image", id: "sha256:1".to_owned() };
        assert_eq!(outcome::<()>(&Err(error)), "no such image");
        assert_eq!(outcome(&Ok(())), "ok");
    }
}
