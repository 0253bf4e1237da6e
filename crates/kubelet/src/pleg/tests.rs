//! Upstream's rows for the generic PLEG, and those that upstream lacks, on the scripted runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use minke_core::fake::{Delivery, Ending, EventPlan, FakeRuntime, Fault, FaultAction, Life, Op};
use minke_core::identity::PodKey;
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerSecurity, ContainerService, ContainerState, ImageUser, LinuxResources,
    NamespaceOptions, PodRuntimeStatus, RuntimeEventKind, SandboxConfig, SandboxId, SandboxService, SeccompProfile,
};
use tokio::time::{Instant, sleep};

use super::*;
use crate::cache::{PodCache, pod_cache};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(PodUid, LifecycleEvent)>>);

impl EventSink for Heard {
    fn deliver(&self, uid: &PodUid, events: &[LifecycleEvent]) {
        self.0.lock().unwrap().extend(events.iter().map(|e| (uid.clone(), e.clone())));
    }

    fn listed(&self, _pods: &[PodUid]) {}
}

impl Heard {
    fn take(&self) -> Vec<LifecycleEvent> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|(_, e)| e).collect()
    }
}

struct Bed {
    runtime: FakeRuntime,
    cache: PodCache,
    heard: Arc<Heard>,
    pleg: Pleg,
    _stop: tokio_util::sync::DropGuard,
}

fn uid(s: &str) -> PodUid {
    PodUid::new(s).unwrap()
}

impl Bed {
    /// Starts a PLEG over a runtime, with or without events, and lets it relist once.
    async fn new(runtime: FakeRuntime, events: bool) -> Self {
        runtime.support_events(events);
        runtime.add_image("image", ImageUser::Root);
        let (cache, writer) = pod_cache();
        let heard = Arc::new(Heard::default());
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let shared: Arc<dyn Runtime> = Arc::new(runtime.clone());
        let pleg = Pleg::start(shared, writer, heard.clone(), PlegConfig::default(), &tasks, &cancel);
        let bed = Self { runtime, cache, heard, pleg, _stop: cancel.drop_guard() };
        sleep(Duration::from_millis(10)).await;
        bed
    }

    async fn relist(&self) {
        self.pleg.request_all();
        sleep(Duration::from_millis(10)).await;
    }
}

fn sandbox_config(pod: &str) -> SandboxConfig {
    SandboxConfig {
        pod: PodKey::new("default", pod, uid(pod)),
        attempt: 0,
        hostname: String::new(),
        log_directory: PathBuf::from("/logs"),
        dns: None,
        port_mappings: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup_parent: String::new(),
        resources: LinuxResources::default(),
        sysctls: BTreeMap::new(),
        namespaces: NamespaceOptions::default(),
        privileged: false,
        seccomp: SeccompProfile::RuntimeDefault,
        runtime_handler: String::new(),
    }
}

/// Makes a sandbox with one container that runs.
async fn start(runtime: &FakeRuntime, pod: &str) -> (SandboxId, ContainerId) {
    let image = runtime.add_image("image", ImageUser::Root);
    let sandbox = sandbox_config(pod);
    let id = runtime.run_sandbox(&sandbox).await.unwrap();
    let config = ContainerConfig {
        name: "c".to_owned(),
        attempt: 0,
        image,
        image_name: "image".to_owned(),
        command: Vec::new(),
        args: Vec::new(),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        log_path: PathBuf::from("c/0.log"),
        stdin: false,
        stdin_once: false,
        tty: false,
        resources: LinuxResources::default(),
        security: ContainerSecurity::default(),
        stop_signal: None,
    };
    let container = runtime.create_container(&id, &config, &sandbox).await.unwrap();
    runtime.start_container(&container).await.unwrap();
    (id, container)
}

#[tokio::test(start_paused = true)]
async fn relisting() {
    let runtime = FakeRuntime::new();
    let (sandbox, container) = start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    let started = [LifecycleEvent::Started(sandbox.0.clone()), LifecycleEvent::Started(container.0.clone())];
    assert_eq!(bed.heard.take(), started, "the first relist tells what runs");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.heard.take(), [], "and the next ones nothing");
    assert!(bed.pleg.stats().relists >= 5, "one a second without events");
    bed.runtime.end(&container, &Ending::code(1));
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Died(container.0.clone())]);
    bed.runtime.vanish(&container);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Removed(container.0)]);
}

#[tokio::test(start_paused = true)]
async fn detecting_container_deaths() {
    let runtime = FakeRuntime::new();
    let (_, container) = start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    bed.heard.take();
    bed.runtime.vanish(&container);
    bed.relist().await;
    let gone = [LifecycleEvent::Died(container.0.clone()), LifecycleEvent::Removed(container.0)];
    assert_eq!(bed.heard.take(), gone, "a running container that vanished has died");
}

