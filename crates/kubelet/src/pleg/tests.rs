//! The PLEG on the scripted runtime: upstream's rows for the generic PLEG here, events and faults in the files below.

mod evented;
mod faults;

use std::sync::Mutex;

use minke_core::fake::{Ending, FakeRuntime, Fault, FaultAction, Life, Op, container_config, sandbox_config};
use minke_core::identity::PodKey;
use minke_core::runtime::{
    ContainerId, ContainerService, ImageUser, PodRuntimeStatus, SandboxId, SandboxService, Silence,
};
use tokio::time::sleep;

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
        let (config, clock) = (PlegConfig::default(), Arc::new(runtime.clock()));
        let pleg = Pleg::start(shared, writer, heard.clone(), config, clock, &tasks, &cancel);
        let bed = Self { runtime, cache, heard, pleg, _stop: cancel.drop_guard() };
        sleep(Duration::from_millis(10)).await;
        bed
    }

    /// The gauge of containers in this state.
    fn containers(&self, container_state: &'static str) -> i64 {
        self.pleg.counters.containers.get_or_create(&stats::InState { container_state }).get()
    }

    async fn relist(&self) {
        self.pleg.request_all();
        sleep(Duration::from_millis(10)).await;
    }
}

/// Makes a sandbox with one container that runs.
async fn start(runtime: &FakeRuntime, pod: &str) -> (SandboxId, ContainerId) {
    let image = runtime.add_image("image", ImageUser::Root);
    let sandbox = sandbox_config(PodKey::new("default", pod, uid(pod)));
    let id = runtime.run_sandbox(&sandbox).await.unwrap();
    let config = container_config("c", 0, image);
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
    for events in [false, true] {
        let bed = Bed::new(FakeRuntime::new(), events).await;
        bed.relist().await;
        start(&bed.runtime, "a").await;
        let (_, ended) = start(&bed.runtime, "b").await;
        bed.runtime.end(&ended, &Ending::code(0));
        let (_, lost) = start(&bed.runtime, "c").await;
        bed.runtime.make_unknown(&lost);
        let (dead, _) = start(&bed.runtime, "d").await;
        bed.runtime.kill_sandbox(&dead);
        // Without a full relist where there are events: the gauges follow single Pods too.
        let relists = bed.pleg.stats().relists;
        bed.pleg.request(&uid("c"));
        sleep(Duration::from_millis(if events { 50 } else { 1100 })).await;
        assert_eq!(events, bed.pleg.stats().relists == relists);
        assert_eq!(bed.pleg.stats().running_pods, 3);
        for (state, count) in [("created", 0), ("running", 1), ("exited", 2), ("unknown", 1)] {
            assert_eq!(bed.containers(state), count, "{state}, with events: {events}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_event_is_discarded_however_many_come_at_once() {
    let runtime = FakeRuntime::new();
    let mut containers = Vec::new();
    for n in 0..1100 {
        containers.push(start(&runtime, &format!("pod{n}")).await.1);
    }
    let bed = Bed::new(runtime, false).await;
    sleep(Duration::from_millis(100)).await;
    bed.heard.take();
    for container in &containers {
        bed.runtime.end(container, &Ending::code(1));
    }
    bed.relist().await;
    sleep(Duration::from_millis(100)).await;
    let heard = bed.heard.take();
    assert_eq!(heard.len(), containers.len(), "upstream's channel holds 1000 and drops the rest");
    for container in containers {
        assert!(heard.contains(&LifecycleEvent::Died(container.0)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reinspection_during_a_full_relist_refreshes_the_status() {
    let runtime = FakeRuntime::new();
    start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    bed.heard.take();
    bed.runtime.clear_calls();
    bed.pleg.request_inspection(&uid("a"));
    bed.pleg.request_all();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Sync], "once");
    assert!(bed.runtime.count(Op::ContainerStatus) >= 1);
}

#[tokio::test(start_paused = true)]
async fn the_durations_of_relists_can_be_changed_while_it_runs() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let (before, periods) = (bed.pleg.stats().relists, bed.pleg.periods());
    bed.pleg.set_periods(Periods { slow_relist: Duration::from_secs(2), ..periods });
    sleep(Duration::from_millis(20_500)).await;
    let relists = bed.pleg.stats().relists - before;
    assert!((9..=11).contains(&relists), "{relists} relists in 20 s: the shorter gap counts at once");
    bed.pleg.set_periods(Periods { slow_relist: Duration::from_secs(60), ..periods });
    sleep(Duration::from_secs(3)).await;
    let before = bed.pleg.stats().relists;
    sleep(Duration::from_secs(50)).await;
    assert_eq!(bed.pleg.stats().relists, before);
    bed.pleg.set_periods(Periods { threshold: Duration::from_secs(5), ..bed.pleg.periods() });
    assert!(bed.pleg.health().is_err(), "and so does the threshold");
}

#[tokio::test(start_paused = true)]
async fn start_and_stop_are_idempotent() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    bed.pleg.resume();
    sleep(Duration::from_millis(10)).await;
    bed.pleg.stop();
    bed.pleg.stop();
    sleep(Duration::from_millis(10)).await;
    let stopped = bed.pleg.stats();
    assert_eq!(stopped.stream, StreamState::Down);
    let (_, container) = start(&bed.runtime, "a").await;
    bed.pleg.request(&uid("a"));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(bed.pleg.stats().relists, stopped.relists);
    assert_eq!(bed.heard.take(), [], "stopped is stopped");
    assert!(bed.pleg.health().is_err());
    bed.pleg.resume();
    bed.pleg.resume();
    sleep(Duration::from_millis(10)).await;
    assert!(bed.heard.take().contains(&LifecycleEvent::Started(container.0)));
    assert_eq!((bed.pleg.stats().stream, bed.pleg.health()), (StreamState::Up, Ok(())));
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
async fn a_silent_runtime_is_told_since_its_first_failure() {
    let runtime = FakeRuntime::new();
    let bed = Bed::new(runtime, false).await;
    assert_eq!(bed.pleg.silence(&bed.runtime), None);
    bed.runtime.fault(Fault::fail(Op::ListSandboxes));
    sleep(Duration::from_secs(10)).await;
    let silence = bed.pleg.silence(&bed.runtime).unwrap();
    assert!(silence.lasts >= Duration::from_secs(8) && !silence.why.is_empty(), "{silence:?}");
    bed.runtime.heal();
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(bed.pleg.silence(&bed.runtime), None, "within a period of its return");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_is_told_long_before_its_list_is_given_up() {
    let bed = Bed::new(FakeRuntime::new(), false).await;
    bed.runtime.fault(Fault::on(Op::ListSandboxes, FaultAction::Hang));
    sleep(Duration::from_secs(8)).await;
    assert_eq!(bed.pleg.silence(&bed.runtime), None, "it may only be slow");
    sleep(Duration::from_secs(5)).await;
    let silence = bed.pleg.silence(&bed.runtime).unwrap();
    assert!(silence.lasts >= Duration::from_secs(10) && silence.why.contains("is not answered"), "{silence:?}");
    assert_eq!(bed.pleg.stats().relist_errors, 0, "nothing was given up");
}

#[tokio::test(start_paused = true)]
async fn what_the_adapter_knows_by_itself_is_told_without_a_list() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let told = Silence { lasts: Duration::from_secs(3), why: "it hangs".to_owned() };
    bed.runtime.fall_silent(Some(told.clone()));
    let silence = bed.pleg.silence(&bed.runtime).unwrap();
    assert_eq!((silence.lasts, silence.why), (told.lasts, told.why));
    bed.runtime.fall_silent(None);
    assert_eq!(bed.pleg.silence(&bed.runtime), None);
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
async fn created_and_exited_between_relists_is_told_as_died() {
    let bed = Bed::new(FakeRuntime::new(), false).await;
    bed.runtime.script("c", vec![Life::exits(Duration::from_millis(100), 3)]);
    let (_, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(1500)).await;
    assert!(bed.heard.take().contains(&LifecycleEvent::Died(container.0)));
}
