use super::*;
use crate::demand::Status;
use crate::engine::{ForgeRunner, NotCreated};
use crate::ids::JobId;
use crate::life::Removal;
use crate::set::tests::set;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn at(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

fn started(change: impl FnOnce(&mut RunnerSet)) -> (Book, Vec<Effect>) {
    let mut set = set();
    set.metadata.namespace = Some("ci".to_owned());
    change(&mut set);
    let mut book = Book::new(Arc::new(set)).unwrap();
    let effects = book.handle([Heard::Claims(vec![]), Heard::Pods(vec![])], NOW);
    (book, effects)
}

fn queued(id: u64) -> Heard {
    Heard::Told(Told::Job(JobEvent { id: JobId(id), source: "o/r".to_owned(), status: Status::Queued }))
}

fn names(effects: &[Effect]) -> Vec<(Slot, String)> {
    let register = |effect: &Effect| match effect {
        Effect::Register { slot, name } => Some((*slot, name.clone())),
        _ => None,
    };
    effects.iter().filter_map(register).collect()
}

fn registered(effects: &[Effect]) -> Vec<Heard> {
    let answer = |(slot, name): (Slot, String)| {
        let id = RunnerId(u64::from(slot.0) + 100);
        let configuration = Hidden::new(format!("hunter-{id}"));
        Heard::Registered { slot, name, outcome: Ok(Registration { id, configuration }) }
    };
    names(effects).into_iter().map(answer).collect()
}

fn created(effects: &[Effect]) -> (Vec<&Secret>, Vec<&PodToMake>) {
    let mut found = (Vec::new(), Vec::new());
    for effect in effects {
        if let Effect::Create { secret, pods } = effect {
            found.0.extend(secret.as_deref());
            found.1.extend(pods);
        }
    }
    found
}

fn as_seen(made: &PodToMake) -> Pod {
    let mut pod = (*made.pod).clone();
    pod.metadata.uid = Some(format!("uid-{}", made.slot));
    pod
}

#[test]
fn a_set_holds_itself_and_says_how_it_is() {
    let (mut book, effects) = started(|_| {});
    let held = json!({"metadata": {"uid": null, "resourceVersion": null, "finalizers": [objects::FINALIZER]}});
    assert!(effects.contains(&Effect::PatchSet { patch: held }));
    assert!(
        effects.contains(&Effect::SweepSecrets { keep: vec![], session: format!("{:x}", NOW.as_millisecond()) }),
        "what the last one left behind"
    );
    let status = effects.iter().find_map(|effect| match effect {
        Effect::Status(status) => Some(status),
        _ => None,
    });
    assert_eq!(status.unwrap().conditions.len(), 3);
    assert_eq!(book.handle([Heard::StatusWritten { good: true }], NOW), [], "and nothing twice");
}

#[test]
fn a_burst_is_one_secret_and_its_pods_and_the_secret_goes_when_nobody_needs_it() {
    let (mut book, _) = started(|_| {});
    let effects = book.handle((1..=3).map(queued), at(1));
    assert_eq!(names(&effects).len(), 3);
    let effects = book.handle(registered(&effects), at(2));
    let (secrets, pods) = created(&effects);
    assert_eq!((secrets.len(), pods.len()), (1, 3));
    let secret = secrets[0].metadata.name.clone().unwrap();
    assert_eq!(secrets[0].data.as_ref().unwrap().len(), 3);
    assert!(!format!("{book:?} {pods:?}").contains("hunter"), "configurations stand in the Secret alone");
    let seen: Vec<Heard> = pods.iter().map(|made| Heard::Pod(Arc::new(as_seen(made)))).collect();
    book.handle(seen, at(3));
    let online = |ids: &[u64]| {
        let runner = |id: &u64| ForgeRunner { id: RunnerId(*id), name: String::new(), online: true, busy: false };
        Heard::Runners { began: at(4), runners: Arc::new(ids.iter().map(runner).collect()) }
    };
    let gone = |effects: &[Effect]| effects.contains(&Effect::DeleteSecret { name: secret.clone() });
    let pods: Vec<Pod> = pods.iter().map(|made| as_seen(made)).collect();
    assert!(!gone(&book.handle([online(&[100, 101])], at(4))));
    assert!(gone(&book.handle([Heard::PodGone(Arc::new(pods[2].clone()))], at(5))));
}

#[test]
fn an_answer_that_was_lost_makes_the_same_pod_again_from_the_same_secret() {
    let (mut book, _) = started(|_| {});
    let effects = book.handle([queued(1)], at(1));
    let effects = book.handle(registered(&effects), at(2));
    let (secrets, pods) = created(&effects);
    let (name, first) = (secrets[0].metadata.name.clone().unwrap(), pods[0].pod.clone());
    let lost = || Heard::Created { slot: Slot(0), id: RunnerId(100), outcome: Err(NotCreated::Unknown) };
    book.handle([Heard::SecretMade(name), lost()], at(3));
    let effects = book.handle([], at(5));
    let (secrets, pods) = created(&effects);
    assert_eq!((secrets.len(), &pods[0].pod), (0, &first));
}

#[test]
fn a_secret_that_may_not_be_there_is_made_again_under_another_name() {
    let (mut book, _) = started(|_| {});
    let effects = book.handle([queued(1)], at(1));
    let effects = book.handle(registered(&effects), at(2));
    let name = created(&effects).0[0].metadata.name.clone().unwrap();
    let outcome = Err(NotCreated::Unknown);
    book.handle([Heard::Created { slot: Slot(0), id: RunnerId(100), outcome }], at(3));
    let effects = book.handle([], at(5));
    let (secrets, pods) = created(&effects);
    assert_eq!((secrets.len(), pods.len()), (1, 1));
    assert_ne!(secrets[0].metadata.name.as_ref(), Some(&name));
    assert!(effects.contains(&Effect::DeleteSecret { name }), "it may be there");
}

#[test]
fn after_a_restart_the_secrets_of_live_pods_are_kept() {
    let (mut book, _) = started(|_| {});
    let effects = book.handle([queued(1)], at(1));
    let effects = book.handle(registered(&effects), at(2));
    let (secrets, pods) = created(&effects);
    let pod = as_seen(pods[0]);
    let mut again = Book::new(Arc::clone(book.set())).unwrap();
    let effects = again.handle([Heard::Claims(vec![]), Heard::Pods(vec![Arc::new(pod.clone())])], at(3));
    let keep = vec![secrets[0].metadata.name.clone().unwrap()];
    assert!(
        effects
            .contains(&Effect::SweepSecrets { keep: keep.clone(), session: format!("{:x}", at(3).as_millisecond()) })
    );
    let effects = again.handle([Heard::PodGone(Arc::new(pod))], at(4));
    assert!(effects.contains(&Effect::DeleteSecret { name: keep[0].clone() }));
}

#[test]
fn a_set_that_is_deleted_stays_until_its_runners_are_gone() {
    let (mut book, _) = started(|_| {});
    let effects = book.handle([queued(1)], at(1));
    let effects = book.handle(registered(&effects), at(2));
    let pod = as_seen(created(&effects).1[0]);
    book.handle([Heard::Pod(Arc::new(pod.clone()))], at(3));
    let running =
        JobEvent { id: JobId(1), source: "o/r".to_owned(), status: Status::Running { runner: Some(RunnerId(100)) } };
    book.handle([Heard::Told(Told::Job(running))], at(4));
    let mut deleted = book.set().as_ref().clone();
    deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(5)));
    deleted.metadata.finalizers = Some(vec![objects::FINALIZER.to_owned()]);
    let ends = |effects: &[Effect]| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::PatchSet { .. } | Effect::Delete { .. } | Effect::Remove { .. }))
    };
    assert!(!ends(&book.handle([Heard::Set(Arc::new(deleted))], at(5))), "a busy runner is not touched");
    let effects = book.handle([Heard::PodGone(Arc::new(pod))], at(60));
    assert!(effects.contains(&Effect::Remove { id: RunnerId(100) }), "{effects:?}");
    let effects = book.handle([Heard::Removed { id: RunnerId(100), outcome: Removal::Gone }], at(61));
    assert!(!ends(&effects), "first the forge is asked whether all are gone");
    let listed = |began| Heard::Runners { began, runners: Arc::new(Vec::new()) };
    assert!(!ends(&book.handle([listed(at(50))], at(62))), "as it was before");
    let effects = book.handle([listed(at(70))], at(71));
    let free = json!({"metadata": {"uid": null, "resourceVersion": null, "finalizers": []}});
    assert!(effects.contains(&Effect::PatchSet { patch: free }), "{effects:?}");
}

