//! `/stats/summary`: what the node and its Pods use, as upstream's `Summary` (stats v1alpha1). Pure.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use minke_core::identity::PodUid;
use minke_core::provider::PodStats;
use minke_core::resources::Amount;
use minke_core::runtime::CgroupUsage;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::rates::{Consumer, Rates};
use super::source::NodeUsage;

/// What is known at one time.
pub(crate) struct Seen<'a> {
    pub(crate) node: &'a str,
    pub(crate) usage: NodeUsage,
    /// The Pods that are held, for what their objects say.
    pub(crate) pods: &'a HashMap<PodUid, Arc<Pod>>,
    pub(crate) stats: &'a [PodStats],
    pub(crate) wall: Timestamp,
    pub(crate) instant: Instant,
}

/// The document. `brief`: processor time and memory alone.
pub(crate) fn summary(seen: &Seen<'_>, rates: &mut Rates, brief: bool) -> Value {
    let pods: Vec<Value> = seen.stats.iter().map(|stats| pod(seen, stats, rates, brief)).collect();
    json!({"node": node(seen, rates, brief), "pods": pods})
}

fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn cpu(seen: &Seen<'_>, consumer: Consumer, nanos: u64, rates: &mut Rates) -> Value {
    let mut cpu = json!({"time": time(seen.wall), "usageCoreNanoSeconds": nanos});
    if let Some(rate) = rates.look(consumer, nanos, seen.instant) {
        cpu["usageNanoCores"] = rate.into();
    }
    cpu
}

fn node(seen: &Seen<'_>, rates: &mut Rates, brief: bool) -> Value {
    let mut node = json!({"nodeName": seen.node});
    let usage = &seen.usage;
    if let Some(started) = usage.started {
        node["startTime"] = time(started);
    }
    if let Some(nanos) = usage.cpu_nanos {
        node["cpu"] = cpu(seen, None, nanos, rates);
    }
    if let Some(memory) = usage.memory {
        node["memory"] = json!({
            "time": time(seen.wall), "availableBytes": memory.available, "usageBytes": memory.usage,
            "workingSetBytes": memory.working_set, "rssBytes": memory.rss,
        });
    }
    if let (Some(disk), false) = (usage.disk, brief) {
        node["fs"] = json!({
            "time": time(seen.wall), "availableBytes": disk.available, "capacityBytes": disk.capacity,
            "usedBytes": disk.used, "inodesFree": disk.inodes_free, "inodes": disk.inodes,
            "inodesUsed": disk.inodes.saturating_sub(disk.inodes_free),
        });
    }
    if let (Some((most, now)), false) = (usage.processes, brief) {
        node["rlimit"] = json!({"time": time(seen.wall), "maxpid": most, "curproc": now});
    }
    node
}

fn memory(seen: &Seen<'_>, usage: &CgroupUsage, limit: Option<u64>) -> Value {
    let mut memory = json!({
        "time": time(seen.wall), "usageBytes": usage.memory_usage_bytes, "workingSetBytes": usage.memory_working_set_bytes,
        "rssBytes": usage.memory_rss_bytes,
    });
    // Without a limit nobody can say what is available.
    if let Some(limit) = limit {
        memory["availableBytes"] = limit.saturating_sub(usage.memory_working_set_bytes).into();
    }
    memory
}

fn pod(seen: &Seen<'_>, stats: &PodStats, rates: &mut Rates, brief: bool) -> Value {
    let key = &stats.key;
    let object = seen.pods.get(&key.uid).map(|pod| &**pod);
    let containers: Vec<Value> = stats
        .containers
        .iter()
        .map(|(name, usage)| {
            let consumer = Some((key.uid.clone(), Some(name.clone())));
            let mut container = Map::new();
            container.insert("name".to_owned(), name.clone().into());
            if let Some(started) = object.and_then(|pod| container_started(pod, name)) {
                container.insert("startTime".to_owned(), time(started));
            }
            container.insert("cpu".to_owned(), cpu(seen, consumer, usage.cpu_nanos, rates));
            let limit = object.and_then(|pod| memory_limit(pod, name));
            container.insert("memory".to_owned(), memory(seen, usage, limit));
            Value::Object(container)
        })
        .collect();
    let mut pod = json!({
        "podRef": {"name": &*key.name, "namespace": &*key.namespace, "uid": key.uid.as_str()},
        "containers": containers,
    });
    let started = object.and_then(|pod| pod.status.as_ref()?.start_time.as_ref()).map(|started| started.0);
    if let Some(started) = started {
        pod["startTime"] = time(started);
    }
    if let Some(usage) = &stats.pod {
        pod["cpu"] = cpu(seen, Some((key.uid.clone(), None)), usage.cpu_nanos, rates);
        pod["memory"] = memory(seen, usage, None);
        if !brief {
            pod["process_stats"] = json!({"process_count": usage.pids});
        }
    }
    pod
}

