//! Calls that fail, hang, contradict each other or bring the client down.

use minke_core::fake::FaultError;
use tokio::time::Instant;

use super::*;

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
    assert!(bed.pleg.stats().oldest_call >= Duration::from_secs(1), "with its age");
    assert_eq!(bed.pleg.health(), Ok(()), "health is about the loop, not about one pod");
    let stamp = bed.cache.stamp();
    let waited = bed.cache.newer_than(&uid("hung0"), stamp, Duration::from_secs(60)).await.unwrap();
    assert!(waited.error.is_some(), "a waiter of a hung pod learns of it in the end");
}

#[tokio::test(start_paused = true)]
async fn a_full_list_that_hangs_shows_at_once_and_single_pods_go_on() {
    let runtime = FakeRuntime::new();
    start(&runtime, "a").await;
    let bed = Bed::new(runtime, true).await;
    // Only the full list: lists of a Pod name it.
    bed.runtime.fault_hook(|call| (call.op == Op::ListSandboxes && call.pod.is_none()).then_some(FaultAction::Hang));
    bed.pleg.request_all();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(bed.pleg.stats().hanging, 1);
    assert!(bed.pleg.stats().oldest_call >= Duration::from_secs(99), "upstream's duration is silent about it");
    let stamp = bed.cache.stamp();
    bed.pleg.request(&uid("a"));
    assert!(bed.cache.newer_than(&uid("a"), stamp, Duration::from_secs(1)).await.is_ok());
    sleep(Duration::from_secs(150)).await;
    assert!(bed.pleg.health().is_err(), "health is about full relists");
    bed.runtime.heal();
    sleep(Duration::from_secs(125)).await;
    assert_eq!(bed.pleg.health(), Ok(()));
    assert_eq!(bed.pleg.stats().hanging, 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_sandbox_status_is_harmless() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let not_found = FaultAction::Fail(FaultError::NotFound);
    bed.runtime.fault(Fault::on(Op::SandboxStatus, not_found.clone()).times(1));
    let (sandbox, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(50)).await;
    let read = bed.cache.get(&uid("a"));
    assert!(read.error.is_none(), "asked again at once");
    assert_eq!((read.status.sandboxes.len(), read.status.containers.len()), (1, 1));
    assert!(bed.heard.take().contains(&LifecycleEvent::Started(sandbox.0)));
    // It stays contradictory: an error, and never a status that would make a worker create a second sandbox.
    bed.runtime.fault(Fault::on(Op::SandboxStatus, not_found));
    bed.runtime.end(&container, &Ending::code(0));
    sleep(Duration::from_millis(50)).await;
    let read = bed.cache.get(&uid("a"));
    assert!(read.error.is_some());
    assert_eq!(read.status.sandboxes.len(), 1, "the status from before");
    bed.runtime.heal();
    sleep(Duration::from_secs(2)).await;
    assert!(bed.cache.get(&uid("a")).error.is_none());
    assert!(bed.heard.take().contains(&LifecycleEvent::Died(container.0)));
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_while_it_is_inspected_is_seen_to_be_gone() {
    let runtime = FakeRuntime::new();
    let (_, container) = start(&runtime, "a").await;
    let bed = Bed::new(runtime, false).await;
    bed.heard.take();
    let (other, id) = (bed.runtime.clone(), container.clone());
    bed.runtime.fault(Fault::on(Op::ContainerStatus, FaultAction::Delay(Duration::from_millis(200))).times(1));
    bed.pleg.request_inspection(&uid("a"));
    sleep(Duration::from_millis(100)).await;
    other.vanish(&id);
    sleep(Duration::from_millis(200)).await;
    let status = bed.cache.get(&uid("a")).status;
    assert_eq!((status.sandboxes.len(), status.containers.len()), (1, 0));
    let gone = [LifecycleEvent::Died(container.0.clone()), LifecycleEvent::Removed(container.0)];
    assert_eq!(bed.heard.take(), gone);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_costs_one_look() {
    let runtime = FakeRuntime::new();
    start(&runtime, "a").await;
    let bed = Bed::new(runtime, true).await;
    let mut panicked = false;
    bed.runtime.fault_hook(move |call| {
        if call.op == Op::ContainerStatus && !std::mem::replace(&mut panicked, true) {
            panic!("a scripted bug of the runtime's client");
        }
        None
    });
    bed.pleg.request_inspection(&uid("a"));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.pleg.stats().inspection_errors, 1);
    let stamp = bed.cache.stamp();
    bed.pleg.request(&uid("a"));
    let read = bed.cache.newer_than(&uid("a"), stamp, Duration::from_secs(2)).await.unwrap();
    assert!(read.error.is_none(), "the pod is not busy for ever");
}
