//! What a container may do and use: the part of CRI's Linux configuration that is the same for all runtimes.

use serde::{Deserialize, Serialize};

/// Which system calls are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SeccompProfile {
    /// The runtime's default profile. Minke's default, where upstream's is [`SeccompProfile::Unconfined`].
    #[default]
    RuntimeDefault,
    /// No filter.
    Unconfined,
    /// A profile file, as an absolute path.
    Localhost(std::path::PathBuf),
}

/// Capabilities on top of, and taken from, Kubernetes' default set. Names without `CAP_`; `ALL` is understood.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapabilityChanges {
    /// Added.
    pub add: Vec<String>,
    /// Dropped; applied first, as upstream's runtimes do.
    pub drop: Vec<String>,
}

/// Who the container's process is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RunAs {
    /// What the image says (`USER`), or root.
    #[default]
    Image,
    /// A numeric user.
    Uid(u32),
    /// A user name, looked up in the image's `/etc/passwd`.
    Name(String),
}

/// Security settings of one container (CRI `LinuxContainerSecurityContext`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerSecurity {
    /// All devices, all capabilities, no masked paths, no seccomp.
    pub privileged: bool,
    /// User.
    pub run_as: RunAs,
    /// Primary group; `None`: that of the user in the image, or 0.
    pub run_as_group: Option<u32>,
    /// Supplementary groups (`supplementalGroups` and `fsGroup`), merged with those of the image's user.
    pub supplemental_groups: Vec<u32>,
    /// `supplementalGroupsPolicy: Strict`: leave the image's groups out.
    pub strict_supplemental_groups: bool,
    /// Capabilities.
    pub capabilities: CapabilityChanges,
    /// Mount the root read-only.
    pub read_only_root: bool,
    /// Set `no_new_privs`: `allowPrivilegeEscalation: false`.
    pub no_new_privileges: bool,
    /// Seccomp.
    pub seccomp: SeccompProfile,
    /// `procMount: Unmasked`: leave out masked and read-only paths.
    pub unmasked_proc: bool,
}

/// Limits of a container or of a whole Pod. `None` leaves the kernel's default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinuxResources {
    /// CFS period in µs.
    pub cpu_period_us: Option<u64>,
    /// CFS quota in µs of each period; negative is none.
    pub cpu_quota_us: Option<i64>,
    /// Relative weight, 2 to 262144 (cgroup v1 scale; converted on v2).
    pub cpu_shares: Option<u64>,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<i64>,
    /// Limit on the number of processes.
    pub pids_limit: Option<i64>,
    /// `oom_score_adj`, -1000 to 1000; clamped to what the machine allows.
    pub oom_score_adj: Option<i32>,
    /// Huge page limits: page size (`2MB`) and bytes.
    pub hugepages: Vec<(String, u64)>,
}
