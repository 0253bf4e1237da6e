//! Upstream's rows that are about one decision, and the orders of lists and looks that went wrong once.

use std::net::IpAddr;
use std::sync::Mutex;

use minke_core::identity::PodKey;
use minke_core::runtime::{NamespaceOptions, SandboxId, SandboxInfo, SandboxState, SandboxStatus};

use super::*;
use crate::cache::{PodCache, pod_cache};
use crate::pleg::record::{Item, State};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<LifecycleEvent>>);

impl EventSink for Heard {
    fn deliver(&self, _uid: &PodUid, events: &[LifecycleEvent]) {
        self.0.lock().unwrap().extend_from_slice(events);
    }

    fn listed(&self, _pods: &[PodUid]) {}
}

struct Bed {
    relister: Relister,
    cache: PodCache,
    heard: Arc<Heard>,
}

fn uid() -> PodUid {
    PodUid::new("a").unwrap()
}

/// One sandbox in this state; `None`: the Pod is gone.
fn record(state: Option<State>) -> Record {
    let sandboxes = state.map(|state| Item { id: "s".into(), state }).into_iter().collect();
    Record { sandboxes, containers: Vec::new() }
}

fn status(state: SandboxState, ips: &[&str]) -> PodRuntimeStatus {
    let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let pod = PodKey::new("default", "a", uid());
    let created_at = jiff::Timestamp::UNIX_EPOCH;
    let info = SandboxInfo { id: SandboxId("s".into()), pod, attempt: 0, state, created_at };
    let (labels, annotations) = Default::default();
    let sandbox =
        SandboxStatus { info, ips: ips.clone(), namespaces: NamespaceOptions::default(), labels, annotations };
    PodRuntimeStatus { sandboxes: vec![sandbox], ips, ..PodRuntimeStatus::empty(uid()) }
}

fn inspected(state: Option<State>) -> Outcome {
    let status = match state {
        Some(State::Running) => status(SandboxState::Ready, &["10.0.0.1"]),
        Some(_) => status(SandboxState::NotReady, &[]),
        None => PodRuntimeStatus::empty(uid()),
    };
    Outcome::Inspected { record: record(state), status: Ok(status) }
}

fn failed(state: Option<State>) -> Outcome {
    Outcome::Inspected { record: record(state), status: Err(RuntimeError::failed("pod status", "scripted")) }
}

impl Bed {
    fn new() -> Self {
        let (cache, writer) = pod_cache();
        let heard = Arc::new(Heard::default());
        let counters = Arc::new(Counters::new(Duration::from_secs(1)));
        let period = Period::new(Duration::from_secs(1), Duration::from_secs(30));
        let relister = Relister::new(writer, heard.clone(), counters, period);
        Self { relister, cache, heard }
    }

    /// Everything is listed, from `stamp` on.
    fn list_from(&mut self, stamp: Stamp, state: Option<State>) -> Option<Look> {
        let listed = state.map(|_| (uid(), record(state))).into_iter().collect();
        self.relister.listed(listed, stamp, Instant::now()).pop()
    }

    fn list(&mut self, state: Option<State>) -> Option<Look> {
        let stamp = self.relister.stamp();
        self.list_from(stamp, state)
    }

    fn ask(&mut self, want: Want) -> Option<Look> {
        self.relister.hinted(HashMap::from([(uid(), want)]), &HashSet::new()).pop()
    }

    fn end(&mut self, look: Option<Look>, outcome: Outcome) -> Option<Look> {
        let Look { uid, stamp, listed, .. } = look.unwrap();
        self.relister.found(Found { uid, stamp, alone: listed.is_none(), outcome })
    }

    fn heard(&self) -> Vec<LifecycleEvent> {
        std::mem::take(&mut self.heard.0.lock().unwrap())
    }
}

