//! The controller's API over a real Kubernetes client, against an HTTP server that notes what it is asked; and the node's own
//! API over TLS.

#![cfg(test)]

mod node_api;
mod node_streams;
mod served;
mod server;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Config};
use minke_core::clock::SystemClock;
use minke_core::identity::PodKey;
use minke_node::api::{ApiError, PodApi, Record, Teller, WatchEvent};
use minke_node::kube::KubeApi;
use minke_node::references::{Known, ObjectKind, ObjectRef};
use serde_json::{Value, json};

use server::Server;

fn api(server: &Server) -> KubeApi {
    let mut config = Config::new(server.url.parse().unwrap());
    config.default_retry = false;
    KubeApi::new(Client::try_from(config).unwrap(), "n", Arc::new(SystemClock))
}

fn pod(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "ns", "uid": uid, "resourceVersion": "7"},
        "spec": {"nodeName": "n", "containers": []},
    })
}

fn key() -> PodKey {
    let pod: Pod = serde_json::from_value(pod("u")).unwrap();
    PodKey::of(&pod).unwrap()
}

fn status(code: u16) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "x", "message": "no"}),
    )
}

#[tokio::test]
async fn only_the_nodes_pods_are_listed_page_by_page() {
    let server = Server::start(|request| {
        let last = request.query.contains("continue=more");
        let next = if last { "" } else { "more" };
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": next}, "items": [pod("u")]});
        (200, list)
    })
    .await;
    let list = api(&server).list().await.unwrap();
    assert_eq!((list.pods.len(), list.version.as_str()), (2, "9"));
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.path == "/api/v1/pods" && r.query.contains("fieldSelector=spec.nodeName%3Dn")));
}

#[tokio::test]
async fn changes_are_told_and_a_forgotten_history_as_well() {
    let server = Server::start(|_| {
        let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}});
        let expired = json!({"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "", "status": "Failure"});
        let events = [("ADDED", pod("u")), ("BOOKMARK", bookmark), ("DELETED", pod("u")), ("ERROR", expired)];
        let lines = events.map(|(kind, object)| json!({"type": kind, "object": object}));
        (200, Value::Array(lines.to_vec()))
    })
    .await;
    let events: Vec<_> = api(&server).watch("7").await.unwrap().collect().await;
    assert!(matches!(&events[0], Ok(WatchEvent::Applied(pod)) if pod.metadata.uid.as_deref() == Some("u")));
    assert!(matches!(&events[1], Ok(WatchEvent::Bookmark(version)) if version == "8"));
    assert!(matches!(&events[2], Ok(WatchEvent::Deleted { key: gone, .. }) if *gone == key()));
    assert!(matches!(&events[3], Err(ApiError::Expired(_))));
    assert!(server.requests()[0].query.contains("resourceVersion=7"));
}

#[tokio::test]
async fn r5_a_status_is_patched_alone_and_a_removal_is_guarded_by_the_uid() {
    let server = Server::start(|_| (200, pod("u"))).await;
    let api = api(&server);
    let patch = json!({"metadata": {"uid": "u"}, "status": {"phase": "Running"}});
    api.patch_status(&key(), &patch).await.unwrap();
    api.delete(&key(), Duration::ZERO).await.unwrap();
    let requests = server.requests();
    let patched = &requests[0];
    assert_eq!((patched.method.as_str(), patched.path.as_str()), ("PATCH", "/api/v1/namespaces/ns/pods/web/status"));
    assert_eq!((patched.content_type.as_str(), &patched.body), ("application/strategic-merge-patch+json", &patch));
    let deleted = &requests[1];
    assert_eq!((deleted.method.as_str(), deleted.path.as_str()), ("DELETE", "/api/v1/namespaces/ns/pods/web"));
    assert_eq!((&deleted.body["gracePeriodSeconds"], &deleted.body["preconditions"]["uid"]), (&json!(0), &json!("u")));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    for (code, expected) in [(404, "not found"), (409, "conflict"), (429, "too many requests"), (500, "failed")] {
        let server = Server::start(move |_| status(code)).await;
        let error = api(&server).delete(&key(), Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().ends_with(expected), "{code}: {error}");
    }
    // Whatever stands between: nobody said that the Pod is not there.
    let server = Server::start(|_| status(404)).await;
    assert!(matches!(api(&server).get(&key()).await, Err(ApiError::NotFound(_))));
}

