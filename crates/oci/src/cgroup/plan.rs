//! Limits as files to write. Pure.

use minke_core::runtime::LinuxResources;

use super::{CgroupError, Hierarchies};

/// One file of a cgroup and what to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// The controller whose directory holds it.
    pub(super) controller: &'static str,
    /// Its name.
    pub(super) file: String,
    /// Its value.
    pub(super) value: String,
    /// A kernel built without the feature has no such file; then the write is left out.
    pub(super) optional: bool,
}

impl Write {
    fn new(controller: &'static str, file: impl Into<String>, value: &dyn ToString) -> Self {
        Self { controller, file: file.into(), value: value.to_string(), optional: false }
    }

    fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// The files that hold these limits. CPU shares are a wish between neighbours, so they are dropped where there is no
/// CPU controller; every other limit must hold.
pub(super) fn limits(hierarchies: &Hierarchies, limits: &LinuxResources) -> Result<Vec<Write>, CgroupError> {
    let version_2 = matches!(hierarchies, Hierarchies::V2 { .. });
    let need = |controller: &'static str, limit: &'static str| {
        if hierarchies.has(controller) { Ok(()) } else { Err(CgroupError::NoController { controller, limit }) }
    };
    let mut writes = Vec::new();
    if let Some(shares) = limits.cpu_shares.filter(|_| hierarchies.has("cpu")) {
        writes.push(if version_2 {
            Write::new("cpu", "cpu.weight", &weight(shares))
        } else {
            Write::new("cpu", "cpu.shares", &shares.max(2))
        });
    }
    if limits.cpu_quota_us.is_some_and(|q| q > 0) {
        need("cpu", "a CPU limit")?;
    }
    if let Some(quota) = limits.cpu_quota_us.filter(|_| hierarchies.has("cpu")) {
        let period = limits.cpu_period_us.unwrap_or(100_000);
        if version_2 {
            let quota = if quota > 0 { quota.to_string() } else { "max".to_owned() };
            writes.push(Write::new("cpu", "cpu.max", &format!("{quota} {period}")));
        } else {
            writes.push(Write::new("cpu", "cpu.cfs_period_us", &period).optional());
            writes.push(Write::new("cpu", "cpu.cfs_quota_us", &if quota > 0 { quota } else { -1 }));
        }
    }
    if let Some(bytes) = limits.memory_limit_bytes.filter(|b| *b > 0) {
        need("memory", "a memory limit")?;
        if version_2 {
            writes.push(Write::new("memory", "memory.max", &bytes));
            writes.push(Write::new("memory", "memory.swap.max", &0).optional());
        } else {
            writes.push(Write::new("memory", "memory.limit_in_bytes", &bytes));
            writes.push(Write::new("memory", "memory.memsw.limit_in_bytes", &bytes).optional());
        }
    }
    if let Some(pids) = limits.pids_limit {
        if pids > 0 {
            need("pids", "a limit on processes")?;
        }
        if hierarchies.has("pids") {
            let value = if pids > 0 { pids.to_string() } else { "max".to_owned() };
            writes.push(Write::new("pids", "pids.max", &value));
        }
    }
    for (size, bytes) in &limits.hugepages {
        // Without the controller no huge pages can be had by the limit's own rules; zero is then true anyway.
        if *bytes > 0 {
            need("hugetlb", "a limit on huge pages")?;
        }
        if hierarchies.has("hugetlb") {
            let file = if version_2 { format!("hugetlb.{size}.max") } else { format!("hugetlb.{size}.limit_in_bytes") };
            writes.push(Write::new("hugetlb", file, &bytes));
        }
    }
    Ok(writes)
}

/// CPU shares (2 to 262144, default 1024) as the weight of version 2 (1 to 10000, default 100), by the formula that
/// Kubernetes' runtimes use.
fn weight(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + ((shares - 2) * 9999) / 262_142
}

/// Kind of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// Character device.
    Char,
    /// Block device.
    Block,
}

/// What may be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceAccess {
    /// Open for reading.
    pub(crate) read: bool,
    /// Open for writing.
    pub(crate) write: bool,
    /// Make a node.
    pub(crate) mknod: bool,
}

impl DeviceAccess {
    /// Everything.
    pub(crate) const ALL: Self = Self { read: true, write: true, mknod: true };
    /// Make nodes only.
    pub(crate) const MKNOD: Self = Self { read: false, write: false, mknod: true };

    /// Reads `rwm` letters; others mean nothing.
    #[must_use]
    pub(crate) fn parse(letters: &str) -> Self {
        Self { read: letters.contains('r'), write: letters.contains('w'), mknod: letters.contains('m') }
    }

    pub(super) fn letters(self) -> String {
        [(self.read, 'r'), (self.write, 'w'), (self.mknod, 'm')].iter().filter(|l| l.0).map(|l| l.1).collect()
    }
}

/// A device that a container may use; everything else is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceRule {
    /// Kind.
    pub(crate) kind: DeviceKind,
    /// Major number; `None` is any.
    pub(crate) major: Option<u32>,
    /// Minor number; `None` is any.
    pub(crate) minor: Option<u32>,
    /// What may be done.
    pub(crate) access: DeviceAccess,
}

impl DeviceRule {
    const fn char(major: u32, minor: Option<u32>, access: DeviceAccess) -> Self {
        Self { kind: DeviceKind::Char, major: Some(major), minor, access }
    }

