//! What Pods of the fake runtime use: as scripted.

use async_trait::async_trait;

use super::calls::{Call, Op};
use super::runtime::FakeRuntime;
use super::world::World;
use crate::identity::PodUid;
use crate::runtime::{CgroupUsage, ContainerUsage, ListFilter, PodUsage, RuntimeError, SandboxState, StatsService};

impl FakeRuntime {
    /// Sets what a container uses; unset, it is nothing.
    pub fn use_resources(&self, pod: &PodUid, container: impl Into<String>, cgroup: CgroupUsage, writable_bytes: u64) {
        self.world().usage.insert((pod.clone(), container.into()), (cgroup, writable_bytes));
    }
}

fn add(sum: CgroupUsage, one: CgroupUsage) -> CgroupUsage {
    CgroupUsage {
        cpu_nanos: sum.cpu_nanos + one.cpu_nanos,
        memory_working_set_bytes: sum.memory_working_set_bytes + one.memory_working_set_bytes,
        memory_rss_bytes: sum.memory_rss_bytes + one.memory_rss_bytes,
        memory_usage_bytes: sum.memory_usage_bytes + one.memory_usage_bytes,
        pids: sum.pids + one.pids,
    }
}

impl World {
    fn pod_usage(&self, filter: &ListFilter) -> Vec<PodUsage> {
        let ready = self.sandboxes.iter().filter(|(_, s)| s.state == SandboxState::Ready);
        let wanted = ready.filter(|(_, s)| filter.pod.as_ref().is_none_or(|pod| *pod == s.config.pod.uid));
        let one = |(sandbox, s): (&crate::runtime::SandboxId, &super::world::Sandbox)| {
            let pod = s.config.pod.uid.clone();
            let own = self.containers.iter().filter(|(_, c)| c.sandbox == *sandbox);
            let containers: Vec<_> = own
                .map(|(id, c)| {
                    let name = c.config.name.clone();
                    let (cgroup, writable) = self.usage.get(&(pod.clone(), name.clone())).copied().unwrap_or_default();
                    let cgroup = c.state.is_running().then_some(cgroup);
                    ContainerUsage {
                        id: id.clone(),
                        name,
                        cgroup,
                        writable_bytes: Some(writable),
                        writable_inodes: Some(0),
                    }
                })
                .collect();
            let cgroup = containers.iter().filter_map(|c| c.cgroup).fold(CgroupUsage::default(), add);
            PodUsage { pod, sandbox: sandbox.clone(), cgroup: Some(cgroup), containers }
        };
        wanted.map(one).collect()
    }
}

#[async_trait]
impl StatsService for FakeRuntime {
    async fn pod_usage(&self, filter: &ListFilter) -> Result<Vec<PodUsage>, RuntimeError> {
        let call = Call { op: Op::PodUsage, pod: filter.pod.clone(), name: String::new(), number: 0 };
        self.call(call, |e, c| e.runtime(c), |world, _| Ok(world.pod_usage(filter))).await
    }
}