/// The Node authorizer answers a get of a Pod that is gone with 403, so that one is looked for in a list that it allows.
#[tokio::test]
async fn a_pod_is_looked_for_among_those_of_the_node() {
    let list = |items: Value| json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items});
    let server = Server::start(move |_| (200, list(json!([])))).await;
    assert_eq!(api(&server).get(&key()).await.unwrap(), None);
    let asked = &server.requests()[0];
    assert_eq!(asked.path, "/api/v1/namespaces/ns/pods");
    assert!(asked.query.contains("metadata.name%3Dweb%2Cspec.nodeName%3Dn"), "{}", asked.query);
    let server = Server::start(move |_| (200, list(json!([pod("u")])))).await;
    assert!(api(&server).get(&key()).await.unwrap().is_some());
}

#[tokio::test]
async fn who_wrote_which_field_is_not_kept() {
    let mut managed = pod("u");
    managed["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": {"f:spec": {}}}]);
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [managed]});
    let server = Server::start(move |_| (200, list.clone())).await;
    assert_eq!(api(&server).list().await.unwrap().pods[0].metadata.managed_fields, None);
}

#[tokio::test]
async fn an_object_is_followed_by_its_name() {
    let server = Server::start(|request| {
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "namespace": "ns"}, "data": {"k": "v"}});
        if request.query.contains("watch=") {
            return (200, json!([{"type": "ADDED", "object": map}, {"type": "DELETED", "object": map}]));
        }
        (200, json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "3"}, "items": []}))
    })
    .await;
    let object = ObjectRef { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: "m".to_owned() };
    let known: Vec<Known> = api(&server).follow(object).take(3).collect().await;
    assert!(matches!(&known[..], [Known::Absent, Known::ConfigMap(_), Known::Absent]), "{known:?}");
    assert!(
        server
            .requests()
            .iter()
            .all(|r| r.path == "/api/v1/namespaces/ns/configmaps" && r.query.contains("metadata.name%3Dm"))
    );
}

#[tokio::test]
async fn an_object_that_may_not_be_read_is_unreadable() {
    let server = Server::start(|_| status(403)).await;
    let object = ObjectRef { kind: ObjectKind::Secret, namespace: "ns".into(), name: "s".to_owned() };
    let known: Vec<Known> = api(&server).follow(object).take(1).collect().await;
    assert_eq!(known, [Known::Unreadable("no".to_owned())]);
}

#[tokio::test]
async fn the_same_event_again_is_counted() {
    let server = Server::start(|request| {
        (
            if request.method == "POST" { 201 } else { 200 },
            json!({
                "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {},
            }),
        )
    })
    .await;
    let pod = Arc::new(serde_json::from_value(pod("u")).unwrap());
    let record = Record {
        teller: Teller::Controller,
        pod,
        container: None,
        warning: true,
        reason: "ProviderCreateFailed".into(),
        message: "no".to_owned(),
    };
    let api = api(&server);
    for _ in 0..3 {
        api.record(&record).await.unwrap();
    }
    let requests = server.requests();
    let methods: Vec<&str> = requests.iter().map(|r| r.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
    let (first, last) = (&requests[0].body, &requests[2].body);
    assert_eq!((&first["reason"], &first["type"]), (&json!("ProviderCreateFailed"), &json!("Warning")));
    assert_eq!((&first["involvedObject"]["uid"], &last["count"]), (&json!("u"), &json!(3)));
}
