//! Whose fault a cause is: the exit code that `minke run` promises for it.

use minke_core::judgement::Cause;

use crate::exit::Exit;

/// Whose fault it is; of several, the graver is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A container ended with an error, or can't be started.
    Container,
    /// Admission refused a Pod.
    Rejected,
    /// An image, a volume, the runtime or the machine.
    System,
}

impl Fault {
    /// The exit code that stands for it.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Container => Exit::ContainerFailed,
            Self::Rejected => Exit::Rejected,
            Self::System => Exit::System,
        }
    }

    /// Whose fault this cause is on a machine that runs Pods by itself. `minke watch` tells more kinds apart.
    pub(crate) fn of(cause: Cause) -> Self {
        match cause {
            Cause::OomKilled
            | Cause::StorageLimit
            | Cause::LivenessFailed
            | Cause::InitFailed
            | Cause::ContainerFailed
            | Cause::CrashLoop
            | Cause::DeadlineExceeded
            | Cause::CommandNotFound
            | Cause::WrongArchitecture
            | Cause::RunContainer
            | Cause::HookFailed
            | Cause::RestartedDespiteNever
            | Cause::ExitUnknown
            | Cause::NeverReady
            | Cause::PodFailed => Self::Container,
            Cause::OutOfResource | Cause::AdmissionRejected | Cause::AdmissionForbidden => Self::Rejected,
            Cause::OwnDeletion
            | Cause::Deleted
            | Cause::Replaced
            | Cause::Preempted
            | Cause::TaintEvicted
            | Cause::ApiEvicted
            | Cause::GarbageCollected
            | Cause::Evicted
            | Cause::NodeShutdown
            | Cause::NodeLost
            | Cause::NodeGoing
            | Cause::Disrupted
            | Cause::InvalidImageName
            | Cause::ImageNotFound
            | Cause::ImageDenied
            | Cause::ImageNeverPull
            | Cause::ImagePlatform
            | Cause::ImageSignature
            | Cause::RegistryUnavailable
            | Cause::RegistryTls
            | Cause::RegistryRateLimit
            | Cause::ImageCorrupt
            | Cause::ImagePullFailed
            | Cause::ImageStorage
            | Cause::ImageInspect
            | Cause::ObjectMissing
            | Cause::RunAsRoot
            | Cause::ContainerConfig
            | Cause::CreateContainer
            | Cause::RuntimeSlow
            | Cause::RuntimeClassMissing
            | Cause::UserNamespaces
            | Cause::SandboxFailed
            | Cause::VolumeMissing
            | Cause::VolumeAttach
            | Cause::VolumeMount
            | Cause::Unschedulable
            | Cause::SchedulingGated
            | Cause::StartTimeout
            | Cause::UnknownWaiting => Self::System,
        }
    }
}
