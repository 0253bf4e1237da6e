//! Upstream's cache rows, and what upstream's cache could not promise: bounded, cancel-safe, exact waits.

use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::{PodRuntimeStatus, RuntimeError};

use super::{CacheWriter, PodCache, Stamp, WaitExpired, pod_cache};

const BOUND: Duration = Duration::from_secs(5);

fn uid(s: &str) -> PodUid {
    PodUid::new(s).unwrap()
}

fn status(u: &PodUid, ip: &str) -> PodRuntimeStatus {
    PodRuntimeStatus { ips: vec![ip.parse().unwrap()], ..PodRuntimeStatus::empty(u.clone()) }
}

fn first_ip(read: &super::CacheRead) -> Option<String> {
    read.status.ips.first().map(ToString::to_string)
}

/// A cache with one relist at `global`, and perhaps an entry modified at `modified`.
fn cache_at(u: &PodUid, global: u64, modified: Option<u64>) -> (PodCache, CacheWriter) {
    let (cache, writer) = pod_cache();
    if let Some(m) = modified {
        writer.set(u, status(u, "10.0.0.1"), Stamp::at(m));
    }
    writer.update_time(Stamp::at(global));
    (cache, writer)
}

#[test]
fn cache_not_initialized() {
    let (cache, writer) = pod_cache();
    let u = uid("a");
    writer.set(&u, status(&u, "10.0.0.1"), Stamp::at(5));
    assert!(cache.get_newer_than(&u, Stamp::ZERO).is_none(), "nothing is ready before the first full relist");
}

#[test]
fn get_if_newer_than_when_pod_exists() {
    // (global, modified, min, ready)
    for (global, modified, min, ready) in [(20, 10, 10, true), (20, 5, 10, true), (5, 20, 10, true), (5, 5, 10, false)]
    {
        let u = uid("a");
        let (cache, _writer) = cache_at(&u, global, Some(modified));
        assert_eq!(cache.get_newer_than(&u, Stamp::at(min)).is_some(), ready, "global {global} modified {modified}");
    }
}

#[test]
fn get_pod_newer_than_when_pod_does_not_exist() {
    let u = uid("a");
    let (cache, _writer) = cache_at(&u, 20, None);
    let read = cache.get_newer_than(&u, Stamp::at(10)).unwrap();
    assert_eq!(*read.status, PodRuntimeStatus::empty(u.clone()));
    let (cache, _writer) = cache_at(&u, 5, None);
    assert!(cache.get_newer_than(&u, Stamp::at(10)).is_none());
}

#[test]
fn cache_get_pod_does_not_exist() {
    let (cache, _writer) = pod_cache();
    let read = cache.get(&uid("nobody"));
    assert_eq!(read.status.uid, uid("nobody"));
    assert!(read.error.is_none());
}

#[test]
fn delete_gives_the_default_again() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, Some(2));
    assert_eq!(cache.len(), 1);
    writer.delete(&u);
    assert!(cache.is_empty());
    assert_eq!(*cache.get(&u).status, PodRuntimeStatus::empty(u.clone()));
}

#[tokio::test(start_paused = true)]
async fn register_notification() {
    let u = uid("a");
    let absent = uid("b");
    let (cache, writer) = cache_at(&u, 1, None);
    let wait = |u: &PodUid, min: u64| {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(min), BOUND).await })
    };
    let (now, later, other) = (wait(&u, 10), wait(&u, 20), wait(&absent, 15));
    tokio::task::yield_now().await;
    assert_eq!(cache.waiting(), 3);
    writer.set(&u, status(&u, "10.0.0.1"), Stamp::at(10));
    assert_eq!(first_ip(&now.await.unwrap().unwrap()).as_deref(), Some("10.0.0.1"));
    assert_eq!(cache.waiting(), 2, "the subscriber with a later minimum is not answered");
    writer.update_time(Stamp::at(16));
    assert!(other.await.unwrap().is_ok(), "a full relist answers for a pod that is absent");
    assert_eq!(cache.waiting(), 1);
    writer.update_time(Stamp::at(20));
    assert!(later.await.unwrap().is_ok());
    assert_eq!(cache.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn get_newer_than() {
    type Write = fn(&CacheWriter, &PodUid, Stamp);
    let set: Write = |w, u, t| w.set(u, status(u, "10.0.0.9"), t);
    let observed: Write = |w, u, t| w.set_observed(u, t);
    let update: Write = |w, _, t| w.update_time(t);
    for (name, present, write) in [
        ("set, present", true, set),
        ("observed, present", true, observed),
        ("update, present", true, update),
        ("set, missing", false, set),
        ("update, missing", false, update),
    ] {
        let u = uid("a");
        let (cache, writer) = cache_at(&u, 1, present.then_some(2));
        let waiter = {
            let (cache, u) = (cache.clone(), u.clone());
            tokio::spawn(async move { cache.newer_than(&u, Stamp::at(100), BOUND).await })
        };
        tokio::task::yield_now().await;
        write(&writer, &u, Stamp::at(50));
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished(), "{name}: an observation before the minimum does not answer");
        write(&writer, &u, Stamp::at(101));
        assert!(waiter.await.unwrap().is_ok(), "{name}");
        assert!(cache.get_newer_than(&u, Stamp::at(100)).is_some(), "{name}: a later call returns at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_bound() {
    let u = uid("a");
    let (cache, _writer) = cache_at(&u, 1, Some(1));
    let begin = tokio::time::Instant::now();
    assert_eq!(cache.newer_than(&u, Stamp::at(9), BOUND).await.unwrap_err(), WaitExpired(BOUND));
    assert_eq!(begin.elapsed(), BOUND);
    assert_eq!(cache.waiting(), 0, "an expired wait leaves nothing behind");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_nothing_behind() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, None);
    let wait = {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(9), BOUND).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(cache.waiting(), 1);
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    assert_eq!(cache.waiting(), 0);
    writer.update_time(Stamp::at(10));
}

#[tokio::test(start_paused = true)]
async fn a_full_relist_does_not_answer_for_a_pod_under_inspection() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, Some(1));
    writer.hold(&u);
    let wait = {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(5), BOUND).await })
    };
    tokio::task::yield_now().await;
    writer.update_time(Stamp::at(10));
    tokio::task::yield_now().await;
    assert!(!wait.is_finished(), "the inspection has not ended");
    assert!(cache.get_newer_than(&u, Stamp::at(5)).is_none());
    writer.release(&u);
    assert!(wait.await.unwrap().is_ok(), "released, the relist at 10 counts");
}

