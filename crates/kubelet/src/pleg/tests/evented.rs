//! Events as hints, and what becomes of a stream that breaks, lies or loses some. Upstream has no tests of these.

use jiff::SignedDuration;
use minke_core::fake::{Delivery, EventPlan};
use minke_core::runtime::{ContainerState, RuntimeEventKind};
use tokio::time::Instant;

use super::*;

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
    bed.runtime.clock().jump(SignedDuration::from_hours(1000));
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
    sleep(Duration::from_secs(32)).await;
    let stats = bed.pleg.stats();
    assert_eq!(stats.events_missed, 2, "of the sandbox and of the container");
    let relists = stats.relists;
    sleep(Duration::from_secs(5)).await;
    assert!(bed.pleg.stats().relists >= relists + 4, "the stream is not relied on");
}

/// A stream that stays open and tells nothing looks like one of a machine on which nothing happens.
#[tokio::test(start_paused = true)]
async fn an_open_stream_that_is_dead_is_found_out_by_the_slow_relist() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let (sandbox, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_secs(31)).await;
    bed.heard.take();
    bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
    bed.runtime.end(&container, &Ending::code(3));
    let died = [LifecycleEvent::Died(container.0)];
    let began = Instant::now();
    let told = loop {
        sleep(Duration::from_millis(100)).await;
        let told = bed.heard.take();
        if !told.is_empty() {
            break told;
        }
    };
    assert_eq!(told, died);
    assert!(began.elapsed() <= Duration::from_secs(31), "{:?}", began.elapsed());
    sleep(Duration::from_secs(2)).await;
    let stats = bed.pleg.stats();
    assert_eq!((stats.stream, stats.stream_errors, stats.events_missed), (StreamState::Up, 0, 1));
    let (metrics, clock): (_, Arc<dyn Clock>) = (Metrics::default(), Arc::new(bed.runtime.clock()));
    bed.pleg.register(&metrics, &clock, Arc::new(bed.runtime.clone()));
    let text = metrics.text();
    assert!(text.lines().any(|l| l.starts_with("kube_pod_missed_events") && l.ends_with(" 1")), "{text}");
    // From now on it is not relied on.
    bed.runtime.kill_sandbox(&sandbox);
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Died(sandbox.0)]);
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_polling_takes_over_and_the_stream_still_comes_back() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    bed.runtime.event_plan(EventPlan::new(|_| Delivery::Break));
    let mut n = 0;
    // Every connection breaks at its first event, so none is of use.
    while bed.pleg.stats().stream != StreamState::Polling {
        bed.runtime.break_streams();
        sleep(Duration::from_millis(20)).await;
        n += 1;
        assert!(n < 1000, "it never gives up");
    }
    assert_eq!(bed.pleg.stats().stream_errors, 5);
    let relists = bed.pleg.stats().relists;
    sleep(Duration::from_secs(1)).await;
    assert!(bed.pleg.stats().relists > relists, "a second, as without events");
    bed.runtime.event_plan(EventPlan::faithful());
    sleep(Duration::from_secs(31)).await;
    assert_eq!(bed.pleg.stats().stream, StreamState::Up, "upstream needs a restart for this");
    let relists = bed.pleg.stats().relists;
    sleep(Duration::from_secs(25)).await;
    assert!(bed.pleg.stats().relists <= relists + 1, "and full relists are rare again");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_without_events_is_polled_and_asked_again() {
    let bed = Bed::new(FakeRuntime::new(), false).await;
    assert_eq!(bed.pleg.stats().stream, StreamState::Unsupported);
    bed.runtime.support_events(true);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(bed.pleg.stats().stream, StreamState::Up, "it was upgraded under a running agent");
    assert_eq!(bed.pleg.stats().stream_errors, 0, "having no events is no error");
}

#[tokio::test(start_paused = true)]
async fn each_break_of_the_stream_forces_a_full_relist() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let before = bed.pleg.stats();
    bed.runtime.break_streams();
    sleep(Duration::from_millis(20)).await;
    let after = bed.pleg.stats();
    assert_eq!(after.stream_errors, before.stream_errors + 1);
    assert!(after.relists > before.relists);
}

