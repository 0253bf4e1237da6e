use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::references::ObjectKind;

fn now() -> Now {
    Now { instant: Instant::now(), wall: Timestamp::from_second(1_800_000_000).unwrap() }
}

fn pod(name: &str, uid: &str) -> Arc<Pod> {
    let value = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn with_map(name: &str, uid: &str) -> Arc<Pod> {
    let mut pod = (*pod(name, uid)).clone();
    let from = json!([{"configMapRef": {"name": "m"}}]);
    pod.spec.as_mut().unwrap().containers[0].env_from = Some(serde_json::from_value(from).unwrap());
    Arc::new(pod)
}

fn map(value: &str) -> (ObjectRef, Known) {
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "ns"}, "data": {"K": value}})).unwrap();
    let reference = ObjectRef { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: "m".to_owned() };
    (reference, Known::ConfigMap(Arc::new(map)))
}

fn key(pod: &Pod) -> PodKey {
    PodKey::of(pod).unwrap()
}

fn held(pod: &Arc<Pod>) -> HeldPod {
    HeldPod { key: key(pod), pod: pod.clone() }
}

fn book() -> Book {
    let node = NodeFacts { name: "n".to_owned(), ..NodeFacts::default() };
    Book::new(node, Environment::Resolved, Caution::default())
}

/// The API has this Pod, in a cluster without services.
fn seen(book: &mut Book, pod: &Arc<Pod>) -> Vec<Effect> {
    let effects = book.seen(pod.clone(), now());
    for effect in &effects {
        let Effect::Watch(watches) = effect else { continue };
        for reference in watches.start.iter().filter(|reference| reference.kind == ObjectKind::Services) {
            drop(book.learned(reference, Known::Services([].into()), now()));
        }
    }
    effects
}

fn call(book: &mut Book, key: &PodKey) -> Option<ProviderCall> {
    let effects = book.turn(key, Lane::Provider, now());
    effects.into_iter().find_map(|e| if let Effect::Call(_, call) = e { Some(call) } else { None })
}

/// Lets the Pod be created; returns what the provider got.
fn create(book: &mut Book, key: &PodKey) -> DesiredPod {
    let Some(ProviderCall::Create { pod, raw }) = call(book, key) else { panic!("{key} is not created") };
    drop(book.event(key, PodEvent::Called(CallResult::Applied { pod: raw, called: true }), now()));
    pod
}

fn looked_at(effects: &[Effect], wanted: &PodKey) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Look(key, Lane::Provider, ..) if key == wanted))
}

#[test]
fn r3_a_tombstone_ends_the_pod_by_its_key() {
    let (mut book, a) = (book(), pod("a", "a-1"));
    drop(seen(&mut book, &a));
    create(&mut book, &key(&a));
    assert!(looked_at(&book.gone(&key(&a), now()), &key(&a)));
    assert!(matches!(call(&mut book, &key(&a)), Some(ProviderCall::Delete(_))));
    let effects = book.event(&key(&a), PodEvent::Called(CallResult::NotFound), now());
    assert!(effects.contains(&Effect::Forget(key(&a))));
    assert!(book.is_empty());
}

#[test]
fn s1_r8_another_uid_under_a_name_is_an_end_and_a_beginning() {
    let (mut book, first, second) = (book(), pod("a", "a-1"), pod("a", "a-2"));
    drop(seen(&mut book, &first));
    create(&mut book, &key(&first));
    drop(seen(&mut book, &second));
    assert_eq!(call(&mut book, &key(&second)), None, "its name is still taken");
    assert!(matches!(call(&mut book, &key(&first)), Some(ProviderCall::Delete(_))));
    drop(book.event(&key(&first), PodEvent::Called(CallResult::Deleted), now()));
    let effects = book.event(&key(&first), PodEvent::Forgotten, now());
    assert!(looked_at(&effects, &key(&second)));
    create(&mut book, &key(&second));
    assert_eq!(book.len(), 1);
}

