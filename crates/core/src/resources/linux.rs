//! Kernel limits from requests and limits: CFS quota and shares, memory, huge pages, `oom_score_adj`.
//!
//! Upstream sources: `pkg/kubelet/cm/helpers_linux.go`, `pkg/kubelet/qos/policy.go`.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Amount, ResourceList, container_limits, container_requests, every_container_limits, is_sidecar};
use super::{pod_limits, pod_requests};
use crate::qos::{QosClass, qos_class};
use crate::runtime::LinuxResources;

/// Length of a CFS period, µs.
pub const CPU_PERIOD_US: u64 = 100_000;
/// Least quota that the kernel takes, µs.
pub const MIN_CPU_QUOTA_US: i64 = 1_000;
/// Least weight; what a container gets that asks for no CPU.
pub const MIN_CPU_SHARES: u64 = 2;
/// Greatest weight.
pub const MAX_CPU_SHARES: u64 = 262_144;

/// `oom_score_adj` of Guaranteed and of critical Pods.
pub const OOM_SCORE_GUARANTEED: i32 = -997;
/// `oom_score_adj` of BestEffort Pods.
pub const OOM_SCORE_BEST_EFFORT: i32 = 1000;

/// What of the machine decides about limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitFacts {
    /// Memory of the machine in bytes; `oom_score_adj` of Burstable Pods is relative to it.
    pub memory_bytes: u64,
    /// Most processes of one Pod; `None` leaves the kernel's own limit.
    pub pod_pids_limit: Option<i64>,
}

/// Weight for this many millicores.
#[must_use]
pub fn cpu_shares(millis: i64) -> u64 {
    let millis = u64::try_from(millis).unwrap_or(0);
    (millis.saturating_mul(1024) / 1000).clamp(MIN_CPU_SHARES, MAX_CPU_SHARES)
}

/// Quota in µs a period for this many millicores; `None` for no limit.
#[must_use]
pub fn cpu_quota(millis: i64) -> Option<i64> {
    let period = i64::try_from(CPU_PERIOD_US).unwrap_or(i64::MAX);
    (millis > 0).then(|| (millis.saturating_mul(period) / 1000).max(MIN_CPU_QUOTA_US))
}

