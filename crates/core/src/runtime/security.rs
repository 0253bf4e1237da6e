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

/// What containers can't read unless they are privileged or ask for all of `/proc`: files of `/proc` and `/sys` that tell of
/// the machine or act on it. The defaults of upstream's runtimes.
pub const MASKED_PATHS: [&str; 13] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/devices/system/cpu/cpu0/thermal_throttle",
];

/// What the same containers can read and not write.
pub const READ_ONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

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

impl ContainerSecurity {
    /// What is hidden from the container: [`MASKED_PATHS`], or nothing.
    #[must_use]
    pub fn masked_paths(&self) -> Vec<String> {
        self.unless_open(&MASKED_PATHS)
    }

    /// What the container may only read: [`READ_ONLY_PATHS`], or nothing.
    #[must_use]
    pub fn read_only_paths(&self) -> Vec<String> {
        self.unless_open(&READ_ONLY_PATHS)
    }

    fn unless_open(&self, paths: &[&str]) -> Vec<String> {
        if self.privileged || self.unmasked_proc {
            return Vec::new();
        }
        paths.iter().map(|path| (*path).to_owned()).collect()
    }
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

impl LinuxResources {
    /// Takes over what `with` says; what it does not say stays.
    pub fn update(&mut self, with: &Self) {
        let Self { cpu_period_us, cpu_quota_us, cpu_shares, memory_limit_bytes, pids_limit, oom_score_adj, hugepages } =
            with;
        self.cpu_period_us = cpu_period_us.or(self.cpu_period_us);
        self.cpu_quota_us = cpu_quota_us.or(self.cpu_quota_us);
        self.cpu_shares = cpu_shares.or(self.cpu_shares);
        self.memory_limit_bytes = memory_limit_bytes.or(self.memory_limit_bytes);
        self.pids_limit = pids_limit.or(self.pids_limit);
        self.oom_score_adj = oom_score_adj.or(self.oom_score_adj);
        for (size, bytes) in hugepages {
            self.hugepages.retain(|(other, _)| other != size);
            self.hugepages.push((size.clone(), *bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_changes_what_it_says_and_nothing_else() {
        let mut limits = LinuxResources {
            cpu_quota_us: Some(10_000),
            memory_limit_bytes: Some(1 << 20),
            hugepages: vec![("2MB".to_owned(), 1), ("1GB".to_owned(), 2)],
            ..LinuxResources::default()
        };
        limits.update(&LinuxResources {
            cpu_quota_us: Some(-1),
            cpu_shares: Some(512),
            hugepages: vec![("2MB".to_owned(), 3)],
            ..LinuxResources::default()
        });
        let expected = LinuxResources {
            cpu_quota_us: Some(-1),
            cpu_shares: Some(512),
            memory_limit_bytes: Some(1 << 20),
            hugepages: vec![("1GB".to_owned(), 2), ("2MB".to_owned(), 3)],
            ..LinuxResources::default()
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn proc_is_hidden_unless_the_container_is_privileged_or_asks_for_it() {
        let plain = ContainerSecurity::default();
        assert_eq!((plain.masked_paths().len(), plain.read_only_paths().len()), (13, 5));
        for open in [
            ContainerSecurity { privileged: true, ..ContainerSecurity::default() },
            ContainerSecurity { unmasked_proc: true, ..ContainerSecurity::default() },
        ] {
            assert!(open.masked_paths().is_empty() && open.read_only_paths().is_empty(), "{open:?}");
        }
    }
}
