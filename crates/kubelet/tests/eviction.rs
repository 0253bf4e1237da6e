//! Room on the machine through the whole core, on the scripted runtime under paused time: eviction, what is refused
//! meanwhile, preemption, limits on ephemeral storage.

#![cfg(test)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::fake::{FakeRuntime, Fault, FaultAction, Op};
use minke_core::identity::PodKey;
use minke_core::priority::is_critical;
use minke_core::resources::Amount;
use minke_core::runtime::{CgroupUsage, ListFilter, StatsService};
use minke_kubelet::admission::{Admitting, Machine, Pressure, Verdict, admit};
use minke_kubelet::eviction::{Gauge, Level, Observations, PodDisk, Signal, Space, VolumeUsed};
use minke_kubelet::{Admission, Admit, DesiredPod, Kubelet, PodReport, PodStage, Ports};
use serde_json::json;
use support::{Bed, phase, pod, uid, until_phase, until_stage};
use tokio::time::{Instant, sleep};

const MIB: u64 = 1 << 20;

/// A machine of 1000 MiB, of which scripted Pods and others use something.
#[derive(Debug)]
struct Gauged {
    runtime: FakeRuntime,
    others: AtomicU64,
    empty_dir: AtomicU64,
}

#[async_trait]
impl Gauge for Gauged {
    async fn observe(&self) -> Observations {
        // The runtime may fail on purpose; then nothing is seen to be used.
        let pods = self.runtime.pod_usage(&ListFilter::default()).await.unwrap_or_default();
        let used: u64 = pods.iter().filter_map(|p| p.cgroup).map(|c| c.memory_working_set_bytes).sum();
        let capacity = 1000 * MIB;
        let available = capacity.saturating_sub(used + self.others.load(Ordering::Relaxed) * MIB);
        Observations { levels: [(Signal::Memory, Level { available, capacity })].into(), separate_imagefs: false }
    }

    async fn pod_disk(&self, _key: &PodKey, _pod: &Arc<Pod>) -> PodDisk {
        let space = Space { bytes: self.empty_dir.load(Ordering::Relaxed), inodes: 1 };
        let volume = VolumeUsed { name: "v".to_owned(), in_memory: false, space };
        PodDisk { logs: BTreeMap::new(), volumes: vec![volume] }
    }
}

/// Two cores, and what the machine is short of.
#[derive(Debug)]
struct TwoCores;

fn decide(pod: &Pod, active: &[Arc<Pod>], pressure: &[Pressure]) -> Verdict {
    let units = |name: &str, units| (name.to_owned(), Amount::from_units(units));
    let allocatable = [units("cpu", 2), units("memory", 1 << 40)].into();
    let machine = Machine { name: "node".to_owned(), allocatable, max_pods: 100, labels: BTreeMap::new() };
    let active: Vec<&Pod> = active.iter().map(|p| &**p).collect();
    admit(pod, &Admitting { machine: &machine, active: &active, pressure, taken_ports: &[], allowed_sysctls: &[] })
}

#[async_trait]
impl Admit for TwoCores {
    async fn admit(&self, pod: &Pod, active: &[Arc<Pod>], pressure: &[Pressure]) -> Verdict {
        decide(pod, active, pressure)
    }

    async fn admit_again(&self, pod: &Pod, active: &[Arc<Pod>]) -> Verdict {
        decide(pod, active, &[])
    }
}

async fn start(bed: &Bed) -> (Kubelet, Arc<Gauged>) {
    let (others, empty_dir) = (AtomicU64::new(0), AtomicU64::new(0));
    let gauge = Arc::new(Gauged { runtime: bed.runtime.clone(), others, empty_dir });
    let ports = Ports { gauge: gauge.clone(), admit: Arc::new(TwoCores), ..bed.ports() };
    let (runtime, clock) = (Arc::new(bed.runtime.clone()), Arc::new(bed.runtime.clock()));
    (Kubelet::start_with(Bed::config(), runtime, clock, ports).await.unwrap(), gauge)
}

/// A Pod that asks for this and uses this much memory (MiB).
fn user(bed: &Bed, name: &str, priority: i32, asks: u64, uses: u64) -> DesiredPod {
    let requests = if asks == 0 { json!({}) } else { json!({"memory": format!("{asks}Mi")}) };
    let cgroup = CgroupUsage { memory_working_set_bytes: uses * MIB, ..CgroupUsage::default() };
    bed.runtime.use_resources(&uid(name), "main", cgroup, 0);
    let resources = json!({"requests": requests});
    pod(name, json!({"priority": priority, "containers": [{"name": "main", "resources": resources}]}))
}

fn cpu(name: &str, priority: i32, cores: &str) -> DesiredPod {
    let resources = json!({"requests": {"cpu": cores}});
    pod(name, json!({"priority": priority, "containers": [{"name": "main", "resources": resources}]}))
}

