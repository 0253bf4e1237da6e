//! What a runtime answers when it refuses, as the port's errors. Pure.
//!
//! Runtimes have few codes (containerd's refusals are nearly all `Unknown`), so words decide where a caller must tell
//! kinds apart. What is not recognised is a failure with the runtime's own words.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use minke_core::runtime::{Operation, RuntimeError};
use tonic::{Code, Status};

/// What a call was about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// This sandbox.
    Sandbox(&'a str),
    /// This container.
    Container(&'a str),
    /// This image.
    Image(&'a str),
    /// The runtime as a whole.
    Runtime,
}

impl Subject<'_> {
    fn what(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Sandbox(id) => Some(("sandbox", (*id).to_owned())),
            Self::Container(id) => Some(("container", (*id).to_owned())),
            Self::Image(name) => Some(("image", (*name).to_owned())),
            Self::Runtime => None,
        }
    }
}

/// The runtime's own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Words(pub(crate) String);

/// Whether no answer came: the connection could not be made or broke. What the runtime itself answered has no source.
pub(crate) fn is_transport(status: &Status) -> bool {
    StdError::source(status).is_some()
}

/// Whether the runtime itself answers that it is only starting: containerd listens before its CRI plugin is ready. Newer
/// ones have a code for it.
pub(crate) fn is_starting(status: &Status) -> bool {
    !is_transport(status) && status.message().contains("server is not initialized yet")
}