#[tokio::test(start_paused = true)]
async fn remove_cache_entry() {
    let runtime = FakeRuntime::new();
    let (sandbox, _) = start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    assert_eq!(bed.cache.get(&uid("a")).status.containers.len(), 1);
    bed.runtime.stop_sandbox(&sandbox).await.unwrap();
    bed.runtime.remove_sandbox(&sandbox).await.unwrap();
    bed.relist().await;
    assert_eq!(*bed.cache.get(&uid("a")).status, PodRuntimeStatus::empty(uid("a")));
    assert!(bed.cache.is_empty());
}

#[tokio::test(start_paused = true)]
async fn relist_with_reinspection() {
    let bed = Bed::new(FakeRuntime::new(), false).await;
    bed.runtime.fault(Fault::fail(Op::ContainerStatus));
    let (_, container) = start(&bed.runtime, "a").await;
    bed.relist().await;
    assert!(bed.cache.get(&uid("a")).error.is_some(), "readers see the error");
    assert_eq!(bed.heard.take(), [], "and nobody is told of a state that was not seen");
    bed.runtime.heal();
    sleep(Duration::from_millis(1500)).await;
    assert!(bed.cache.get(&uid("a")).error.is_none(), "inspected anew without a further change");
    assert!(bed.heard.take().contains(&LifecycleEvent::Started(container.0)), "the same change is found again");
}

#[tokio::test(start_paused = true)]
async fn reinspect_on_request() {
    let runtime = FakeRuntime::new();
    start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    bed.heard.take();
    bed.pleg.request(&uid("a"));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.heard.take(), [], "an unchanged pod is not inspected on a plain hint");
    bed.pleg.request_inspection(&uid("a"));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Sync]);
    bed.pleg.request_inspection(&uid("nobody"));
    sleep(Duration::from_millis(10)).await;
    assert!(bed.cache.get(&uid("nobody")).error.is_none());
}

#[tokio::test(start_paused = true)]
async fn relist_ip_change() {
    let runtime = FakeRuntime::new();
    let (sandbox, _) = start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    let before = bed.cache.get(&uid("a")).status.ips.clone();
    assert!(!before.is_empty());
    bed.runtime.stop_sandbox(&sandbox).await.unwrap();
    bed.relist().await;
    let after = bed.cache.get(&uid("a"));
    assert!(!after.status.has_ready_sandbox());
    assert_eq!(after.status.ips, before, "the last address is kept");
}

