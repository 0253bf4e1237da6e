//! The verbs against upstream's behaviour, row by row.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::error::Reason;
use crate::store::HistoryLimits;

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-01-02T12:00:00.5Z".parse().unwrap()
    }
}

async fn engine() -> Engine {
    let engine = Engine::new(Store::in_memory(HistoryLimits::default()), Arc::new(Noon));
    engine.prepare().await.unwrap();
    engine
}

fn kind(plural: &str) -> &'static Kind {
    crate::kinds::BUILTIN.iter().find(|kind| kind.plural == plural).unwrap()
}

fn at<'a>(plural: &str, name: &'a str) -> Place<'a> {
    let kind = kind(plural);
    Place { kind, namespace: if kind.namespaced { "default" } else { "" }, name }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "b"}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}})
}

async fn create(engine: &Engine, plural: &str, object: Value) -> Result<Value, ApiError> {
    let kind = kind(plural);
    let namespace = if kind.namespaced { "default" } else { "" };
    engine.create(kind, namespace, object, &WriteOptions::default()).await.map(|entry| entry.parse().unwrap())
}

async fn put(engine: &Engine, plural: &str, object: Value) -> Result<Value, ApiError> {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let written = engine.update(at(plural, &name), Part::Main, object, &WriteOptions::default()).await;
    written.map(|entry| entry.parse().unwrap())
}

async fn merge(engine: &Engine, place: Place<'_>, part: Part, patch: Value) -> Result<Value, ApiError> {
    let written = engine.patch(place, part, PatchKind::Merge, &patch, &WriteOptions::default()).await;
    written.map(|patched| patched.entry.parse().unwrap())
}