    /// As `devices.allow` of version 1 wants it.
    pub(super) fn v1_line(&self) -> String {
        let number = |n: Option<u32>| n.map_or_else(|| "*".to_owned(), |n| n.to_string());
        let kind = match self.kind {
            DeviceKind::Char => 'c',
            DeviceKind::Block => 'b',
        };
        format!("{kind} {}:{} {}", number(self.major), number(self.minor), self.access.letters())
    }
}

/// What every container may use: nodes can be made of any device but opened only for the harmless ones, the terminals
/// and what the Pod was given. `None` (privileged): no filter.
#[must_use]
pub(crate) fn container_device_rules(privileged: bool, extra: &[DeviceRule]) -> Option<Vec<DeviceRule>> {
    if privileged {
        return None;
    }
    let mut rules = vec![
        DeviceRule { kind: DeviceKind::Char, major: None, minor: None, access: DeviceAccess::MKNOD },
        DeviceRule { kind: DeviceKind::Block, major: None, minor: None, access: DeviceAccess::MKNOD },
        DeviceRule::char(1, Some(3), DeviceAccess::ALL), // null
        DeviceRule::char(1, Some(5), DeviceAccess::ALL), // zero
        DeviceRule::char(1, Some(7), DeviceAccess::ALL), // full
        DeviceRule::char(1, Some(8), DeviceAccess::ALL), // random
        DeviceRule::char(1, Some(9), DeviceAccess::ALL), // urandom
        DeviceRule::char(5, Some(0), DeviceAccess::ALL), // tty
        DeviceRule::char(5, Some(1), DeviceAccess::ALL), // console
        DeviceRule::char(5, Some(2), DeviceAccess::ALL), // ptmx
        DeviceRule::char(136, None, DeviceAccess::ALL),  // pts/*
    ];
    rules.extend_from_slice(extra);
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(names: &[&str]) -> Hierarchies {
        let controllers = names
            .iter()
            .map(|n| super::super::Controller { names: vec![(*n).to_owned()], mount: format!("/c/{n}").into() })
            .collect();
        Hierarchies::V1 { controllers, systemd: None }
    }

    fn v2(names: &[&str]) -> Hierarchies {
        Hierarchies::V2 { mount: "/c".into(), controllers: names.iter().map(|n| (*n).to_owned()).collect() }
    }

    fn lines(hierarchies: &Hierarchies, resources: &LinuxResources) -> Vec<String> {
        limits(hierarchies, resources).unwrap().iter().map(|w| format!("{}={}", w.file, w.value)).collect()
    }

    #[test]
    fn limits_become_files_of_each_version() {
        let resources = LinuxResources {
            cpu_period_us: Some(100_000),
            cpu_quota_us: Some(20_000),
            cpu_shares: Some(256),
            memory_limit_bytes: Some(32 << 20),
            pids_limit: Some(50),
            hugepages: vec![("2MB".into(), 4 << 20)],
            ..LinuxResources::default()
        };
        assert_eq!(
            lines(&v1(&["cpu", "memory", "pids", "hugetlb"]), &resources),
            [
                "cpu.shares=256",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=20000",
                "memory.limit_in_bytes=33554432",
                "memory.memsw.limit_in_bytes=33554432",
                "pids.max=50",
                "hugetlb.2MB.limit_in_bytes=4194304",
            ]
        );
        assert_eq!(
            lines(&v2(&["cpu", "memory", "pids", "hugetlb"]), &resources),
            [
                "cpu.weight=10",
                "cpu.max=20000 100000",
                "memory.max=33554432",
                "memory.swap.max=0",
                "pids.max=50",
                "hugetlb.2MB.max=4194304",
            ]
        );
    }

    #[test]
    fn a_hard_limit_without_its_controller_is_an_error_and_shares_are_not() {
        let none = v1(&["devices"]);
        assert!(
            limits(&none, &LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() }).unwrap().is_empty()
        );
        for resources in [
            LinuxResources { cpu_quota_us: Some(1000), ..LinuxResources::default() },
            LinuxResources { memory_limit_bytes: Some(1), ..LinuxResources::default() },
            LinuxResources { pids_limit: Some(1), ..LinuxResources::default() },
            LinuxResources { hugepages: vec![("2MB".into(), 1)], ..LinuxResources::default() },
        ] {
            let error = limits(&none, &resources).unwrap_err();
            assert!(error.is_not_permitted() && error.to_string().contains("controller"), "{error}");
        }
    }

    #[test]
    fn unlimited_is_written_as_the_kernel_wants_it() {
        let resources = LinuxResources { cpu_quota_us: Some(-1), pids_limit: Some(-1), ..LinuxResources::default() };
        assert_eq!(
            lines(&v1(&["cpu", "pids"]), &resources),
            ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=-1", "pids.max=max"]
        );
        assert_eq!(lines(&v2(&["cpu", "pids"]), &resources), ["cpu.max=max 100000", "pids.max=max"]);
    }

    #[test]
    fn shares_map_onto_the_whole_range_of_weights() {
        assert_eq!((weight(0), weight(2), weight(1024), weight(262_144), weight(u64::MAX)), (1, 1, 39, 10_000, 10_000));
    }

    #[test]
    fn device_rules_read_as_version_1_lines() {
        let rules = container_device_rules(false, &[]).unwrap();
        let lines: Vec<String> = rules.iter().map(DeviceRule::v1_line).collect();
        assert_eq!(lines[0], "c *:* m");
        assert!(lines.contains(&"c 1:3 rwm".to_owned()) && lines.contains(&"c 136:* rwm".to_owned()));
        assert_eq!(container_device_rules(true, &[]), None);
    }
}
