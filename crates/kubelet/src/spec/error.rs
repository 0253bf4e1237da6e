//! Why a Pod or container can't be described to a runtime.

/// The spec asks for what can't be. Shown with reason `CreateContainerConfigError` (containers) or
/// `FailedCreatePodSandBox` (sandboxes); trying again is pointless until the Pod or its image changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// `setHostnameAsFQDN` and the name is too long for the kernel.
    #[error(
        "Failed to construct FQDN from Pod hostname and cluster domain, FQDN {fqdn} is too long ({most} is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong {
        /// The name.
        fqdn: String,
        /// The kernel's limit.
        most: usize,
    },
    /// `runAsNonRoot`, and the Pod itself says root.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// Container name.
        container: String,
    },
    /// `runAsNonRoot`, and the image says root.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// Container name.
        container: String,
    },
    /// `runAsNonRoot`, and only the image's `/etc/passwd` could tell.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric {
        /// The image's `USER`.
        user: String,
        /// `name_namespace(uid)`.
        pod: String,
        /// Container name.
        container: String,
    },
    /// A user or group id that the kernel does not have.
    #[error("{field} {value} is not between 0 and 4294967294")]
    IdOutOfRange {
        /// `runAsUser`, `runAsGroup`, `fsGroup`, `supplementalGroups`.
        field: &'static str,
        /// The number.
        value: i64,
    },
    /// A `Localhost` seccomp profile with an unusable path.
    #[error("seccomp profile {0:?} must be a path inside the seccomp directory of the state directory, without '..'")]
    BadSeccompPath(String),
    /// A seccomp type that is not known.
    #[error("unknown seccomp profile type {0:?}")]
    UnknownSeccomp(String),
    /// A port that does not fit.
    #[error("{field} {value} is not between 1 and 65535")]
    BadPort {
        /// `hostPort` or `containerPort`.
        field: &'static str,
        /// The number.
        value: i32,
    },
    /// A `hostIP` that is no address.
    #[error("hostIP {0:?} is not an IP address")]
    BadHostIp(String),
    /// The Pod names a RuntimeClass; there are none on one machine.
    #[error("RuntimeClass {0:?} not found: minke knows only its own runtime; remove runtimeClassName")]
    NoRuntimeClass(String),
    /// A field that can't be honoured here.
    #[error("{0} is not supported by minke")]
    Unsupported(&'static str),
}