/// Since when the container runs, as the Pod's status has it.
pub(crate) fn container_started(pod: &Pod, name: &str) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    let found: &ContainerStatus = all.find(|container| container.name == name)?;
    found.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|started| started.0)
}

fn memory_limit(pod: &Pod, name: &str) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let limits = all.find(|container| container.name == name)?.resources.as_ref()?.limits.as_ref()?;
    Amount::of(limits.get("memory")?).ok().and_then(|amount| u64::try_from(amount.value()).ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use minke_core::identity::PodKey;

    use super::super::source::{NodeDisk, NodeMemory};
    use super::*;

    fn example() -> (Arc<Pod>, PodStats) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
            "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"memory": "1Ki"}}}, {"name": "b"},
            ]},
            "status": {
                "startTime": "2026-11-22T06:00:00Z",
                "containerStatuses": [
                    {"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                     "state": {"running": {"startedAt": "2026-11-22T06:00:01Z"}}},
                ],
            },
        }))
        .unwrap();
        let usage = |cpu_nanos| CgroupUsage {
            cpu_nanos,
            memory_working_set_bytes: 1000,
            memory_rss_bytes: 900,
            memory_usage_bytes: 1100,
            pids: 3,
        };
        let stats = PodStats {
            key: PodKey::of(&pod).unwrap(),
            pod: Some(usage(9)),
            containers: vec![("a".to_owned(), usage(5)), ("b".to_owned(), usage(4))],
        };
        (Arc::new(pod), stats)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_told_and_nothing_else() {
        let (pod, stats) = example();
        let uid = stats.key.uid.clone();
        let pods = HashMap::from([(uid, pod)]);
        let memory = NodeMemory { available: 4, usage: 3, working_set: 2, rss: 1 };
        let disk = NodeDisk { capacity: 10, available: 6, used: 4, inodes: 9, inodes_free: 7 };
        let usage = NodeUsage { cpu_nanos: Some(50), memory: Some(memory), disk: Some(disk), ..NodeUsage::default() };
        let seen = |stats, instant| Seen {
            node: "n",
            usage,
            pods: &pods,
            stats,
            wall: "2026-11-22T07:00:00.5Z".parse().unwrap(),
            instant,
        };
        let mut rates = Rates::default();
        let start = Instant::now();
        let first = [stats.clone()];
        let document = summary(&seen(&first, start), &mut rates, false);
        assert_eq!(document["node"]["cpu"], json!({"time": "2026-11-22T07:00:00Z", "usageCoreNanoSeconds": 50}));
        assert_eq!(document["node"]["memory"]["workingSetBytes"], 2);
        assert_eq!(document["node"]["fs"]["inodesUsed"], 2);
        let told = &document["pods"][0];
        assert_eq!(told["podRef"], json!({"name": "p", "namespace": "ns", "uid": "u"}));
        assert_eq!(
            (&told["startTime"], &told["process_stats"]),
            (&json!("2026-11-22T06:00:00Z"), &json!({"process_count": 3}))
        );
        let (a, b) = (&told["containers"][0], &told["containers"][1]);
        assert_eq!((&a["startTime"], &b["startTime"]), (&json!("2026-11-22T06:00:01Z"), &Value::Null));
        assert_eq!((&a["memory"]["availableBytes"], &b["memory"]["availableBytes"]), (&json!(24), &Value::Null));
        assert_eq!(a["cpu"]["usageNanoCores"], Value::Null);
        // Two seconds later it is known how fast it goes.
        let mut later = stats;
        later.containers[0].1.cpu_nanos += 2_000;
        let second = [later];
        let document = summary(&seen(&second, start + Duration::from_secs(2)), &mut rates, true);
        assert_eq!(document["pods"][0]["containers"][0]["cpu"]["usageNanoCores"], 1_000);
        assert_eq!((&document["node"]["fs"], &document["pods"][0]["process_stats"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_pod_that_nobody_knows_any_more_has_its_numbers_still() {
        let (_, stats) = example();
        let (pods, stats) = (HashMap::new(), [stats]);
        let seen = Seen {
            node: "n",
            usage: NodeUsage::default(),
            pods: &pods,
            stats: &stats,
            wall: Timestamp::UNIX_EPOCH,
            instant: Instant::now(),
        };
        let document = summary(&seen, &mut Rates::default(), false);
        assert_eq!(document["node"], json!({"nodeName": "n"}));
        assert_eq!(document["pods"][0]["cpu"]["usageCoreNanoSeconds"], 9);
        assert_eq!(document["pods"][0]["startTime"], Value::Null);
    }
}