fn read(engine: &Engine, plural: &str, name: &str) -> Value {
    engine.get(at(plural, name), None).unwrap().parse().unwrap()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn delete(engine: &Engine, plural: &str, name: &str, options: Value) -> Result<Deleted, ApiError> {
    engine.delete(at(plural, name), &DeleteOptions::parse(&options)?).await
}

fn names(list: &List) -> Vec<String> {
    let name = |entry: &Arc<Entry>| entry.parse().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    list.entries.iter().map(name).collect()
}

#[tokio::test]
async fn the_server_says_who_an_object_is() {
    let engine = engine().await;
    let mut wanted = pod("p");
    wanted["metadata"]["uid"] = "mine".into();
    wanted["metadata"]["generation"] = 7.into();
    wanted["status"] = json!({"phase": "Running"});
    wanted["spec"]["nonsense"] = true.into();
    let made = create(&engine, "pods", wanted).await.unwrap();
    assert_eq!(made["kind"], "Pod");
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-02T12:00:00Z");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(made["spec"].get("nonsense"), None);
    assert_eq!(read(&engine, "pods", "p"), made);
}

#[tokio::test]
async fn creating_refuses_what_upstream_refuses() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let taken = create(&engine, "configmaps", map("a")).await.unwrap_err();
    assert_eq!((taken.reason, taken.to_string().as_str()), (Reason::AlreadyExists, r#"configmaps "a" already exists"#));
    let config_maps = kind("configmaps");
    let options = WriteOptions::default();
    let lost = engine.create(config_maps, "zzz", map("a"), &options).await.unwrap_err();
    assert_eq!((lost.code(), lost.to_string().as_str()), (404, r#"namespaces "zzz" not found"#));
    let mut elsewhere = map("b");
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(create(&engine, "configmaps", elsewhere).await.unwrap_err().code(), 400);
    let wrong = create(&engine, "configmaps", json!({"kind": "Secret", "metadata": {"name": "x"}})).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::BadRequest);
    let mistyped = create(&engine, "configmaps", json!({"metadata": {"name": "x"}, "data": 3})).await.unwrap_err();
    assert_eq!(mistyped.reason, Reason::BadRequest);
    let invalid =
        create(&engine, "pods", json!({"metadata": {"name": "X"}, "spec": {"containers": []}})).await.unwrap_err();
    assert_eq!(invalid.code(), 422);
    let fields: Vec<&str> = invalid.details.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert!(fields.contains(&"metadata.name") && fields.contains(&"spec.containers"), "{fields:?}");
    assert_eq!(invalid.details.kind, "Pod");
    for bad in
        [json!(null), json!([]), json!({"metadata": 1}), json!({"metadata": {}}), json!({"metadata": {"name": 3}})]
    {
        assert!(matches!(create(&engine, "configmaps", bad).await.unwrap_err().code(), 400 | 422));
    }
}

#[tokio::test]
async fn generated_names_have_the_prefix_and_differ() {
    let engine = engine().await;
    let wanted = json!({"metadata": {"generateName": "web-"}});
    let a = create(&engine, "configmaps", wanted.clone()).await.unwrap();
    let b = create(&engine, "configmaps", wanted).await.unwrap();
    let (a, b) = (a["metadata"]["name"].as_str().unwrap(), b["metadata"]["name"].as_str().unwrap());
    assert!(a.starts_with("web-") && a.len() == 9 && a != b, "{a} {b}");
    let long = create(&engine, "configmaps", json!({"metadata": {"generateName": "x".repeat(80)}})).await.unwrap();
    assert_eq!(long["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[tokio::test]
async fn an_update_based_on_a_passed_revision_is_a_conflict_and_one_based_on_none_is_not() {
    let engine = engine().await;
    let first = create(&engine, "configmaps", map("a")).await.unwrap();
    let mut second = first.clone();
    second["data"]["a"] = "c".into();
    let second = put(&engine, "configmaps", second).await.unwrap();
    assert!(revision(&second) > revision(&first));
    let stale = put(&engine, "configmaps", first.clone()).await.unwrap_err();
    assert_eq!(stale.reason, Reason::Conflict);
    assert!(stale.to_string().contains("the object has been modified"));
    put(&engine, "configmaps", map("a")).await.unwrap();
    let mut other = map("a");
    other["metadata"]["uid"] = "another".into();
    assert_eq!(put(&engine, "configmaps", other).await.unwrap_err().reason, Reason::Conflict);
    assert_eq!(put(&engine, "configmaps", map("nope")).await.unwrap_err().code(), 404);
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.123456Z"}});
    let made = create(&engine, "leases", lease.clone()).await.unwrap();
    assert_eq!(made["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    assert_eq!(put(&engine, "leases", lease).await.unwrap_err().code(), 422);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_no_event() {
    let engine = engine().await;
    let made = create(&engine, "pods", pod("p")).await.unwrap();
    assert_eq!(put(&engine, "pods", made.clone()).await.unwrap(), made);
    let mut unconditional = made.clone();
    unconditional["metadata"].as_object_mut().unwrap().retain(|field, _| field == "name");
    assert_eq!(put(&engine, "pods", unconditional).await.unwrap(), made);
    let patched = merge(&engine, at("pods", "p"), Part::Main, json!({"metadata": {"labels": null}})).await.unwrap();
    assert_eq!(revision(&patched), revision(&made));
    assert_eq!(engine.store().revision(), revision(&made));
}

#[tokio::test]
async fn the_status_is_written_through_its_own_part_and_generation_counts_the_spec_alone() {
    let engine = engine().await;
    let made = create(&engine, "pods", pod("p")).await.unwrap();
    let patch = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}});
    let main = merge(&engine, at("pods", "p"), Part::Main, json!({"status": {"phase": "Running"}})).await.unwrap();
    assert_eq!(main, made);
    let status = merge(&engine, at("pods", "p"), Part::Status, patch).await.unwrap();
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["spec"], made["spec"]);
    assert_eq!(status["metadata"]["generation"], 1);
    assert_eq!(status["metadata"]["labels"], json!({"a": "b"}));
    let image = json!({"spec": {"containers": [{"name": "c", "image": "x:2"}]}});
    let strategic =
        engine.patch(at("pods", "p"), Part::Main, PatchKind::Strategic, &image, &WriteOptions::default()).await;
    let strategic = strategic.unwrap().entry.parse().unwrap();
    assert_eq!(strategic["metadata"]["generation"], 2);
    assert_eq!(strategic["status"]["phase"], "Running");
    let refused =
        merge(&engine, at("pods", "p"), Part::Main, json!({"spec": {"restartPolicy": "Never"}})).await.unwrap_err();
    assert_eq!(refused.code(), 422);
    assert!(refused.to_string().contains("pod updates may not change fields other than"), "{refused}");
}

#[tokio::test]
async fn a_failing_test_of_a_json_patch_is_invalid() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let patch = json!([{"op": "test", "path": "/data/a", "value": "x"}]);
    let refused =
        engine.patch(at("configmaps", "a"), Part::Main, PatchKind::Json, &patch, &WriteOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), 422);
    let patch = json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, patch).await.unwrap_err().code(), 409);
    let rename = json!({"metadata": {"name": "b"}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, rename).await.unwrap_err().code(), 400);
}