fn reason(report: &PodReport) -> &str {
    report.pod.status.as_ref().and_then(|s| s.reason.as_deref()).unwrap_or("")
}

#[tokio::test(start_paused = true)]
async fn the_pod_that_exceeds_its_request_goes_and_the_others_stay() {
    let bed = Bed::new();
    let (kubelet, gauge) = start(&bed).await;
    let pods = vec![
        user(&bed, "fair", 0, 400, 300),
        user(&bed, "greedy", 0, 100, 350),
        user(&bed, "critical", 2_000_000_000, 0, 200),
    ];
    kubelet.apply(pods).await;
    for name in ["fair", "greedy", "critical"] {
        until_phase(&kubelet, &uid(name), "Running").await;
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(phase(&kubelet.report(&uid("greedy")).unwrap()), "Running", "150 MiB are left");
    gauge.others.store(100, Ordering::Relaxed);
    let gone = until_stage(&kubelet, &uid("greedy"), PodStage::Finished).await;
    assert_eq!((phase(&gone), reason(&gone)), ("Failed", "Evicted"));
    assert_eq!(
        gone.pod.status.as_ref().and_then(|s| s.message.as_deref()).unwrap(),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container main was using \
         350Mi, request is 100Mi, has larger consumption of memory. "
    );
    assert_eq!(kubelet.node().pressure, [Pressure::Memory]);
    assert_eq!(bed.host.logs_removed.load(Ordering::Relaxed), 0, "logs stay to be read where memory was short");

    // Under pressure, nobody comes in who asks for nothing, except critical ones.
    let verdicts = kubelet
        .apply(vec![
            user(&bed, "late", 0, 0, 1),
            user(&bed, "asking", 0, 1, 1),
            user(&bed, "more", 2_000_000_000, 0, 1),
        ])
        .await;
    let message = "The node had condition: [MemoryPressure]. ".to_owned();
    let refused = Admission::Rejected { reason: "Evicted".to_owned(), message };
    assert_eq!(verdicts, [refused, Admission::Accepted, Admission::Accepted]);
    sleep(Duration::from_secs(311)).await;
    assert_eq!(kubelet.node().pressure, []);
    assert_eq!(kubelet.apply(vec![user(&bed, "later", 0, 0, 1)]).await, [Admission::Accepted]);
    for name in ["fair", "critical"] {
        assert_eq!(phase(&kubelet.report(&uid(name)).unwrap()), "Running");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_beyond_the_size_of_its_empty_dir_goes() {
    let bed = Bed::new();
    let (kubelet, gauge) = start(&bed).await;
    let volumes = json!([{"name": "v", "emptyDir": {"sizeLimit": "10Mi"}}]);
    let limited = pod("a", json!({"containers": [{"name": "main"}], "volumes": volumes}));
    kubelet.apply(vec![limited]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    gauge.empty_dir.store(10 * MIB, Ordering::Relaxed);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(phase(&kubelet.report(&uid("a")).unwrap()), "Running");
    gauge.empty_dir.store(10 * MIB + 1, Ordering::Relaxed);
    let gone = until_stage(&kubelet, &uid("a"), PodStage::Finished).await;
    assert_eq!((phase(&gone), reason(&gone)), ("Failed", "Evicted"));
    let message = gone.pod.status.as_ref().and_then(|s| s.message.as_deref());
    assert_eq!(message, Some("Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". "));
    let conditions = gone.pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    assert_eq!(conditions.filter(|c| c.type_ == "DisruptionTarget").count(), 0, "nobody else needed its place");
    let logs_gone = async {
        while bed.host.logs_removed.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), logs_gone).await.expect("its logs used disk, too");
    assert_eq!(kubelet.node().pressure, [], "the machine itself is short of nothing");
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_takes_the_place_of_another() {
    let bed = Bed::new();
    let (kubelet, _) = start(&bed).await;
    kubelet.apply(vec![cpu("large", 0, "1500m"), cpu("small", 0, "400m")]).await;
    until_phase(&kubelet, &uid("large"), "Running").await;
    until_phase(&kubelet, &uid("small"), "Running").await;
    let critical = cpu("critical", 2_000_000_000, "500m");
    assert_eq!(kubelet.apply(vec![critical]).await, [Admission::Accepted]);
    let gone = kubelet.report(&uid("small")).unwrap();
    assert_eq!(bed.runtime.running(&uid("small")), 0, "room is made before the critical pod comes in");
    assert_eq!((phase(&gone), reason(&gone)), ("Failed", "Preempting"), "100m are left over: small is the closest");
    let status = gone.pod.status.as_ref().unwrap();
    assert_eq!(status.message.as_deref(), Some("Preempted in order to admit critical pod"));
    assert!(status.conditions.iter().flatten().any(|c| c.type_ == "DisruptionTarget" && c.status == "True"));
    until_phase(&kubelet, &uid("critical"), "Running").await;
    assert_eq!(phase(&kubelet.report(&uid("large")).unwrap()), "Running");

    let Admission::Rejected { reason, message } = kubelet.apply(vec![cpu("huge", 2_000_000_000, "3")]).await.remove(0)
    else {
        panic!("admitted")
    };
    assert_eq!(reason, "UnexpectedAdmissionError", "{message}");
    assert_eq!(phase(&kubelet.report(&uid("large")).unwrap()), "Running", "nobody goes for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_with_a_critical_one_makes_room_as_well() {
    let bed = Bed::new();
    let (kubelet, _) = start(&bed).await;
    let verdicts = kubelet.apply(vec![cpu("a", 0, "1"), cpu("b", 0, "1"), cpu("c", 2_000_000_000, "1")]).await;
    let refused = verdicts.iter().filter(|v| matches!(v, Admission::Rejected { reason, .. } if reason == "Preempting"));
    assert_eq!(refused.count(), 1, "{verdicts:?}");
    assert_eq!(verdicts[2], Admission::Accepted);
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_blindly_and_who_runs_nothing_yet_is_not_first() {
    let bed = Bed::new();
    let (kubelet, gauge) = start(&bed).await;
    kubelet.apply(vec![user(&bed, "using", 0, 0, 10)]).await;
    until_phase(&kubelet, &uid("using"), "Running").await;
    bed.runtime.fault(Fault::on(Op::RunSandbox, FaultAction::Hang));
    kubelet.apply(vec![user(&bed, "starting", 0, 0, 0)]).await;
    bed.runtime.fault(Fault::fail(Op::PodUsage));
    gauge.others.store(950, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(kubelet.node().pressure, [Pressure::Memory]);
    assert_eq!(phase(&kubelet.report(&uid("using")).unwrap()), "Running", "what pods use is not known");
    bed.runtime.heal();
    until_stage(&kubelet, &uid("using"), PodStage::Terminating).await;
    assert_eq!(kubelet.report(&uid("starting")).unwrap().stage, PodStage::Syncing);
}

/// Pods of all kinds on a machine that is too small: whatever the seed, evictions come at most one a period, spare
/// critical Pods, and end when enough is left.
#[tokio::test(start_paused = true)]
async fn simulated_machines_come_to_rest() {
    for seed in 0..40_u64 {
        let bed = Bed::new();
        let (kubelet, _) = start(&bed).await;
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let pods: Vec<DesiredPod> = (0..8)
            .map(|i| {
                let priority = [0, 0, 5, 2_000_000_000][usize::try_from(next(4)).unwrap()];
                user(&bed, &format!("p{i}"), priority, next(300), next(400))
            })
            .collect();
        let wanted = pods.clone();
        kubelet.apply(pods).await;
        let (mut changes, mut ends) = (kubelet.subscribe(), BTreeMap::<String, Instant>::new());
        let end = Instant::now() + Duration::from_secs(300);
        while let Ok(change) = tokio::time::timeout_at(end, changes.next()).await {
            if let minke_kubelet::PodChange::Updated(report) = change
                && report.stage == PodStage::Terminating
            {
                let name = report.pod.metadata.name.clone().unwrap();
                ends.entry(name).or_insert_with(Instant::now);
            }
        }
        let mut times: Vec<Instant> = ends.values().copied().collect();
        times.sort();
        let gap = times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(Duration::MAX);
        assert!(gap >= Duration::from_secs(10), "seed {seed}: two within {gap:?}");
        let uses = |desired: &DesiredPod| -> bool {
            phase(&kubelet.report(&uid(desired.pod.metadata.name.as_deref().unwrap())).unwrap()) == "Running"
        };
        let left: Vec<&DesiredPod> = wanted.iter().filter(|p| uses(p)).collect();
        for desired in wanted.iter().filter(|p| is_critical(&p.pod)) {
            assert!(uses(desired), "seed {seed}: a critical pod went");
        }
        let available = observed(&kubelet);
        assert!(available >= 100 * MIB || left.iter().all(|p| is_critical(&p.pod)), "seed {seed}: {available} left");
        kubelet.shutdown().await;
    }
}

fn observed(kubelet: &Kubelet) -> u64 {
    kubelet.node().levels.get(&Signal::Memory).map_or(0, |level| level.available)
}

#[tokio::test(start_paused = true)]
async fn what_pods_use_is_told() {
    let bed = Bed::new();
    let (kubelet, _) = start(&bed).await;
    kubelet.apply(vec![user(&bed, "a", 0, 0, 30)]).await;
    until_phase(&kubelet, &uid("a"), "Running").await;
    let usage = kubelet.usage().await.unwrap();
    assert_eq!(usage.len(), 1);
    assert_eq!(usage[0].cgroup.unwrap().memory_working_set_bytes, 30 * MIB);
    assert_eq!(usage[0].containers[0].1.name, "main");
}
