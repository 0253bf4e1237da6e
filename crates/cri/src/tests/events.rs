//! The stream of events: one for all, dropped backlog, closed and unsupported ones.

use std::time::Duration;

use futures_util::StreamExt as _;
use minke_core::clock::{Clock as _, SystemClock};
use minke_core::runtime::{EventService as _, ListFilter, RuntimeError, RuntimeEventKind, SandboxService as _};
use tokio::time::timeout;

use crate::api;
use crate::fake::FakeCri;

fn event(id: &str, seconds_ago: i64) -> api::ContainerEventResponse {
    let created_at = SystemClock.now().as_nanosecond() - i128::from(seconds_ago) * 1_000_000_000;
    let metadata = api::PodSandboxMetadata { name: "n".into(), uid: "u".into(), ..Default::default() };
    api::ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: api::ContainerEventType::ContainerStoppedEvent.into(),
        created_at: i64::try_from(created_at).unwrap(),
        pod_sandbox_status: Some(api::PodSandboxStatus { metadata: Some(metadata), ..Default::default() }),
        ..Default::default()
    }
}

/// Waits until the server has this many streams.
async fn streams(fake: &FakeCri, count: usize) {
    while fake.state().events.len() != count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_idle_stream_is_open_before_its_first_event() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let mut stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    assert!(timeout(Duration::from_millis(20), stream.next()).await.is_err(), "nothing happens, and nothing fails");
    fake.send_event(&event("c1", 0));
    let got = stream.next().await.unwrap().unwrap();
    assert_eq!((got.id.as_str(), got.kind, got.pod.as_str()), ("c1", RuntimeEventKind::Stopped, "u"));
}

#[tokio::test]
async fn subscribers_share_one_stream_and_steal_nothing() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let (mut a, mut b) = (runtime.subscribe().unwrap(), runtime.clone().subscribe().unwrap());
    streams(&fake, 1).await;
    for id in ["c1", "c2"] {
        fake.send_event(&event(id, 0));
    }
    for stream in [&mut a, &mut b] {
        for id in ["c1", "c2"] {
            assert_eq!(stream.next().await.unwrap().unwrap().id, id);
        }
    }
    assert_eq!(fake.calls("GetContainerEvents"), 1);
}

#[tokio::test]
async fn a_replayed_backlog_is_dropped() {
    let fake = FakeCri::start();
    fake.state().backlog = vec![event("old", 52), event("older", 90)];
    let runtime = fake.open().await;
    let mut stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    fake.send_event(&event("new", 0));
    assert_eq!(stream.next().await.unwrap().unwrap().id, "new");
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_for_everyone_and_can_be_opened_again() {
    let mut fake = FakeCri::start();
    let runtime = fake.open().await;
    let (mut a, mut b) = (runtime.subscribe().unwrap(), runtime.subscribe().unwrap());
    streams(&fake, 1).await;
    fake.send_event(&event("c1", 0));
    for stream in [&mut a, &mut b] {
        assert_eq!(stream.next().await.unwrap().unwrap().id, "c1");
    }
    fake.go_away().await;
    for stream in [&mut a, &mut b] {
        let error = stream.next().await.unwrap().unwrap_err();
        assert!(matches!(error, RuntimeError::Unavailable { .. }), "{error:?}");
        assert!(stream.next().await.is_none());
    }
    let error = runtime.subscribe().unwrap().next().await.unwrap().unwrap_err();
    assert!(matches!(error, RuntimeError::Unavailable { .. }), "still gone: {error:?}");
    fake.come_back();
    let mut stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    fake.send_event(&event("c2", 0));
    assert_eq!(stream.next().await.unwrap().unwrap().id, "c2");
}

#[tokio::test]
async fn a_runtime_without_events_says_so_once_and_is_asked_again_when_it_was_replaced() {
    let mut fake = FakeCri::start();
    fake.state().has_events = false;
    let runtime = fake.open().await;
    let error = runtime.subscribe().unwrap().next().await.unwrap().unwrap_err();
    assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error:?}");
    for _ in 0..3 {
        assert!(matches!(runtime.subscribe().map(drop), Err(RuntimeError::Unsupported { .. })));
    }
    assert_eq!(fake.calls("GetContainerEvents"), 1, "a fact, not asked again");
    fake.go_away().await;
    fake.state().has_events = true;
    fake.come_back();
    while runtime.list_sandboxes(&ListFilter::default()).await.is_err() {}
    let mut stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    fake.send_event(&event("c1", 0));
    assert_eq!(stream.next().await.unwrap().unwrap().id, "c1");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_closed() {
    let fake = FakeCri::start();
    let runtime = fake.open().await;
    let stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    drop(stream);
    while fake.state().events.iter().any(|s| !s.is_closed()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut again = runtime.subscribe().unwrap();
    while fake.calls("GetContainerEvents") < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fake.send_event(&event("c1", 0));
    assert_eq!(again.next().await.unwrap().unwrap().id, "c1");
}

#[tokio::test]
async fn the_removal_of_a_sandbox_that_the_event_says_nothing_of() {
    let fake = FakeCri::start();
    let metadata = api::PodSandboxMetadata { name: "n".into(), uid: "known".into(), ..Default::default() };
    fake.state().sandboxes = vec![api::PodSandbox { id: "s1".into(), metadata: Some(metadata), ..Default::default() }];
    let runtime = fake.open().await;
    let mut stream = runtime.subscribe().unwrap();
    streams(&fake, 1).await;
    runtime.list_sandboxes(&ListFilter::default()).await.unwrap();
    let mut removed = event("s1", 0);
    removed.pod_sandbox_status = None;
    removed.container_event_type = api::ContainerEventType::ContainerDeletedEvent.into();
    fake.send_event(&removed);
    let got = stream.next().await.unwrap().unwrap();
    assert_eq!((got.pod.as_str(), got.kind), ("known", RuntimeEventKind::Deleted));
}