#[tokio::test]
async fn apply_creates_what_is_not_there_and_conflicts_with_other_owners() {
    let engine = engine().await;
    let options =
        |manager: &str, force| WriteOptions { field_manager: manager.to_owned(), force, ..WriteOptions::default() };
    let config =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let place = at("configmaps", "a");
    let apply = async |value: &str, options: WriteOptions| {
        engine.patch(place, Part::Main, PatchKind::Apply, &config(value), &options).await
    };
    assert_eq!(apply("1", options("", false)).await.unwrap_err().code(), 422);
    let Patched { entry: made, created, .. } = apply("1", options("one", false)).await.unwrap();
    assert!(created);
    assert_eq!(made.parse().unwrap()["metadata"]["managedFields"][0]["manager"], "one");
    let same = apply("1", options("one", false)).await.unwrap();
    assert_eq!((same.entry.revision, same.created), (made.revision, false));
    let conflict = apply("2", options("two", false)).await.unwrap_err();
    assert_eq!((conflict.code(), conflict.details.causes[0].reason.as_str()), (409, "FieldManagerConflict"));
    let taken = apply("2", options("two", true)).await.unwrap();
    assert_eq!(taken.entry.parse().unwrap()["data"]["k"], "2");
    let (patch, edit) = (json!({"data": {"x": "y"}}), options("edit", false));
    let written = engine.patch(place, Part::Main, PatchKind::Merge, &patch, &edit).await.unwrap();
    let managers = written.entry.parse().unwrap()["metadata"]["managedFields"].as_array().unwrap().len();
    // Whose last field was taken owns nothing any more.
    assert_eq!(managers, 2);
}

#[tokio::test]
async fn a_dry_run_answers_and_keeps_nothing() {
    let engine = engine().await;
    let before = engine.store().revision();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let made = engine.create(kind("configmaps"), "default", map("a"), &options).await.unwrap().parse().unwrap();
    assert_eq!(made["metadata"]["name"], "a");
    assert_eq!(engine.store().revision(), before);
    create(&engine, "configmaps", map("a")).await.unwrap();
    let again = engine.create(kind("configmaps"), "default", map("a"), &options).await.unwrap_err();
    assert_eq!(again.reason, Reason::AlreadyExists);
    let mut other = map("a");
    other["data"] = json!({"x": "y"});
    let written = engine.update(at("configmaps", "a"), Part::Main, other, &options).await.unwrap().parse().unwrap();
    assert_eq!(written["data"], json!({"x": "y"}));
    delete(&engine, "configmaps", "a", json!({"dryRun": ["All"]})).await.unwrap();
    assert_eq!(read(&engine, "configmaps", "a")["data"], json!({"a": "b"}));
    assert_eq!(DeleteOptions::parse(&json!({"dryRun": ["Some"]})).unwrap_err().code(), 422);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let engine = engine().await;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    create(&engine, "configmaps", held).await.unwrap();
    assert!(matches!(delete(&engine, "configmaps", "a", json!({})).await.unwrap(), Deleted::Going(_)));
    let marked = read(&engine, "configmaps", "a");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-02T12:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(matches!(delete(&engine, "configmaps", "a", json!({})).await.unwrap(), Deleted::Going(_)));
    assert_eq!(revision(&read(&engine, "configmaps", "a")), revision(&marked));
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, more).await.unwrap_err().code(), 422);
    let none = json!({"metadata": {"finalizers": null}});
    merge(&engine, at("configmaps", "a"), Part::Main, none).await.unwrap();
    assert_eq!(engine.get(at("configmaps", "a"), None).unwrap_err().code(), 404);
}

