//! Rows of the table, and histories against a model of a node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::*;

fn key(name: &str, uid: &str) -> PodKey {
    PodKey::new("default", name, PodUid::new(uid).unwrap())
}

fn desired(version: u8) -> DesiredPod {
    let mut pod = Pod::default();
    pod.metadata.labels = Some([("version".to_owned(), version.to_string())].into());
    DesiredPod { pod: Arc::new(pod), objects: Arc::default() }
}

fn wanted(name: &str, uid: &str, version: u8) -> Wanted {
    Wanted { key: key(name, uid), desired: desired(version), group: (uid.to_owned(), 1) }
}

fn known(name: &str, uid: &str, stage: PodStage) -> Known {
    let manifest = Some(format!("/m/{uid}"));
    Known { key: key(name, uid), desired: desired(0), manifest, stage, deleted: false }
}

fn wish(pods: &[Wanted]) -> Wish {
    Wish { pods: pods.to_vec(), held: BTreeSet::new(), complete: true }
}

fn start(version: u8) -> Action {
    Action::Start(desired(version))
}

fn remove(uid: &str) -> Action {
    Action::Remove(PodUid::new(uid).unwrap())
}

use PodStage::{Finished, Syncing, Terminated, Terminating};

#[test]
fn add_change_and_remove() {
    assert_eq!(diff(&wish(&[wanted("a", "1", 0)]), &[]), [start(0)]);
    assert_eq!(diff(&wish(&[wanted("a", "1", 0)]), &[known("a", "1", Syncing)]), []);
    let update = Action::Update(desired(1));
    assert_eq!(diff(&wish(&[wanted("a", "1", 1)]), &[known("a", "1", Syncing)]), [update]);
    assert_eq!(diff(&wish(&[]), &[known("a", "1", Syncing)]), [remove("1")]);
    // A changed manifest is another uid of the same name.
    let next = wish(&[wanted("a", "2", 1)]);
    assert_eq!(diff(&next, &[known("a", "1", Syncing)]), [remove("1")], "the old one goes first");
    let ending = Known { deleted: true, ..known("a", "1", Terminating) };
    assert_eq!(diff(&next, &[ending]), []);
    assert_eq!(diff(&next, &[]), [start(1)]);
}

#[test]
fn removal_is_refused_until_every_source_has_reported_once() {
    let unheard = Wish { complete: false, ..wish(&[wanted("b", "2", 0)]) };
    assert_eq!(diff(&unheard, &[known("a", "1", Syncing)]), [start(0)], "what is wanted starts all the same");
    assert_eq!(diff(&Wish { complete: true, ..unheard }, &[known("a", "1", Syncing)]), [remove("1"), start(0)]);
}

#[test]
fn a_manifest_that_is_broken_keeps_what_runs_of_it() {
    let held = Wish { held: ["/m/1".to_owned()].into(), ..wish(&[]) };
    assert_eq!(diff(&held, &[known("a", "1", Syncing), known("b", "2", Syncing)]), [remove("2")]);
}

#[test]
fn a_pod_that_no_manifest_asked_for_is_left_alone() {
    let foreign = |stage| Known { manifest: None, ..known("a", "1", stage) };
    assert_eq!(diff(&wish(&[]), &[foreign(Syncing)]), []);
    let next = wish(&[wanted("a", "2", 0)]);
    assert_eq!(diff(&next, &[foreign(Syncing)]), [], "its name is taken");
    assert_eq!(diff(&next, &[foreign(Finished)]), [remove("1")], "but not for ever");
}

/// `Test_allowPodStart`, `TestStaticPodExclusion`: of one full name, one at a time, in the order of arrival.
#[test]
fn allow_pod_start() {
    let (first, second, third) = (wanted("a", "1", 1), wanted("a", "2", 2), wanted("b", "3", 3));
    let all = wish(&[first, second.clone(), third.clone()]);
    assert_eq!(diff(&all, &[]), [start(1), start(3)]);
    let running = Known { desired: desired(1), ..known("a", "1", Syncing) };
    let other = Known { desired: desired(3), ..known("b", "3", Syncing) };
    assert_eq!(diff(&all, &[running.clone(), other.clone()]), []);
    let rest = wish(&[second, third]);
    assert_eq!(diff(&rest, &[running.clone(), other.clone()]), [remove("1")]);
    for stage in [Terminating, Terminated, Finished] {
        let ending = Known { stage, deleted: true, ..running.clone() };
        assert_eq!(diff(&rest, &[ending, other.clone()]), [], "{stage:?}");
    }
    assert_eq!(diff(&rest, &[other]), [start(2)]);
}

/// The matrix of reused uids: what becomes of a Pod whose uid is wanted (again) in each stage.
#[test]
fn static_pod_uid_reuse_matrix() {
    for (stage, deleted, version, expected) in [
        (Syncing, false, 0, vec![]),
        (Syncing, false, 1, vec![Action::Update(desired(1))]),
        (Terminating, false, 1, vec![]),
        (Terminating, true, 0, vec![]),
        (Terminated, true, 1, vec![]),
        (Finished, false, 0, vec![]),
        (Finished, false, 1, vec![remove("1")]),
        (Finished, true, 1, vec![]),
    ] {
        let here = Known { deleted, ..known("a", "1", stage) };
        assert_eq!(diff(&wish(&[wanted("a", "1", version)]), &[here]), expected, "{stage:?} {deleted} {version}");
    }
    assert_eq!(diff(&wish(&[wanted("a", "1", 0)]), &[]), [start(0)], "restarted once it is gone");
}