/// The error of the operating system behind a failed connection.
pub(crate) fn io_error(status: &Status) -> Option<&io::Error> {
    let mut cause = StdError::source(status);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// Why the connection failed, in words.
pub(crate) fn transport_words(status: &Status) -> String {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    match io_error(status) {
        Some(error) if matches!(error.kind(), ConnectionRefused | NotFound | PermissionDenied) => {
            format!("can't connect to its socket: {error}")
        }
        Some(_) | None => {
            let mut deepest: &dyn StdError = status;
            while let Some(cause) = deepest.source() {
                deepest = cause;
            }
            format!("the connection broke: {deepest}")
        }
    }
}

/// The port's error for an answer that is none, or a refusal.
pub(crate) fn runtime_error(
    operation: Operation,
    subject: Subject<'_>,
    after: Option<Duration>,
    status: &Status,
) -> RuntimeError {
    if is_transport(status) {
        return RuntimeError::Unavailable { operation, source: Box::new(Words(transport_words(status))) };
    }
    let message = status.message();
    let words = || Words(advised(message));
    if is_starting(status) {
        return RuntimeError::Unavailable { operation, source: Box::new(words()) };
    }
    match status.code() {
        Code::Unavailable => RuntimeError::Unavailable { operation, source: Box::new(words()) },
        Code::Unimplemented => RuntimeError::Unsupported { operation, feature: "this call of CRI".to_owned() },
        Code::DeadlineExceeded => RuntimeError::TimedOut { operation, after: after.unwrap_or_default() },
        Code::NotFound => match subject.what() {
            Some((what, id)) => RuntimeError::NotFound { operation, what, id },
            None => RuntimeError::failed(operation, words()),
        },
        Code::AlreadyExists => already_exists(operation, subject, message),
        Code::InvalidArgument => RuntimeError::Invalid { operation, message: advised(message) },
        Code::PermissionDenied => RuntimeError::NotPermitted { operation, message: advised(message) },
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => by_words(operation, subject, message),
    }
}

/// Whether a refusal says that something else has, or is about to get, the name.
pub(crate) fn is_claimed(status: &Status) -> bool {
    !is_transport(status) && (status.code() == Code::AlreadyExists || status.message().contains(RESERVED))
}

const RESERVED: &str = " is reserved for ";

fn by_words(operation: Operation, subject: Subject<'_>, message: &str) -> RuntimeError {
    if message.contains(RESERVED) {
        return already_exists(operation, subject, message);
    }
    if let Some((exit_code, message)) = no_program(message) {
        return RuntimeError::NotExecutable { operation, exit_code, message };
    }
    RuntimeError::failed(operation, Words(advised(message)))
}

fn already_exists(operation: Operation, subject: Subject<'_>, message: &str) -> RuntimeError {
    let what = match subject {
        Subject::Container(_) => "container",
        Subject::Sandbox(_) | Subject::Image(_) | Subject::Runtime => "sandbox",
    };
    // `failed to reserve … name "x_y_z_0": name "x_y_z_0" is reserved for "id"`
    let name = message.split('"').nth(1).unwrap_or(message);
    RuntimeError::AlreadyExists { operation, what, id: name.to_owned() }
}

/// A program that the container does not have or can't execute: what a shell would return, and runc's words for it.
pub(crate) fn no_program(message: &str) -> Option<(i32, String)> {
    let words = &message[message.find("exec: \"")?..];
    let words = words.strip_suffix(": unknown").unwrap_or(words);
    let code = [
        ("executable file not found", 127),
        ("no such file or directory", 127),
        ("permission denied", 126),
        ("exec format error", 126),
        ("is a directory", 126),
    ];
    let (_, code) = code.into_iter().find(|(text, _)| words.contains(text))?;
    Some((code, words.to_owned()))
}

/// Whether a refusal says that the container does not run.
pub(crate) fn is_not_running(status: &Status) -> bool {
    let message = status.message();
    !is_transport(status)
        && ["is not running", "is in CONTAINER_EXITED state", "is in CONTAINER_CREATED state", "not created or running"]
            .iter()
            .any(|words| message.contains(words))
}

/// The runtime's words, with what to do where they mislead.
pub(crate) fn advised(message: &str) -> String {
    // runc can't lower oom_score_adj without CAP_SYS_RESOURCE and says nothing of it.
    if message.contains("can't get final child's PID from pipe") {
        return format!(
            "{message} (if this machine lacks CAP_SYS_RESOURCE: containerd needs restrict_oom_score_adj = true in its \
             CRI plugin's configuration)"
        );
    }
    if message.contains("cni plugin not initialized") || message.contains("network is not ready") {
        return format!("{message} (install a CNI network in /etc/cni/net.d, or use hostNetwork)");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subject: Subject<'_>, code: Code, message: &str) -> RuntimeError {
        runtime_error("op", subject, Some(Duration::from_secs(2)), &Status::new(code, message))
    }

    #[test]
    fn codes_become_the_ports_kinds() {
        let container = Subject::Container("c1");
        let error = of(container, Code::NotFound, "x");
        let RuntimeError::NotFound { what: "container", id, .. } = error else { panic!("{error:?}") };
        assert_eq!(id, "c1");
        assert!(matches!(of(Subject::Runtime, Code::NotFound, "x"), RuntimeError::Failed { .. }));
        assert!(matches!(of(container, Code::Unimplemented, "x"), RuntimeError::Unsupported { .. }));
        assert!(matches!(of(container, Code::InvalidArgument, "x"), RuntimeError::Invalid { .. }));
        assert!(matches!(of(container, Code::Unavailable, "not initialized"), RuntimeError::Unavailable { .. }));
        let timed_out = of(container, Code::DeadlineExceeded, "x");
        assert!(matches!(timed_out, RuntimeError::TimedOut { after, .. } if after == Duration::from_secs(2)));
    }

    #[test]
    fn a_runtime_that_is_only_starting_is_not_available() {
        for code in [Code::Unknown, Code::Unavailable] {
            let error = of(Subject::Container("c"), code, "server is not initialized yet");
            assert!(matches!(error, RuntimeError::Unavailable { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_reserved_name_is_one_that_exists() {
        let message =
            r#"failed to reserve container name "c_p_default_u_0": name "c_p_default_u_0" is reserved for "abc""#;
        let error = of(Subject::Container(""), Code::Unknown, message);
        let RuntimeError::AlreadyExists { what: "container", id, .. } = error else { panic!("{error:?}") };
        assert_eq!(id, "c_p_default_u_0");
    }

    #[test]
    fn a_missing_program_is_told_in_runcs_words() {
        let long = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                    failed: unable to start container process: exec: \"nope\": executable file not found in $PATH: unknown";
        let error = of(Subject::Container("c"), Code::Unknown, long);
        let RuntimeError::NotExecutable { exit_code: 127, message, .. } = error else { panic!("{error:?}") };
        assert_eq!(message, "exec: \"nope\": executable file not found in $PATH");
        let denied = "runc exec failed: exec: \"/etc/passwd\": permission denied: unknown";
        assert_eq!(no_program(denied).map(|p| p.0), Some(126));
        assert_eq!(no_program("exec: \"a\": something else"), None);
        assert_eq!(no_program("it ran out of luck"), None);
    }

    #[test]
    fn misleading_words_come_with_advice() {
        let text = advised("runc create failed: can't get final child's PID from pipe: EOF");
        assert!(text.contains("restrict_oom_score_adj"), "{text}");
        assert_eq!(advised("plain"), "plain");
    }

    #[test]
    fn display_never_repeats_its_source() {
        let error = of(Subject::Runtime, Code::Unknown, "some words");
        assert_eq!(error.to_string(), "op failed");
        assert_eq!(minke_core::runtime::error_chain(&error), "op failed: some words");
    }
}
