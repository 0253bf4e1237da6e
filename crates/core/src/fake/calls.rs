//! What was asked of the runtime, and what goes wrong with it.

use std::fmt;
use std::time::Duration;

use crate::identity::PodUid;
use crate::runtime::{PullError, RuntimeError};

/// The calls of the Runtime port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `run_sandbox`.
    RunSandbox,
    /// `stop_sandbox`.
    StopSandbox,
    /// `remove_sandbox`.
    RemoveSandbox,
    /// `sandbox_status`.
    SandboxStatus,
    /// `list_sandboxes`.
    ListSandboxes,
    /// `create_container`.
    CreateContainer,
    /// `start_container`.
    StartContainer,
    /// `stop_container`.
    StopContainer,
    /// `remove_container`.
    RemoveContainer,
    /// `container_status`.
    ContainerStatus,
    /// `list_containers`.
    ListContainers,
    /// `update_resources`.
    UpdateResources,
    /// `reopen_log`.
    ReopenLog,
    /// `pull_image`.
    PullImage,
    /// `image_status`.
    ImageStatus,
    /// `list_images`.
    ListImages,
    /// `remove_image`.
    RemoveImage,
    /// `image_fs_info`.
    ImageFsInfo,
    /// `exec_sync`.
    ExecSync,
    /// `exec`.
    Exec,
    /// `attach`.
    Attach,
    /// `connect`.
    Connect,
    /// `pod_usage`.
    PodUsage,
}

impl Op {
    /// As error messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RunSandbox => "run sandbox",
            Self::StopSandbox => "stop sandbox",
            Self::RemoveSandbox => "remove sandbox",
            Self::SandboxStatus => "sandbox status",
            Self::ListSandboxes => "list sandboxes",
            Self::CreateContainer => "create container",
            Self::StartContainer => "start container",
            Self::StopContainer => "stop container",
            Self::RemoveContainer => "remove container",
            Self::ContainerStatus => "container status",
            Self::ListContainers => "list containers",
            Self::UpdateResources => "update resources",
            Self::ReopenLog => "reopen log",
            Self::PullImage => "pull image",
            Self::ImageStatus => "image status",
            Self::ListImages => "list images",
            Self::RemoveImage => "remove image",
            Self::ImageFsInfo => "image fs info",
            Self::ExecSync => "exec sync",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::Connect => "connect",
            Self::PodUsage => "pod usage",
        }
    }

    /// Whether the call changes nothing.
    #[must_use]
    pub fn is_read(self) -> bool {
        match self {
            Self::SandboxStatus
            | Self::ListSandboxes
            | Self::ContainerStatus
            | Self::ListContainers
            | Self::ImageStatus
            | Self::ListImages
            | Self::ImageFsInfo
            | Self::PodUsage => true,
            Self::RunSandbox
            | Self::StopSandbox
            | Self::RemoveSandbox
            | Self::CreateContainer
            | Self::StartContainer
            | Self::StopContainer
            | Self::RemoveContainer
            | Self::UpdateResources
            | Self::ReopenLog
            | Self::PullImage
            | Self::RemoveImage
            | Self::ExecSync
            | Self::Exec
            | Self::Attach
            | Self::Connect => false,
        }
    }
}

/// One call, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub op: Op,
    /// The Pod, where the call is about one.
    pub pod: Option<PodUid>,
    /// Container name, image name, or the id of a sandbox; empty for lists.
    pub name: String,
    /// The attempt of a container or sandbox; the grace in ms of a stop; else 0.
    pub number: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.op.name(), self.name, self.number)
    }
}

/// How a failed call fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultError {
    /// [`RuntimeError::Failed`] (for a pull: [`PullError::Network`]).
    Failed(String),
    /// [`RuntimeError::Unavailable`] (for a pull: [`PullError::Network`]).
    Unavailable,
    /// [`RuntimeError::TimedOut`].
    TimedOut,
    /// [`RuntimeError::NotFound`].
    NotFound,
    /// [`RuntimeError::Invalid`].
    Invalid(String),
    /// This error, for a pull; elsewhere like `Failed`.
    Pull(PullError),
}

impl FaultError {
    pub(super) fn runtime(&self, call: &Call) -> RuntimeError {
        let operation = call.op.name();
        match self {
            Self::Failed(message) => RuntimeError::failed(operation, message.clone()),
            Self::Unavailable => RuntimeError::Unavailable { operation, source: "connection refused".into() },
            Self::TimedOut => RuntimeError::TimedOut { operation, after: Duration::from_secs(120) },
            Self::NotFound => RuntimeError::NotFound { operation, what: "thing", id: call.name.clone() },
            Self::Invalid(message) => RuntimeError::Invalid { operation, message: message.clone() },
            Self::Pull(error) => RuntimeError::failed(operation, error.clone()),
        }
    }

    pub(super) fn pull(&self, call: &Call) -> PullError {
        let network = |message: &str| PullError::Network { image: call.name.clone(), message: message.to_owned() };
        match self {
            Self::Pull(error) => error.clone(),
            Self::NotFound => PullError::NotFound { image: call.name.clone() },
            Self::Failed(message) | Self::Invalid(message) => network(message),
            Self::Unavailable => network("connection refused"),
            Self::TimedOut => network("no answer"),
        }
    }
}

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultAction {
    /// It fails and has no effect.
    Fail(FaultError),
    /// It has its effect, and still fails.
    FailAfterEffect(FaultError),
    /// It never returns, and has no effect.
    Hang,
    /// It has its effect and never returns.
    HangAfterEffect,
    /// It takes this long before it does anything.
    Delay(Duration),
}

/// A rule: which calls go wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// These calls; `None`: all.
    pub op: Option<Op>,
    /// About this container, image or sandbox; `None`: all.
    pub name: Option<String>,
    /// Of this Pod; `None`: all.
    pub pod: Option<PodUid>,
    /// So many matching calls go right first.
    pub after: u32,
    /// So many go wrong then; `None`: all from then on.
    pub times: Option<u32>,
    /// What goes wrong.
    pub action: FaultAction,
}

impl Fault {
    /// Every call of this kind goes wrong like this.
    #[must_use]
    pub fn on(op: Op, action: FaultAction) -> Self {
        Self { op: Some(op), name: None, pod: None, after: 0, times: None, action }
    }

    /// Every call of this kind fails.
    #[must_use]
    pub fn fail(op: Op) -> Self {
        Self::on(op, FaultAction::Fail(FaultError::Failed("scripted failure".to_owned())))
    }

    /// Only about this container, image or sandbox.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Only of this Pod.
    #[must_use]
    pub fn of_pod(self, pod: &PodUid) -> Self {
        Self { pod: Some(pod.clone()), ..self }
    }

    /// Only the nth matching call, counted from 1.
    #[must_use]
    pub fn nth(self, n: u32) -> Self {
        Self { after: n.saturating_sub(1), times: Some(1), ..self }
    }

    /// Only the first so many matching calls.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Whether this call is hit; counts matching calls.
    pub(super) fn hits(&mut self, call: &Call) -> bool {
        let matches = self.op.is_none_or(|op| op == call.op)
            && self.name.as_ref().is_none_or(|name| *name == call.name)
            && self.pod.as_ref().is_none_or(|pod| call.pod.as_ref() == Some(pod));
        if !matches {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        match &mut self.times {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}