#[test]
fn s3_news_about_a_pod_that_is_not_here_yet_are_in_the_next_list() {
    let (mut book, a) = (book(), pod("a", "a-1"));
    assert_eq!(book.event(&key(&a), PodEvent::Forgotten, now()), []);
    drop(book.swept(vec![held(&a)], Instant::now(), now()));
    let status = k8s_openapi::api::core::v1::PodStatus { phase: Some("Running".to_owned()), ..Default::default() };
    drop(book.event(&key(&a), PodEvent::Status(Box::new(status)), now()));
    drop(seen(&mut book, &a));
    assert_eq!(call(&mut book, &key(&a)), None, "it is held, as it should be");
    let effects = book.turn(&key(&a), Lane::Api, now());
    assert!(matches!(&effects[..], [Effect::Write(_, Write::Patch(_))]), "{effects:?}");
}

#[test]
fn s12_r7_nothing_is_left_of_pods_that_are_gone() {
    let mut book = book();
    for number in 0..50 {
        let a = with_map("a", &format!("a-{number}"));
        drop(seen(&mut book, &a));
        let (reference, known) = map("v");
        drop(book.learned(&reference, known, now()));
        create(&mut book, &key(&a));
        drop(book.gone(&key(&a), now()));
        drop(book.event(&key(&a), PodEvent::Forgotten, now()));
    }
    let left = (book.pods.len(), book.names.len(), book.given.len(), book.references.followed(), book.doubts.next());
    assert_eq!(left, (0, 0, 0, 0, None));
}

#[test]
fn r11_nothing_is_created_before_its_references_were_asked_for() {
    let (mut book, a) = (book(), with_map("a", "a-1"));
    drop(seen(&mut book, &a));
    assert_eq!(call(&mut book, &key(&a)), None);
    let (reference, known) = map("v");
    assert!(looked_at(&book.learned(&reference, known, now()), &key(&a)));
    let given = create(&mut book, &key(&a));
    assert_eq!(given.pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap()[0].value.as_deref(), Some("v"));
    assert!(given.objects.config_map("ns", "m").is_some());
}

#[test]
fn r2_a_reference_that_comes_late_starts_the_pod() {
    let (mut book, a) = (book(), with_map("a", "a-1"));
    drop(seen(&mut book, &a));
    let (reference, known) = map("v");
    drop(book.learned(&reference, Known::Absent, now()));
    let effects = book.turn(&key(&a), Lane::Provider, now());
    let told = |e: &Effect| matches!(e, Effect::Tell { reason: "MandatoryConfigMapNotFound", warning: true, .. });
    assert!(effects.iter().any(told) && !effects.iter().any(|e| matches!(e, Effect::Call(..))));
    assert!(looked_at(&book.learned(&reference, known, now()), &key(&a)));
    create(&mut book, &key(&a));
}

#[test]
fn a_changed_configmap_is_delivered_and_the_environment_stays() {
    let (mut book, a) = (book(), with_map("a", "a-1"));
    drop(seen(&mut book, &a));
    let (reference, known) = map("old $$ $(K)");
    drop(book.learned(&reference, known, now()));
    create(&mut book, &key(&a));
    for later in [map("new").1, Known::Absent] {
        drop(book.learned(&reference, later.clone(), now()));
        let Some(ProviderCall::Update { pod, raw }) = call(&mut book, &key(&a)) else { panic!("not delivered") };
        let env = pod.pod.spec.as_ref().unwrap().containers[0].env.clone().unwrap();
        assert_eq!(env[0].value.as_deref(), Some("old $$ $(K)"));
        assert_eq!(pod.objects.config_map("ns", "m").is_some(), later != Known::Absent);
        drop(book.event(&key(&a), PodEvent::Called(CallResult::Applied { pod: raw, called: true }), now()));
    }
}

