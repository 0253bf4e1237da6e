//! What Pods use.

use minke_core::identity::PodUid;
use minke_core::runtime::{CgroupUsage, ContainerId, ContainerUsage, PodUsage, SandboxId};

use super::sandbox::pod_key;
use crate::api;

fn number(value: Option<api::UInt64Value>) -> u64 {
    value.map_or(0, |v| v.value)
}

/// `None` without memory, which every cgroup that exists has.
fn cgroup(cpu: Option<&api::CpuUsage>, memory: Option<&api::MemoryUsage>, pids: u64) -> Option<CgroupUsage> {
    let memory = memory?;
    Some(CgroupUsage {
        cpu_nanos: number(cpu.and_then(|c| c.usage_core_nano_seconds)),
        memory_working_set_bytes: number(memory.working_set_bytes),
        memory_rss_bytes: number(memory.rss_bytes),
        memory_usage_bytes: number(memory.usage_bytes),
        pids,
    })
}

/// A Pod and its containers. `None`: no Pod's.
pub(crate) fn pod(stats: &api::PodSandboxStats) -> Option<PodUsage> {
    let attributes = stats.attributes.as_ref()?;
    let pod: PodUid = pod_key(attributes.metadata.as_ref(), &attributes.labels)?.uid;
    let linux = stats.linux.as_ref();
    let pids = number(linux.and_then(|l| l.process.as_ref()).and_then(|p| p.process_count));
    Some(PodUsage {
        pod,
        sandbox: SandboxId(attributes.id.clone()),
        cgroup: linux.and_then(|l| cgroup(l.cpu.as_ref(), l.memory.as_ref(), pids)),
        containers: linux.into_iter().flat_map(|l| &l.containers).filter_map(container).collect(),
    })
}

/// A container. CRI counts processes of Pods alone.
fn container(stats: &api::ContainerStats) -> Option<ContainerUsage> {
    let attributes = stats.attributes.as_ref()?;
    let writable = stats.writable_layer.as_ref();
    Some(ContainerUsage {
        id: ContainerId(attributes.id.clone()),
        name: attributes.metadata.as_ref().map(|m| m.name.clone()).unwrap_or_default(),
        cgroup: cgroup(stats.cpu.as_ref(), stats.memory.as_ref(), 0),
        writable_bytes: writable.and_then(|w| w.used_bytes).map(|v| v.value),
        writable_inodes: writable.and_then(|w| w.inodes_used).map(|v| v.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: u64) -> Option<api::UInt64Value> {
        Some(api::UInt64Value { value })
    }

    #[test]
    fn use_is_carried_over_with_its_units() {
        let cpu = api::CpuUsage { usage_core_nano_seconds: value(7), ..Default::default() };
        let memory = api::MemoryUsage {
            working_set_bytes: value(1),
            rss_bytes: value(2),
            usage_bytes: value(3),
            ..Default::default()
        };
        let running = api::ContainerStats {
            attributes: Some(api::ContainerAttributes { id: "c".into(), ..Default::default() }),
            cpu: Some(cpu),
            memory: Some(memory),
            writable_layer: Some(api::FilesystemUsage {
                used_bytes: value(9),
                inodes_used: value(4),
                ..Default::default()
            }),
            ..Default::default()
        };
        let ended = api::ContainerStats { cpu: None, memory: None, writable_layer: None, ..running.clone() };
        let metadata = api::PodSandboxMetadata { name: "n".into(), uid: "u".into(), ..Default::default() };
        let attributes = api::PodSandboxAttributes { id: "s".into(), metadata: Some(metadata), ..Default::default() };
        let linux = api::LinuxPodSandboxStats {
            cpu: Some(cpu),
            memory: Some(memory),
            process: Some(api::ProcessUsage { process_count: value(5), ..Default::default() }),
            containers: vec![running, ended],
            ..Default::default()
        };
        let usage =
            pod(&api::PodSandboxStats { attributes: Some(attributes), linux: Some(linux), windows: None }).unwrap();
        let expected = CgroupUsage {
            cpu_nanos: 7,
            memory_working_set_bytes: 1,
            memory_rss_bytes: 2,
            memory_usage_bytes: 3,
            pids: 5,
        };
        assert_eq!((usage.pod.as_str(), usage.sandbox.0.as_str(), usage.cgroup), ("u", "s", Some(expected)));
        assert_eq!(usage.containers[0].cgroup, Some(CgroupUsage { pids: 0, ..expected }));
        assert_eq!((usage.containers[0].writable_bytes, usage.containers[0].writable_inodes), (Some(9), Some(4)));
        assert_eq!((usage.containers[1].cgroup, usage.containers[1].writable_bytes), (None, None), "it does not run");
    }

    #[test]
    fn what_belongs_to_no_pod_is_left_out() {
        assert_eq!(pod(&api::PodSandboxStats::default()), None);
    }
}