#[test]
fn an_invalid_change_is_told_and_what_was_valid_goes_on() {
    let (mut book, _) = started(|_| {});
    book.handle([Heard::StatusWritten { good: true }], at(1));
    let mut changed = book.set().as_ref().clone();
    changed.spec.min = 30;
    changed.spec.labels.clear();
    let effects = book.handle([Heard::Set(Arc::new(changed.clone()))], at(9));
    let Some(Effect::Status(status)) = effects.iter().find(|effect| matches!(effect, Effect::Status(_))) else {
        panic!("{effects:?}");
    };
    let scaled = &status.conditions[0];
    assert_eq!((scaled.reason.as_str(), scaled.status.as_str()), ("Invalid", "False"));
    assert_eq!(
        scaled.message,
        "spec.labels: must name at least one; spec.min: must not be above max: lower min, or raise max"
    );
    let effects = book.handle([queued(1)], at(10));
    assert_eq!(names(&effects).len(), 1, "jobs run on what was valid");
    assert!(Book::new(Arc::new(changed)).is_err(), "and nothing begins with what is not");
}

#[test]
fn claims_come_with_the_first_pod_of_a_slot_and_stay_for_the_next() {
    let template = json!({"unusedSeconds": 600, "claimTemplate":
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}});
    let (mut book, _) = started(|set| set.spec.work_volume = serde_json::from_value(template).unwrap());
    let effects = book.handle([queued(1)], at(1));
    let effects = book.handle(registered(&effects), at(2));
    let made = created(&effects).1[0];
    let mut claim = *made.claim.clone().unwrap();
    claim.metadata.uid = Some("claim".to_owned());
    let pod = as_seen(made);
    book.handle([Heard::Claim(Arc::new(claim.clone())), Heard::Pod(Arc::new(pod.clone()))], at(3));
    let effects = book.handle([Heard::PodGone(Arc::new(pod))], at(4));
    assert_eq!(names(&effects)[0].0, Slot(0), "the lowest slot first");
    let effects = book.handle(registered(&effects), at(11));
    assert_eq!(created(&effects).1[0].claim, None, "the claim is there");
    let mut quiet = Book::new(Arc::clone(book.set())).unwrap();
    quiet.handle([Heard::Claims(vec![Arc::new(claim)]), Heard::Pods(vec![])], at(20));
    let effects = quiet.handle([], at(621));
    let gone = Effect::DeleteClaim { name: "linux-0-work".to_owned(), uid: "claim".to_owned() };
    assert!(effects.contains(&gone), "{effects:?}");
}