#[test]
fn r24_leftovers_are_doubted_looked_for_and_only_then_ended() {
    let (mut book, a) = (book(), pod("a", "a-1"));
    let foreign = Arc::new({
        let mut foreign = (*pod("b", "b-1")).clone();
        foreign.spec.as_mut().unwrap().node_name = Some("another".to_owned());
        foreign
    });
    drop(book.swept(vec![held(&a), held(&foreign)], Instant::now(), now()));
    let start = now();
    drop(book.listed(Vec::new(), start));
    assert_eq!(book.doubtful(start.instant), Ok(Vec::new()), "not before its grace");
    let later = start.instant + Duration::from_secs(11);
    assert_eq!(book.doubtful(later), Ok(vec![key(&a)]), "another node's pod is none of ours");
    assert!(looked_at(&book.gone(&key(&a), now()), &key(&a)));
    assert!(matches!(call(&mut book, &key(&a)), Some(ProviderCall::Delete(_))));
}

#[test]
fn r24_a_pod_that_shows_up_after_all_is_kept() {
    let (mut book, a) = (book(), pod("a", "a-1"));
    drop(book.swept(vec![held(&a)], Instant::now(), now()));
    drop(book.listed(Vec::new(), now()));
    drop(seen(&mut book, &a));
    assert_eq!((book.next_doubt(), call(&mut book, &key(&a))), (None, None));
}

#[test]
fn r24_an_implausible_list_ends_nobody() {
    let mut book = book();
    let pods: Vec<Arc<Pod>> = (0..30).map(|n| pod(&format!("p{n}"), &format!("u{n}"))).collect();
    drop(book.listed(pods.clone(), now()));
    drop(book.listed(Vec::new(), now()));
    let late = Instant::now() + Duration::from_secs(60);
    assert_eq!(book.doubtful(late), Err(Implausible { missing: 30, all: 30 }));
    drop(book.listed(pods[..20].to_vec(), now()));
    assert_eq!(book.doubtful(late).map(|due| due.len()), Ok(10), "a plausible one is looked into");
    let caution = Caution { any_number: true, ..Caution::default() };
    let mut bold = Book::new(NodeFacts::default(), Environment::AsWritten, caution);
    drop(bold.listed(pods, now()));
    drop(bold.listed(Vec::new(), now()));
    assert_eq!(bold.doubtful(late).map(|due| due.len()), Ok(30));
}

#[test]
fn s24_a_restarted_controller_does_not_update_what_is_as_it_should_be() {
    let (mut book, a) = (book(), with_map("a", "a-1"));
    let mut theirs = (*pod("a", "a-1")).clone();
    let env = json!([{"name": "K", "value": "v"}]);
    theirs.spec.as_mut().unwrap().containers[0].env = Some(serde_json::from_value(env).unwrap());
    drop(book.swept(vec![held(&Arc::new(theirs))], Instant::now(), now()));
    drop(seen(&mut book, &a));
    let (reference, known) = map("v");
    drop(book.learned(&reference, known, now()));
    let effects = book.turn(&key(&a), Lane::Provider, now());
    assert!(!effects.iter().any(|e| matches!(e, Effect::Call(..) | Effect::Tell { .. })), "{effects:?}");
}

#[test]
fn s1_what_the_provider_has_of_a_former_pod_ends_before_its_successor_begins() {
    for api_first in [true, false] {
        let (mut book, first, second) = (book(), pod("a", "a-1"), pod("a", "a-2"));
        if api_first {
            drop(seen(&mut book, &second));
        }
        drop(book.swept(vec![held(&first)], Instant::now(), now()));
        drop(seen(&mut book, &second));
        assert_eq!(call(&mut book, &key(&second)), None, "{api_first}");
        assert!(matches!(call(&mut book, &key(&first)), Some(ProviderCall::Delete(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_resolves_by_itself_gets_references_as_they_were_written() {
    let node = NodeFacts { name: "n".to_owned(), ..NodeFacts::default() };
    let mut book = Book::new(node, Environment::AsWritten, Caution::default());
    let mut pod = (*pod("a", "1")).clone();
    let env = json!([{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    pod.spec.as_mut().unwrap().containers[0].env = Some(serde_json::from_value(env).unwrap());
    let pod = Arc::new(pod);
    drop(seen(&mut book, &pod));
    let made = create(&mut book, &key(&pod));
    assert_eq!(made.pod.spec.as_ref().unwrap().containers, pod.spec.as_ref().unwrap().containers);
}