#[test]
fn an_error_keeps_the_status_from_before() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, Some(2));
    let error = RuntimeError::TimedOut { operation: "pod status", after: BOUND };
    writer.set_error(&u, error, Stamp::at(3));
    let read = cache.get(&u);
    assert!(read.error.is_some());
    assert_eq!(first_ip(&read).as_deref(), Some("10.0.0.1"));
}

#[test]
fn stamps_are_never_equal() {
    let (cache, writer) = pod_cache();
    let stamps = [cache.stamp(), writer.stamp(), cache.stamp()];
    assert!(stamps.windows(2).all(|w| w[0] < w[1]));
}

#[tokio::test(start_paused = true)]
async fn an_observation_before_the_first_relist_counts_once_that_is_done() {
    let u = uid("a");
    let (cache, writer) = pod_cache();
    let wait = {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(5), BOUND).await })
    };
    tokio::task::yield_now().await;
    writer.set(&u, status(&u, "10.0.0.1"), Stamp::at(7));
    writer.hold(&u);
    tokio::task::yield_now().await;
    assert!(!wait.is_finished(), "not everything has been listed");
    // The first relist began before the waiter's moment; the observation did not.
    writer.update_time(Stamp::at(3));
    assert_eq!(first_ip(&wait.await.unwrap().unwrap()).as_deref(), Some("10.0.0.1"));
}

#[test]
fn who_asks_just_after_an_absent_pod_was_looked_for_is_answered_at_once() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, None);
    writer.set_observed(&u, Stamp::at(7));
    assert!(cache.get_newer_than(&u, Stamp::at(6)).is_some());
    assert!(cache.get_newer_than(&u, Stamp::at(7)).is_none());
    writer.update_time(Stamp::at(9));
    assert!(cache.get_newer_than(&u, Stamp::at(8)).is_some());
    assert!(cache.shared.lock().absent.is_empty(), "a full relist says the same of all pods");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_writer_is_gone() {
    let u = uid("a");
    let (cache, writer) = cache_at(&u, 1, None);
    let begin = tokio::time::Instant::now();
    let wait = {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(9), BOUND).await })
    };
    tokio::task::yield_now().await;
    drop(writer);
    assert!(wait.await.unwrap().is_err());
    assert!(cache.newer_than(&u, Stamp::at(9), BOUND).await.is_err());
    assert_eq!(begin.elapsed(), Duration::ZERO, "nothing will be observed any more");
    assert!(cache.newer_than(&u, Stamp::ZERO, BOUND).await.is_ok(), "what is known can still be asked");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_one_pod_wake_together_and_nobody_else() {
    let (u, other) = (uid("a"), uid("b"));
    let (cache, writer) = cache_at(&u, 1, None);
    let wait = |u: &PodUid| {
        let (cache, u) = (cache.clone(), u.clone());
        tokio::spawn(async move { cache.newer_than(&u, Stamp::at(5), BOUND).await })
    };
    let waits: Vec<_> = (0..1000).map(|_| wait(&u)).collect();
    let theirs = wait(&other);
    tokio::task::yield_now().await;
    writer.set(&u, status(&u, "10.0.0.1"), Stamp::at(6));
    for wait in waits {
        assert!(wait.await.unwrap().is_ok());
    }
    assert!(!theirs.is_finished());
    assert_eq!(cache.waiting(), 1);
}