#[tokio::test(start_paused = true)]
async fn running_pod_and_container_count() {
    let runtime = FakeRuntime::new();
    start(&runtime, "a").await;
    let (_, ended) = start(&runtime, "b").await;
    runtime.end(&ended, &Ending::code(0));
    let (dead, _) = start(&runtime, "c").await;
    runtime.kill_sandbox(&dead);
    let bed = Bed::new(runtime, false).await;
    let stats = bed.pleg.stats();
    assert_eq!((stats.running_pods, stats.running_containers), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_advances_nothing() {
    let runtime = FakeRuntime::new();
    runtime.fault(Fault::fail(Op::ListContainers));
    let bed = Bed::new(runtime, false).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.pleg.health(), Err(Unhealthy::NeverListed));
    assert!(bed.pleg.stats().relist_errors >= 5);
    let stamp = bed.cache.stamp();
    assert!(bed.cache.get_newer_than(&uid("a"), crate::cache::Stamp::ZERO).is_none());
    bed.runtime.heal();
    assert!(bed.cache.newer_than(&uid("a"), stamp, Duration::from_secs(2)).await.is_ok());
    assert_eq!(bed.pleg.health(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn worker_loop_a_single_relist_answers_that_pods_waiter() {
    let runtime = FakeRuntime::new();
    for pod in ["a", "b"] {
        start(&runtime, pod).await;
    }
    let bed = Bed::new(runtime, true).await;
    let stamp = bed.cache.stamp();
    bed.pleg.request(&uid("a"));
    assert!(bed.cache.newer_than(&uid("a"), stamp, Duration::from_millis(100)).await.is_ok());
    assert!(bed.cache.newer_than(&uid("b"), stamp, Duration::from_millis(100)).await.is_err());
    bed.pleg.request_all();
    assert!(bed.cache.newer_than(&uid("b"), stamp, Duration::from_millis(100)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn with_events_a_change_is_seen_at_once_and_full_relists_are_rare() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let (_, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(10)).await;
    bed.heard.take();
    let relists = bed.pleg.stats().relists;
    bed.runtime.end(&container, &Ending::code(0));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Died(container.0)]);
    sleep(Duration::from_secs(25)).await;
    assert_eq!(bed.pleg.stats().relists, relists);
    assert_eq!(bed.pleg.stats().events_missed, 0);
}

#[tokio::test(start_paused = true)]
async fn duplicate_reordered_forged_and_future_events_are_harmless() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let mut n = 0;
    bed.runtime.event_plan(EventPlan::new(move |_| {
        n += 1;
        [Delivery::Duplicate, Delivery::Overtake, Delivery::Delay(Duration::from_secs(3)), Delivery::Lose][n % 4]
    }));
    let (_, container) = start(&bed.runtime, "a").await;
    bed.runtime.clock().jump(jiff::SignedDuration::from_hours(1000));
    for kind in [RuntimeEventKind::Deleted, RuntimeEventKind::Stopped, RuntimeEventKind::Created] {
        bed.runtime.forge_event(kind, container.0.clone(), &uid("a"));
        bed.runtime.forge_event(kind, "nothing", &uid("nobody"));
    }
    sleep(Duration::from_secs(5)).await;
    let status = bed.cache.get(&uid("a")).status;
    assert!(matches!(status.containers[0].state, ContainerState::Running { .. }), "only a list is believed");
    assert_eq!(bed.cache.len(), 1);
    let told = bed.heard.take();
    assert_eq!(told.iter().filter(|e| **e == LifecycleEvent::Started(container.0.clone())).count(), 1);
    assert!(!told.iter().any(|e| matches!(e, LifecycleEvent::Died(_) | LifecycleEvent::Removed(_))));
}

#[tokio::test(start_paused = true)]
async fn an_event_storm_coalesces() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(10)).await;
    let before = bed.pleg.stats().pod_relists;
    for _ in 0..5000 {
        bed.runtime.forge_event(RuntimeEventKind::Started, "x", &uid("a"));
    }
    sleep(Duration::from_millis(50)).await;
    let stats = bed.pleg.stats();
    assert!(stats.events_received >= 5000);
    assert!(stats.pod_relists - before < 1000, "{} relists for 5000 events", stats.pod_relists - before);
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_reopened_with_back_off_and_a_full_relist() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    for round in 1..=3_u64 {
        let relists = bed.pleg.stats().relists;
        bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
        bed.runtime.break_streams();
        let (_, container) = start(&bed.runtime, &format!("pod{round}")).await;
        bed.runtime.event_plan(EventPlan::faithful());
        sleep(Duration::from_millis(1500)).await;
        assert!(bed.heard.take().contains(&LifecycleEvent::Started(container.0)), "found by the relist");
        assert!(bed.pleg.stats().relists > relists);
        // A connection that lasted makes the back-off start over.
        sleep(Duration::from_secs(15)).await;
        let stats = bed.pleg.stats();
        assert_eq!((stats.stream, stats.stream_connects), (StreamState::Up, 1 + round));
    }
}

#[tokio::test(start_paused = true)]
async fn a_missed_event_brings_the_short_period_back() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
    start(&bed.runtime, "a").await;
    sleep(Duration::from_secs(31)).await;
    let stats = bed.pleg.stats();
    assert_eq!(stats.events_missed, 1);
    let relists = stats.relists;
    sleep(Duration::from_secs(5)).await;
    assert!(bed.pleg.stats().relists >= relists + 4, "the stream is not relied on");
}

#[tokio::test(start_paused = true)]
async fn hung_status_calls_stall_their_pods_only() {
    let runtime = FakeRuntime::new();
    let names: Vec<String> = (0..20).map(|n| format!("hung{n}")).collect();
    for name in &names {
        start(&runtime, name).await;
        runtime.fault(Fault::on(Op::ContainerStatus, FaultAction::Hang).of_pod(&uid(name)));
    }
    let bed = Bed::new(runtime, true).await;
    let (_, container) = start(&bed.runtime, "good").await;
    let begin = Instant::now();
    let stamp = bed.cache.stamp();
    bed.pleg.request(&uid("good"));
    let read = bed.cache.newer_than(&uid("good"), stamp, Duration::from_secs(20)).await.unwrap();
    assert_eq!(read.status.containers[0].id, container);
    assert!(
        begin.elapsed() <= Duration::from_secs(4),
        "{:?}: more hang than may be inspected at a time",
        begin.elapsed()
    );
    assert!(bed.pleg.stats().hanging > 0, "and it shows while they hang");
    assert_eq!(bed.pleg.health(), Ok(()), "health is about the loop, not about one pod");
    let stamp = bed.cache.stamp();
    let waited = bed.cache.newer_than(&uid("hung0"), stamp, Duration::from_secs(60)).await.unwrap();
    assert!(waited.error.is_some(), "a waiter of a hung pod learns of it in the end");
}

#[tokio::test(start_paused = true)]
async fn created_and_exited_between_relists_is_told_as_died() {
    let bed = Bed::new(FakeRuntime::new(), false).await;
    bed.runtime.script("c", vec![Life::exits(Duration::from_millis(100), 3)]);
    let (_, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(1500)).await;
    assert!(bed.heard.take().contains(&LifecycleEvent::Died(container.0)));
}
