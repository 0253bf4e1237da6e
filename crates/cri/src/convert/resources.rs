//! Limits.
//!
//! CRI has no limit on processes: the kubelet sets that on the Pod's cgroup.

use minke_core::runtime::LinuxResources;

use crate::api;

/// For CRI. A kernel's default is zero there.
pub(crate) fn resources(limits: &LinuxResources) -> api::LinuxContainerResources {
    let signed = |value: Option<u64>| value.map_or(0, |v| i64::try_from(v).unwrap_or(i64::MAX));
    let hugepages =
        limits.hugepages.iter().map(|(size, limit)| api::HugepageLimit { page_size: size.clone(), limit: *limit });
    api::LinuxContainerResources {
        cpu_period: signed(limits.cpu_period_us),
        cpu_quota: limits.cpu_quota_us.unwrap_or(0),
        cpu_shares: signed(limits.cpu_shares),
        memory_limit_in_bytes: limits.memory_limit_bytes.unwrap_or(0),
        oom_score_adj: limits.oom_score_adj.map_or(0, i64::from),
        hugepage_limits: hugepages.collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_keep_their_units() {
        let limits = LinuxResources {
            cpu_period_us: Some(100_000),
            cpu_quota_us: Some(20_000),
            cpu_shares: Some(256),
            memory_limit_bytes: Some(32 << 20),
            pids_limit: Some(7),
            oom_score_adj: Some(-997),
            hugepages: vec![("2MB".to_owned(), 4 << 20)],
        };
        let there = resources(&limits);
        assert_eq!((there.cpu_period, there.cpu_quota, there.cpu_shares), (100_000, 20_000, 256));
        assert_eq!((there.memory_limit_in_bytes, there.oom_score_adj), (32 << 20, -997));
        assert_eq!(there.hugepage_limits, [api::HugepageLimit { page_size: "2MB".to_owned(), limit: 4 << 20 }]);
        assert_eq!(resources(&LinuxResources::default()), api::LinuxContainerResources::default());
    }
}