#[tokio::test]
async fn preconditions_name_the_one_that_is_meant() {
    let engine = engine().await;
    let made = create(&engine, "configmaps", map("a")).await.unwrap();
    let wrong = delete(&engine, "configmaps", "a", json!({"preconditions": {"uid": "x"}})).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::Conflict);
    assert!(wrong.to_string().contains("the UID in the precondition (x) does not match"), "{wrong}");
    let wrong = delete(&engine, "configmaps", "a", json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(wrong.unwrap_err().reason, Reason::Conflict);
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"]}, "propagationPolicy": "Background"});
    assert!(matches!(delete(&engine, "configmaps", "a", right).await.unwrap(), Deleted::Gone(_)));
    assert_eq!(delete(&engine, "configmaps", "a", json!({})).await.unwrap_err().code(), 404);
    assert_eq!(DeleteOptions::parse(&json!({"propagationPolicy": "Later"})).unwrap_err().code(), 422);
}

/// A Pod on a node, with what its deletion said.
async fn bound(engine: &Engine, name: &str) {
    create(engine, "pods", pod(name)).await.unwrap();
    engine.bind(at("pods", name), &json!({"target": {"name": "n"}}), &WriteOptions::default()).await.unwrap();
}

fn grace(engine: &Engine, name: &str) -> i64 {
    read(engine, "pods", name)["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap()
}

#[tokio::test]
async fn a_bound_pod_is_deleted_gracefully_and_only_ever_faster() {
    let engine = engine().await;
    bound(&engine, "p").await;
    assert!(matches!(delete(&engine, "pods", "p", json!({})).await.unwrap(), Deleted::Going(_)));
    assert_eq!(grace(&engine, "p"), 30);
    assert_eq!(read(&engine, "pods", "p")["metadata"]["deletionTimestamp"], "2026-01-02T12:00:30Z");
    delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 60})).await.unwrap();
    assert_eq!(grace(&engine, "p"), 30);
    delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 5})).await.unwrap();
    assert_eq!(grace(&engine, "p"), 5);
    assert_eq!(read(&engine, "pods", "p")["metadata"]["deletionTimestamp"], "2026-01-02T12:00:05Z");
    assert!(matches!(delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 0})).await.unwrap(), Deleted::Gone(_)));
    assert_eq!(engine.get(at("pods", "p"), None).unwrap_err().code(), 404);
}

#[tokio::test]
async fn a_pod_that_nobody_runs_goes_at_once() {
    let engine = engine().await;
    create(&engine, "pods", pod("unbound")).await.unwrap();
    assert!(matches!(delete(&engine, "pods", "unbound", json!({})).await.unwrap(), Deleted::Gone(_)));
    bound(&engine, "done").await;
    merge(&engine, at("pods", "done"), Part::Status, json!({"status": {"phase": "Failed"}})).await.unwrap();
    assert!(matches!(delete(&engine, "pods", "done", json!({})).await.unwrap(), Deleted::Gone(_)));
    bound(&engine, "evicted").await;
    let eviction = json!({"deleteOptions": {"gracePeriodSeconds": 7}});
    engine.evict(at("pods", "evicted"), &eviction, false).await.unwrap();
    assert_eq!(grace(&engine, "evicted"), 7);
}