#[tokio::test(start_paused = true)]
async fn timestamps_mean_nothing() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let (_, container) = start(&bed.runtime, "a").await;
    sleep(Duration::from_millis(10)).await;
    bed.heard.take();
    // Years ahead, years back, before 1970.
    for hours in [100_000, -200_000, -1_000_000] {
        bed.runtime.clock().jump(SignedDuration::from_hours(hours));
        bed.runtime.forge_event(RuntimeEventKind::Deleted, container.0.clone(), &uid("a"));
        sleep(Duration::from_millis(10)).await;
        let stamp = bed.cache.stamp();
        bed.pleg.request(&uid("a"));
        let read = bed.cache.newer_than(&uid("a"), stamp, Duration::from_secs(1)).await.unwrap();
        assert!(read.status.containers[0].state.is_running());
    }
    assert_eq!(bed.heard.take(), []);
    bed.runtime.end(&container, &Ending::code(0));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(bed.heard.take(), [LifecycleEvent::Died(container.0)], "no clock keeps a change from being seen");
    let (metrics, clock): (_, Arc<dyn Clock>) = (Metrics::default(), Arc::new(bed.runtime.clock()));
    bed.pleg.register(&metrics, &clock, Arc::new(bed.runtime.clone()));
    let text = metrics.text();
    let sum = text.lines().find_map(|l| l.strip_prefix("kubelet_evented_pleg_connection_latency_seconds_sum "));
    assert!(sum.unwrap().parse::<f64>().unwrap() >= 0.0, "an event from the future is not early");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_late_is_not_missed_and_one_that_never_comes_is() {
    for (delivery, missed) in [(Delivery::Delay(Duration::from_millis(600)), 0), (Delivery::Lose, 1)] {
        let bed = Bed::new(FakeRuntime::new(), true).await;
        let (_, container) = start(&bed.runtime, "a").await;
        sleep(Duration::from_millis(10)).await;
        bed.runtime.event_plan(EventPlan::new(move |_| delivery));
        bed.runtime.end(&container, &Ending::code(0));
        bed.relist().await;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(bed.pleg.stats().events_missed, missed, "{delivery:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_reader_that_steals_events_costs_seconds_and_not_minutes() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
    let (_, first) = start(&bed.runtime, "pod0").await;
    sleep(Duration::from_secs(32)).await;
    assert!(bed.heard.take().contains(&LifecycleEvent::Started(first.0)));
    for n in 1..60 {
        let (_, container) = start(&bed.runtime, &format!("pod{n}")).await;
        sleep(Duration::from_millis(2500)).await;
        let seen = bed.heard.take().contains(&LifecycleEvent::Started(container.0));
        assert!(seen, "container {n}: the stream is not trusted as long as it keeps missing things");
    }
    assert!(bed.pleg.stats().events_missed >= 59);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_restart_in_the_middle_of_a_burst_loses_nothing() {
    let bed = Bed::new(FakeRuntime::new(), true).await;
    let mut containers = Vec::new();
    for n in 0..20 {
        containers.push(start(&bed.runtime, &format!("pod{n}")).await.1);
    }
    sleep(Duration::from_millis(50)).await;
    bed.heard.take();
    for (n, container) in containers.iter().enumerate() {
        if n == 10 {
            // It is gone for three seconds; half of the burst happens meanwhile.
            bed.runtime.event_plan(EventPlan::new(|_| Delivery::Lose));
            bed.runtime.break_streams();
            bed.runtime.fault(Fault::fail(Op::ListSandboxes));
            bed.runtime.fault(Fault::fail(Op::ContainerStatus));
        }
        bed.runtime.end(container, &Ending::lost());
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_secs(3)).await;
    bed.runtime.heal();
    sleep(Duration::from_secs(3)).await;
    let heard = bed.heard.take();
    for container in containers {
        let died = LifecycleEvent::Died(container.0);
        assert_eq!(heard.iter().filter(|e| **e == died).count(), 1, "{died:?}");
    }
    assert_eq!(bed.pleg.stats().stream, StreamState::Up);
}