#[test]
fn a_job_has_no_more_live_pods_than_it_allows() {
    let group = |uid: &str| Wanted { group: ("job".to_owned(), 2), ..wanted(uid, uid, 0) };
    let job = wish(&[group("1"), group("2"), group("3")]);
    assert_eq!(diff(&job, &[]), [start(0), start(0)]);
    let here = |first| [known("1", "1", first), known("2", "2", Syncing)];
    assert_eq!(diff(&job, &here(Syncing)), []);
    assert_eq!(diff(&job, &here(Finished)), [start(0)]);
}

/// A node that does what it is told, in its own time.
#[derive(Debug, Default)]
struct Node {
    pods: Vec<Known>,
}

impl Node {
    fn perform(&mut self, wish: &Wish, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start(desired) => {
                    let pod = wish.pods.iter().find(|w| w.desired == *desired).unwrap();
                    assert!(self.pods.iter().all(|k| k.key.uid != pod.key.uid), "never AlreadyExists by uid");
                    assert!(self.pods.iter().all(|k| name(&k.key) != name(&pod.key)), "never AlreadyExists by name");
                    let manifest = Some(format!("/m/{}", pod.key.uid));
                    let (stage, deleted) = (Syncing, false);
                    self.pods.push(Known { key: pod.key.clone(), desired: desired.clone(), manifest, stage, deleted });
                }
                Action::Update(desired) => {
                    let pod = wish.pods.iter().find(|w| w.desired.pod == desired.pod).unwrap();
                    let here = self.pods.iter_mut().find(|k| k.key.uid == pod.key.uid).unwrap();
                    assert_eq!(here.stage, Syncing);
                    here.desired = desired.clone();
                }
                Action::Remove(uid) => {
                    let here = self.pods.iter_mut().find(|k| k.key.uid == *uid).unwrap();
                    let held = here.manifest.as_ref().is_some_and(|m| wish.held.contains(m));
                    assert!(!held || wish.pods.iter().any(|w| w.key.uid == *uid), "what is held is not removed");
                    here.deleted = true;
                    if here.stage == Syncing {
                        here.stage = Terminating;
                    }
                }
            }
        }
    }

    fn advance(&mut self, which: usize) {
        if self.pods.is_empty() {
            return;
        }
        let which = which % self.pods.len();
        let pod = &mut self.pods[which];
        pod.stage = match pod.stage {
            Syncing => return,
            Terminating => Terminated,
            Terminated => Finished,
            Finished if pod.deleted => {
                self.pods.remove(which);
                return;
            }
            Finished => return,
        };
    }
}

/// Version is unique over pods so that a Pod can be told by it.
fn a_wish() -> impl Strategy<Value = Wish> {
    let pods = prop::collection::btree_set((0_usize..3, 0_usize..6), 0..5);
    (pods, prop::collection::btree_set(0_usize..6, 0..2), any::<bool>(), 0_u8..2).prop_map(
        |(pods, held, complete, v)| {
            let mut uids = BTreeSet::new();
            let pods = pods.into_iter().filter(|(_, uid)| uids.insert(*uid));
            let pods = pods.map(|(name, uid)| {
                wanted(&format!("p{name}"), &format!("u{uid}"), v * 100 + u8::try_from(uid).unwrap())
            });
            Wish { pods: pods.collect(), held: held.into_iter().map(|u| format!("/m/u{u}")).collect(), complete }
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_wanted_comes_about(
        history in prop::collection::vec((a_wish(), prop::collection::vec(0_usize..9, 0..6)), 1..8),
        last in a_wish(),
    ) {
        let mut node = Node::default();
        for (wish, steps) in &history {
            node.perform(wish, &diff(wish, &node.pods));
            for step in steps {
                node.advance(*step);
                node.perform(wish, &diff(wish, &node.pods));
            }
        }
        // Sources become readable, and nothing more changes.
        let wish = Wish { held: BTreeSet::new(), complete: true, ..last };
        for round in 0..400 {
            node.perform(&wish, &diff(&wish, &node.pods));
            node.advance(round);
        }
        prop_assert_eq!(diff(&wish, &node.pods), vec![]);
        for pod in &wish.pods {
            let named: Vec<_> = node.pods.iter().filter(|k| name(&k.key) == name(&pod.key)).collect();
            prop_assert_eq!(named.len(), 1, "one Pod has the name: {:?}", named);
            prop_assert!(wish.pods.iter().any(|w| w.key.uid == named[0].key.uid), "and it is wanted");
            prop_assert_eq!(named[0].stage, Syncing);
        }
        prop_assert!(node.pods.iter().all(|k| wish.pods.iter().any(|w| w.key.uid == k.key.uid)), "nothing else is left");
    }
}