/// `minke watch` tells a drain from a deletion by it.
#[tokio::test]
async fn a_running_pod_that_is_evicted_says_so() {
    let engine = engine().await;
    let disrupted = |name: &str| {
        let pod = read(&engine, "pods", name);
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        let mark = conditions.into_iter().find(|condition| condition["type"] == "DisruptionTarget");
        mark.map(|mark| (mark["status"].clone(), mark["reason"].clone()))
    };
    for (name, phase) in [("runs", "Running"), ("pends", "Pending")] {
        bound(&engine, name).await;
        merge(&engine, at("pods", name), Part::Status, json!({"status": {"phase": phase}})).await.unwrap();
    }
    let wrong = json!({"deleteOptions": {"preconditions": {"uid": "another"}}});
    assert_eq!(engine.evict(at("pods", "runs"), &wrong, false).await.unwrap_err().reason, Reason::Conflict);
    engine.evict(at("pods", "runs"), &json!({}), true).await.unwrap();
    assert_eq!(disrupted("runs"), None, "nothing is written by a dry run, nor when another one is meant");
    let revision = read(&engine, "pods", "runs")["metadata"]["resourceVersion"].clone();
    let right = json!({"deleteOptions": {"preconditions": {"resourceVersion": revision}}});
    for (name, eviction) in [("runs", right), ("pends", json!({}))] {
        assert!(matches!(engine.evict(at("pods", name), &eviction, false).await.unwrap(), Deleted::Going(_)));
    }
    assert_eq!(disrupted("runs"), Some((json!("True"), json!("EvictionByEvictionAPI"))));
    assert_eq!(disrupted("pends"), None, "nothing is lost with it");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let engine = engine().await;
    bound(&engine, "p").await;
    let pod = read(&engine, "pods", "p");
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let again =
        engine.bind(at("pods", "p"), &json!({"target": {"name": "m"}}), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(again.reason, Reason::Conflict);
    assert!(again.to_string().contains("already assigned to node \"n\""), "{again}");
    let nothing = engine.bind(at("pods", "p"), &json!({}), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(nothing.code(), 422);
}

#[tokio::test]
async fn immutable_configuration_stays() {
    let engine = engine().await;
    let mut frozen = map("a");
    frozen["immutable"] = true.into();
    create(&engine, "configmaps", frozen).await.unwrap();
    let place = at("configmaps", "a");
    assert_eq!(merge(&engine, place, Part::Main, json!({"data": {"a": "c"}})).await.unwrap_err().code(), 422);
    assert_eq!(merge(&engine, place, Part::Main, json!({"immutable": false})).await.unwrap_err().code(), 422);
    merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}});
    let secret = create(&engine, "secrets", secret).await.unwrap();
    assert_eq!((&secret["data"]["k"], &secret["type"]), (&json!("dg=="), &json!("Opaque")));
    assert_eq!(secret.get("stringData"), None);
    let other = json!({"type": "kubernetes.io/tls"});
    assert_eq!(merge(&engine, at("secrets", "s"), Part::Main, other).await.unwrap_err().code(), 422);
}

#[tokio::test]
async fn lists_come_in_parts_of_one_picture() {
    let engine = engine().await;
    for name in ["a", "b", "c", "d", "e"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let mut options = ListOptions { limit: Some(2), ..ListOptions::default() };
    let first = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "b".to_owned()], Some(3)));
    delete(&engine, "configmaps", "c", json!({})).await.unwrap();
    create(&engine, "configmaps", map("bb")).await.unwrap();
    options.continue_token = first.continue_token;
    let second = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&second), second.revision), (vec!["c".to_owned(), "d".to_owned()], first.revision));
    options.continue_token = second.continue_token;
    let third = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&third), third.continue_token.as_str(), third.remaining), (vec!["e".to_owned()], "", None));
    options.continue_token = "rubbish".to_owned();
    assert_eq!(engine.list(kind("configmaps"), None, &options).unwrap_err().code(), 400);
}