/// `oom_score_adj` of a container: the more of the machine's memory it asked for, the later it is killed.
#[must_use]
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_bytes: u64) -> i32 {
    let spec = pod.spec.as_ref();
    if spec.and_then(|s| s.priority_class_name.as_deref()) == Some("system-node-critical") {
        return OOM_SCORE_GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return OOM_SCORE_GUARANTEED,
        QosClass::BestEffort => return OOM_SCORE_BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let own = burstable_score(container, memory_bytes);
    // A sidecar must not die before the containers that it serves.
    let serves =
        spec.filter(|s| is_sidecar(container) && s.init_containers.iter().flatten().any(|c| c.name == container.name));
    let least = serves.and_then(|s| s.containers.iter().map(|c| burstable_score(c, memory_bytes)).min());
    least.map_or(own, |least| own.min(least))
}

fn burstable_score(container: &Container, memory_bytes: u64) -> i32 {
    let asked = container_requests(container).get("memory").map_or(0, |a| a.value().max(0));
    let machine = i128::from(memory_bytes.max(1));
    let score = 1000 - 1000 * i128::from(asked) / machine;
    // Between Guaranteed and BestEffort, and never equal to either.
    let score = score.clamp(i128::from(1000 + OOM_SCORE_GUARANTEED), i128::from(OOM_SCORE_BEST_EFFORT - 1));
    i32::try_from(score).unwrap_or(OOM_SCORE_BEST_EFFORT - 1)
}

/// Limits of a container.
#[must_use]
pub fn container_resources(pod: &Pod, container: &Container, facts: &LimitFacts) -> LinuxResources {
    let requests = container_requests(container);
    let limits = container_limits(container);
    let millis = |list: &ResourceList| list.get("cpu").map_or(0, |a| a.milli_value());
    let quota = cpu_quota(millis(&limits));
    LinuxResources {
        cpu_period_us: quota.map(|_| CPU_PERIOD_US),
        cpu_quota_us: quota,
        cpu_shares: Some(cpu_shares(millis(&requests))),
        memory_limit_bytes: memory_limit(&limits),
        pids_limit: None,
        oom_score_adj: Some(oom_score_adj(pod, container, facts.memory_bytes)),
        hugepages: hugepages(&limits),
    }
}

/// Limits of a Pod's own cgroup: what its containers may use together. CPU and memory are limited only when every
/// container is; otherwise one limited container would starve the others.
#[must_use]
pub fn pod_resources(pod: &Pod, facts: &LimitFacts) -> LinuxResources {
    let requests = pod_requests(pod);
    let limits = pod_limits(pod);
    let millis = |list: &ResourceList| list.get("cpu").map_or(0, |a| a.milli_value());
    let quota = every_container_limits(pod, "cpu").then(|| cpu_quota(millis(&limits))).flatten();
    let shares = match qos_class(pod) {
        QosClass::BestEffort => MIN_CPU_SHARES,
        QosClass::Guaranteed | QosClass::Burstable => cpu_shares(millis(&requests)),
    };
    LinuxResources {
        cpu_period_us: quota.map(|_| CPU_PERIOD_US),
        cpu_quota_us: quota,
        cpu_shares: Some(shares),
        memory_limit_bytes: every_container_limits(pod, "memory").then(|| memory_limit(&limits)).flatten(),
        pids_limit: facts.pod_pids_limit,
        oom_score_adj: None,
        hugepages: hugepages(&limits),
    }
}

fn memory_limit(limits: &ResourceList) -> Option<i64> {
    limits.get("memory").map(|a| a.value()).filter(|bytes| *bytes > 0)
}

/// `hugepages-2Mi: 64Mi` → `("2MB", 67108864)`; the kernel's names have decimal looks and binary meaning.
fn hugepages(limits: &ResourceList) -> Vec<(String, u64)> {
    let page = |(name, amount): (&String, &Amount)| {
        let size = Amount::parse(name.strip_prefix("hugepages-")?).ok()?.value();
        Some((page_size_name(u64::try_from(size).ok()?), u64::try_from(amount.value()).ok()?))
    };
    limits.iter().filter_map(page).collect()
}

fn page_size_name(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;
    match bytes {
        b if b >= GB && b % GB == 0 => format!("{}GB", b / GB),
        b if b >= MB && b % MB == 0 => format!("{}MB", b / MB),
        b => format!("{}KB", b / KB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const GIB: u64 = 1 << 30;
    const FACTS: LimitFacts = LimitFacts { memory_bytes: 4 * GIB, pod_pids_limit: None };

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn first(pod: &Pod) -> LinuxResources {
        container_resources(pod, &pod.spec.as_ref().unwrap().containers[0], &FACTS)
    }

    #[test]
    fn milli_cpu_to_shares() {
        for (millis, shares) in [(0, 2), (-5, 2), (1, 2), (100, 102), (1000, 1024), (2000, 2048), (i64::MAX, 262_144)] {
            assert_eq!(cpu_shares(millis), shares, "{millis}");
        }
    }

    #[test]
    fn milli_cpu_to_quota() {
        for (millis, quota) in
            [(0, None), (-1, None), (1, Some(1000)), (5, Some(1000)), (200, Some(20_000)), (1500, Some(150_000))]
        {
            assert_eq!(cpu_quota(millis), quota, "{millis}");
        }
    }

    #[test]
    fn a_container_with_limits() {
        let pod = pod(&json!({"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "250m"}, "limits": {"cpu": "200m", "memory": "32Mi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "1Gi"}}}]}));
        let resources = first(&pod);
        assert_eq!((resources.cpu_quota_us, resources.cpu_period_us), (Some(20_000), Some(100_000)));
        assert_eq!(resources.cpu_shares, Some(256));
        assert_eq!(resources.memory_limit_bytes, Some(32 << 20));
        assert_eq!(resources.hugepages, [("1GB".to_owned(), GIB), ("2MB".to_owned(), 64 << 20)]);
    }

    #[test]
    fn a_container_that_asks_for_nothing() {
        let pod = pod(&json!({"containers": [{"name": "c"}]}));
        let expected = LinuxResources { cpu_shares: Some(2), oom_score_adj: Some(1000), ..LinuxResources::default() };
        assert_eq!(first(&pod), expected);
    }

    #[test]
    fn oom_score_by_class() {
        let of = |spec: Value| first(&pod(&spec)).oom_score_adj;
        let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(of(json!({"containers": [{"name": "c", "resources": full}]})), Some(-997));
        let asks = |memory: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"memory": memory}}}]});
        assert_eq!(of(asks("1Gi")), Some(750));
        assert_eq!(of(asks("1")), Some(999));
        assert_eq!(of(asks("4Gi")), Some(3));
        assert_eq!(of(asks("400Gi")), Some(3));
        assert_eq!(of(json!({"containers": [{"name": "c"}], "priorityClassName": "system-node-critical"})), Some(-997));
    }

    #[test]
    fn a_sidecar_outlives_the_containers_it_serves() {
        let pod = pod(&json!({
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "resources": {"requests": {"memory": "2Gi"}}}],
        }));
        let sidecar = &pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[0];
        assert_eq!(oom_score_adj(&pod, sidecar, FACTS.memory_bytes), 500);
    }

    #[test]
    fn the_pod_is_limited_only_when_every_container_is() {
        let limited = json!({"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
        let all = pod_resources(&pod(&json!({"containers": [limited, limited]})), &FACTS);
        assert_eq!((all.cpu_quota_us, all.memory_limit_bytes), (Some(200_000), Some(2 << 30)));
        assert_eq!(all.cpu_shares, Some(2048));
        let some = pod_resources(&pod(&json!({"containers": [limited, {"name": "b"}]})), &FACTS);
        assert_eq!((some.cpu_quota_us, some.memory_limit_bytes), (None, None));
        assert_eq!(some.cpu_shares, Some(1024));
        let none = pod_resources(
            &pod(&json!({"containers": [{"name": "b"}]})),
            &LimitFacts { pod_pids_limit: Some(99), ..FACTS },
        );
        assert_eq!((none.cpu_shares, none.pids_limit), (Some(2), Some(99)));
    }
}