/// Upstream's eight cases: (listed before, a reinspection was due already, another is asked for, what it finds).
#[tokio::test(start_paused = true)]
async fn test_reinspect() {
    let running = Some(State::Running);
    for (name, before, due, asked, outcome) in [
        ("request on an unlisted pod, ok", None, false, true, inspected(running)),
        ("request on an unlisted pod, fails", None, false, true, failed(running)),
        ("request on a listed pod, ok", running, false, true, inspected(running)),
        ("request on a listed pod, fails", running, false, true, failed(running)),
        ("no request", running, false, false, Outcome::Unchanged),
        ("due already, ok", running, true, false, inspected(running)),
        ("due already, fails", running, true, false, failed(running)),
        ("the pod was deleted", running, true, false, inspected(None)),
    ] {
        let mut bed = Bed::new();
        if before.is_some() {
            let look = bed.list(before);
            bed.end(look, inspected(before));
        } else {
            assert!(bed.list(None).is_none());
        }
        if due {
            let look = bed.ask(Want::Inspect);
            bed.end(look, failed(before));
            assert!(bed.relister.is_failing(), "{name}");
        }
        bed.heard();
        let look =
            if due { bed.relister.retry().pop() } else { bed.ask(if asked { Want::Inspect } else { Want::List }) };
        assert_eq!(look.as_ref().unwrap().inspect, asked || due, "{name}");
        let (fails, unchanged) =
            (matches!(&outcome, Outcome::Inspected { status: Err(_), .. }), matches!(outcome, Outcome::Unchanged));
        let gone = matches!(&outcome, Outcome::Inspected { record, .. } if record.is_empty());
        assert!(bed.end(look, outcome).is_none(), "{name}");
        let (read, heard) = (bed.cache.get(&uid()), bed.heard());
        assert_eq!(bed.relister.is_failing(), fails, "{name}: the flag is kept exactly when it failed");
        assert_eq!(read.error.is_some(), fails, "{name}");
        assert_eq!(heard.is_empty(), fails || unchanged, "{name}: {heard:?}");
        if before == running && !fails && !unchanged && !gone {
            assert_eq!(heard, [LifecycleEvent::Sync], "{name}");
        }
        if gone {
            assert!(heard.contains(&LifecycleEvent::Removed("s".into())) && bed.cache.is_empty(), "{name}: {heard:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn test_relist_with_reinspection() {
    let mut bed = Bed::new();
    let look = bed.list(Some(State::Running));
    bed.end(look, inspected(Some(State::Running)));
    bed.heard();
    let look = bed.list(Some(State::Exited));
    bed.end(look, failed(Some(State::Exited)));
    assert!(bed.cache.get(&uid()).error.is_some() && bed.heard().is_empty(), "no event of what was not seen");
    // The list is again as it was before the failure, and the Pod is inspected nevertheless.
    let look = bed.list(Some(State::Running));
    assert!(look.as_ref().unwrap().inspect);
    bed.end(look, inspected(Some(State::Running)));
    assert!(bed.cache.get(&uid()).error.is_none());
    // Upstream says nothing before 1.36; a worker that was refused the status would not learn that it is back.
    assert_eq!(bed.heard(), [LifecycleEvent::Sync]);
}

#[tokio::test(start_paused = true)]
async fn test_relist_ip_change() {
    for ips in [&["10.0.0.1"][..], &["10.0.0.1", "fd00::1"]] {
        let mut bed = Bed::new();
        let look = bed.list(Some(State::Running));
        let running = Ok(status(SandboxState::Ready, ips));
        bed.end(look, Outcome::Inspected { record: record(Some(State::Running)), status: running });
        let before = bed.cache.get(&uid()).status.ips.clone();
        assert_eq!(before.len(), ips.len());
        bed.heard();
        let look = bed.list(Some(State::Exited));
        bed.end(look, inspected(Some(State::Exited)));
        assert_eq!(bed.cache.get(&uid()).status.ips, before, "the API still shows the last addresses");
        assert_eq!(bed.heard(), [LifecycleEvent::Died("s".into())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_began_before_a_look_ended_is_not_believed() {
    let mut bed = Bed::new();
    // The look begins first, reads last, and is known first.
    let look = bed.ask(Want::List);
    let stamp = bed.relister.stamp();
    bed.end(look, inspected(Some(State::Running)));
    bed.heard();
    for older in [None, Some(State::Exited)] {
        let look = bed.list_from(stamp, older).unwrap();
        assert!(look.listed.is_none(), "which of the two is newer can't be told: it is listed by itself");
        bed.end(Some(look), Outcome::Unchanged);
    }
    assert_eq!(bed.heard(), []);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_found_gone_does_not_come_back_from_an_older_list() {
    let mut bed = Bed::new();
    let look = bed.list(Some(State::Running));
    bed.end(look, inspected(Some(State::Running)));
    let look = bed.ask(Want::List);
    let stamp = bed.relister.stamp();
    bed.end(look, inspected(None));
    assert!(bed.cache.is_empty());
    bed.heard();
    let look = bed.list_from(stamp, Some(State::Running)).unwrap();
    assert!(look.listed.is_none());
    bed.end(Some(look), Outcome::Unchanged);
    assert!(bed.cache.is_empty() && bed.heard().is_empty());
    assert_eq!(bed.relister.tracked(), 0);
}

#[tokio::test(start_paused = true)]
async fn hints_during_a_look_are_one_more_look() {
    let mut bed = Bed::new();
    let look = bed.ask(Want::List);
    for want in [Want::List, Want::Inspect, Want::List] {
        assert!(bed.ask(want).is_none(), "one look at a time");
    }
    let again = bed.end(look, inspected(Some(State::Running))).unwrap();
    assert!(again.inspect, "the strongest of what was asked");
    assert!(bed.end(Some(again), inspected(Some(State::Running))).is_none());
}