#[tokio::test]
async fn a_continue_token_whose_picture_is_forgotten_brings_one_that_goes_on_without() {
    let store = Store::in_memory(HistoryLimits { events: 3, bytes: 1 << 20 });
    let engine = Engine::new(store, Arc::new(Noon));
    engine.prepare().await.unwrap();
    for name in ["a", "b", "c"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let mut options = ListOptions { limit: Some(1), ..ListOptions::default() };
    options.continue_token = engine.list(kind("configmaps"), None, &options).unwrap().continue_token;
    for name in ["x", "y", "z", "zz"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let expired = engine.list(kind("configmaps"), None, &options).unwrap_err();
    assert_eq!((expired.code(), expired.reason), (410, Reason::Expired));
    options.continue_token = expired.to_status()["metadata"]["continue"].as_str().unwrap().to_owned();
    options.limit = None;
    let rest = engine.list(kind("configmaps"), None, &options).unwrap();
    assert_eq!(names(&rest), ["b", "c", "x", "y", "z", "zz"]);
}

#[tokio::test]
async fn revisions_of_lists_mean_what_they_mean_upstream() {
    let engine = engine().await;
    let a = revision(&create(&engine, "configmaps", map("a")).await.unwrap());
    create(&engine, "configmaps", map("b")).await.unwrap();
    let list = |revision: Option<u64>, revision_match, limit| {
        let options = ListOptions { resource_version: revision, revision_match, limit, ..ListOptions::default() };
        engine.list(kind("configmaps"), None, &options)
    };
    assert_eq!(names(&list(None, None, None).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(Some(0), None, Some(500)).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(Some(a), Some(RevisionMatch::NotOlderThan), None).unwrap()), ["a", "b"]);
    let exact = list(Some(a), Some(RevisionMatch::Exact), None).unwrap();
    assert_eq!((names(&exact), exact.revision), (vec!["a".to_owned()], a));
    assert_eq!(names(&list(Some(a), None, Some(5)).unwrap()), ["a"]);
    let future = list(Some(a + 100), None, None).unwrap_err();
    assert_eq!((future.code(), future.details.retry_after_seconds), (504, 1));
    assert_eq!(future.details.causes[0].reason, "ResourceVersionTooLarge");
    assert_eq!(list(None, Some(RevisionMatch::Exact), None).unwrap_err().code(), 422);
    assert_eq!(list(Some(0), Some(RevisionMatch::Exact), None).unwrap_err().code(), 422);
}

fn told(items: &[WatchItem]) -> Vec<String> {
    let name = |entry: &Entry| entry.parse().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let tell = |item: &WatchItem| match item {
        WatchItem::Added(entry) => format!("+{}", name(entry)),
        WatchItem::Modified(entry) => format!("~{}", name(entry)),
        WatchItem::Deleted(entry) => format!("-{}", name(entry)),
        WatchItem::Bookmark { initial_end, .. } => if *initial_end { "|" } else { "." }.to_owned(),
        WatchItem::Error(error) => error.code().to_string(),
    };
    items.iter().map(tell).collect()
}

#[tokio::test]
async fn a_watch_of_a_selection_sees_objects_come_and_go() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let selection = Selection { labels: LabelSelector::parse("app=a").unwrap(), ..Selection::default() };
    let options = ListOptions { selection, ..ListOptions::default() };
    let mut watch = engine.watch(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!(told(&watch.next().await.unwrap()), ["+a"]);
    let place = at("configmaps", "a");
    create(&engine, "configmaps", map("b")).await.unwrap();
    merge(&engine, place, Part::Main, json!({"data": {"x": "y"}})).await.unwrap();
    let out = merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"app": "z"}}})).await.unwrap();
    merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"app": "a"}}})).await.unwrap();
    delete(&engine, "configmaps", "a", json!({})).await.unwrap();
    let items = watch.next().await.unwrap();
    assert_eq!(told(&items), ["~a", "-a", "+a", "-a"]);
    // What leaves is told as it was inside, at the revision at which it left.
    let WatchItem::Deleted(left) = &items[1] else { panic!("{items:?}") };
    let left = left.parse().unwrap();
    assert_eq!((&left["metadata"]["labels"]["app"], revision(&left)), (&json!("a"), revision(&out)));
    let WatchItem::Deleted(gone) = &items[3] else { panic!("{items:?}") };
    assert_eq!(gone.revision, engine.store().revision());
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_ends_its_beginning_with_a_bookmark_and_sends_more_while_nothing_happens() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let watch = WatchOptions { bookmarks: true, initial_events: Some(true), timeout_seconds: Some(150) };
    let revision_match = Some(RevisionMatch::NotOlderThan);
    let options = ListOptions { watch, revision_match, ..ListOptions::default() };
    let mut watch = engine.watch(kind("configmaps"), None, &options).unwrap();
    assert_eq!(told(&watch.next().await.unwrap()), ["+a", "|"]);
    // Another resource's changes move the bookmark, too.
    create(&engine, "secrets", json!({"metadata": {"name": "s"}})).await.unwrap();
    let start = tokio::time::Instant::now();
    let items = watch.next().await.unwrap();
    assert_eq!(items, [WatchItem::Bookmark { revision: engine.store().revision(), initial_end: false }]);
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(told(&watch.next().await.unwrap()), ["."]);
    assert_eq!(told(&watch.next().await.unwrap()), ["."]);
    assert_eq!(start.elapsed().as_secs(), 148);
    assert_eq!(watch.next().await, None);
    assert_eq!(start.elapsed().as_secs(), 150);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watches_that_would_miss_something_are_refused() {
    let store = Store::in_memory(HistoryLimits { events: 2, bytes: 1 << 20 });
    let engine = Engine::new(store, Arc::new(Noon));
    engine.prepare().await.unwrap();
    let watch = |revision, options: WatchOptions, revision_match| {
        let options =
            ListOptions { resource_version: revision, watch: options, revision_match, ..ListOptions::default() };
        engine.watch(kind("configmaps"), None, &options)
    };
    let a = revision(&create(&engine, "configmaps", map("a")).await.unwrap());
    let mut slow = watch(Some(a), WatchOptions::default(), None).unwrap();
    for name in ["b", "c", "d", "e"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let old = watch(Some(a), WatchOptions::default(), None).unwrap_err();
    assert_eq!((old.code(), old.reason), (410, Reason::Expired));
    assert!(old.to_string().starts_with(&format!("too old resource version: {a} (")), "{old}");
    assert_eq!(told(&slow.next().await.unwrap()), ["410"]);
    assert_eq!(slow.next().await, None);
    assert_eq!(watch(Some(9999), WatchOptions::default(), None).unwrap_err().code(), 504);
    let initial = |bookmarks| WatchOptions { bookmarks, initial_events: Some(true), timeout_seconds: None };
    assert_eq!(watch(None, initial(true), None).unwrap_err().code(), 422);
    assert_eq!(watch(None, initial(false), Some(RevisionMatch::NotOlderThan)).unwrap_err().code(), 422);
    assert_eq!(watch(None, WatchOptions::default(), Some(RevisionMatch::NotOlderThan)).unwrap_err().code(), 422);
}

/// Waits until the object is gone.
async fn gone(engine: &Engine, place: Place<'_>) {
    let mut revisions = engine.store.shared.revisions();
    while engine.get(place, None).is_ok() {
        revisions.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let engine = engine().await;
    let place = Place { kind: kind("namespaces"), namespace: "", name: "n" };
    let made = create(&engine, "namespaces", json!({"metadata": {"name": "n"}})).await.unwrap();
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!((&made["spec"]["finalizers"], &made["status"]["phase"]), (&json!(["kubernetes"]), &json!("Active")));
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    engine.create(kind("configmaps"), "n", held, &WriteOptions::default()).await.unwrap();
    engine.create(kind("pods"), "n", pod("p"), &WriteOptions::default()).await.unwrap();
    engine.delete(place, &DeleteOptions::default()).await.unwrap();
    let refused = engine.create(kind("configmaps"), "n", map("late"), &WriteOptions::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.details.causes[0].reason.as_str()), (403, "NamespaceTerminating"));
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    gone(&engine, Place { kind: kind("pods"), namespace: "n", name: "p" }).await;
    let config_map = Place { kind: kind("configmaps"), namespace: "n", name: "held" };
    assert_eq!(engine.get(place, None).unwrap().attributes.field("status.phase"), "Terminating");
    merge(&engine, config_map, Part::Main, json!({"metadata": {"finalizers": null}})).await.unwrap();
    gone(&engine, place).await;
    care.abort();
    let immortal = Place { name: "default", ..place };
    let refused = engine.delete(immortal, &DeleteOptions::default()).await.unwrap_err();
    assert!(refused.code() == 403 && refused.to_string().contains("this namespace may not be deleted"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_owner_before_it_or_not_at_all_as_the_policy_says() {
    let engine = engine().await;
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    for (policy, stays) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let owner = create(&engine, "configmaps", map("owner")).await.unwrap();
        let mut dependent = map("dependent");
        dependent["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        }]);
        create(&engine, "configmaps", dependent).await.unwrap();
        delete(&engine, "configmaps", "owner", json!({"propagationPolicy": policy})).await.unwrap();
        gone(&engine, at("configmaps", "owner")).await;
        if stays {
            assert_eq!(read(&engine, "configmaps", "dependent")["metadata"].get("ownerReferences"), None);
        } else {
            gone(&engine, at("configmaps", "dependent")).await;
        }
    }
    care.abort();
}

#[tokio::test]
async fn the_servers_own_service_is_there_after_every_start() {
    let engine = engine().await;
    for port in [6443, 6443, 7443] {
        engine.announce(port).await.unwrap();
        assert_eq!(read(&engine, "services", "kubernetes")["spec"]["ports"][0]["targetPort"], port);
    }
}
