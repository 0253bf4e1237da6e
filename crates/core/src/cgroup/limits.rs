//! Limits as files to write. Pure.

use super::Hierarchies;
use crate::runtime::LinuxResources;

/// One file of a cgroup and what to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The controller whose directory holds it.
    pub controller: &'static str,
    /// Its name.
    pub file: String,
    /// Its value.
    pub value: String,
    /// A kernel built without the feature has no such file; then the write is left out.
    pub optional: bool,
}

/// A limit needs a controller that isn't there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{limit} needs the cgroup controller {controller:?}, which this machine does not offer; enable it in the kernel or on \
     the parent cgroup, or leave the limit out"
)]
pub struct NoController {
    /// The controller.
    pub controller: &'static str,
    /// The limit that was asked for, in words.
    pub limit: &'static str,
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

/// The files that hold these limits, in the order in which a new cgroup takes them. CPU shares are a wish between neighbours, so they are dropped where there is no
/// CPU controller; every other limit must hold.
///
/// # Errors
/// A controller is missing that a limit needs.
pub fn limits(hierarchies: &Hierarchies, limits: &LinuxResources) -> Result<Vec<Write>, NoController> {
    let version_2 = matches!(hierarchies, Hierarchies::V2 { .. });
    let need = |controller: &'static str, limit: &'static str| {
        if hierarchies.has(controller) { Ok(()) } else { Err(NoController { controller, limit }) }
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
#[must_use]
pub fn weight(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + ((shares - 2) * 9999) / 262_142
}

/// The other way round: the fewest shares that have this weight.
#[must_use]
pub fn shares(weight: u64) -> u64 {
    let weight = weight.clamp(1, 10_000);
    2 + ((weight - 1) * 262_142).div_ceil(9999)
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
            assert!(error.to_string().contains("controller"), "{error}");
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
    fn weights_go_there_and_back() {
        assert_eq!((shares(1), shares(10_000), shares(0), shares(u64::MAX)), (2, 262_144, 2, 262_144));
        for given in 1..=10_000 {
            assert_eq!(weight(shares(given)), given);
        }
    }
}
