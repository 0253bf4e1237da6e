//! Services, parts of Pods with subresources of their own, and metrics, over the wire.

use std::collections::HashSet;

use hyper::Method;
use minke_apiserver::http::Limits;
use minke_core::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::server::{ADMIN, NOBODY, TestServer};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}})
}

#[tokio::test]
async fn services_have_addresses_of_their_own_also_when_many_come_at_once() {
    let server = TestServer::start(Limits::default()).await;
    let (code, own) = server.json(ADMIN, Method::GET, &format!("{SERVICES}/kubernetes"), &Value::Null).await;
    assert_eq!((code, &own["spec"]["clusterIP"]), (200, &json!("10.96.0.1")));
    assert_eq!(own["spec"]["ports"][0]["targetPort"], server.address.port());
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let bodies: Vec<Value> = names.iter().map(|name| service(name)).collect();
    let made = bodies.iter().map(|body| server.json(ADMIN, Method::POST, SERVICES, body));
    let mut addresses = HashSet::new();
    for (code, made) in futures_util::future::join_all(made).await {
        assert_eq!(code, 201, "{made}");
        assert!(addresses.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned()), "{made}");
    }
    let mut same = service("same");
    same["spec"]["clusterIP"] = addresses.iter().next().unwrap().clone().into();
    let (code, refused) = server.json(ADMIN, Method::POST, SERVICES, &same).await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains("provided IP is already allocated"), "{refused}");
    // A change that does not say the address keeps it; another address is refused.
    let one = format!("{SERVICES}/s0");
    let (_, before) = server.json(ADMIN, Method::GET, &one, &Value::Null).await;
    let (code, after) = server.json(ADMIN, Method::PUT, &one, &service("s0")).await;
    assert_eq!((code, &after["spec"]["clusterIP"]), (200, &before["spec"]["clusterIP"]));
    let (code, _) = server.json(ADMIN, Method::PATCH, &one, &json!({"spec": {"clusterIP": "10.96.99.99"}})).await;
    assert_eq!(code, 422);
    let (code, headless) = {
        let mut headless = service("headless");
        headless["spec"]["clusterIP"] = "None".into();
        server.json(ADMIN, Method::POST, SERVICES, &headless).await
    };
    assert_eq!((code, &headless["spec"]["clusterIPs"]), (201, &json!(["None"])));
}

#[tokio::test]
async fn a_service_that_is_there_is_told_so_and_the_servers_own_outlives_it() {
    let server = TestServer::start(Limits::default()).await;
    let mut again = service("kubernetes");
    again["spec"]["clusterIP"] = "10.96.0.1".into();
    let (code, refused) = server.json(ADMIN, Method::POST, SERVICES, &again).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("AlreadyExists")), "{refused}");
    let server = server.restart().await;
    let (code, own) = server.json(ADMIN, Method::GET, &format!("{SERVICES}/kubernetes"), &Value::Null).await;
    assert_eq!((code, &own["spec"]["clusterIP"]), (200, &json!("10.96.0.1")));
    assert_eq!(own["spec"]["ports"][0]["targetPort"], server.address.port());
}

#[tokio::test]
async fn ephemeral_containers_and_resources_have_their_own_ways() {
    let server = TestServer::start(Limits::default()).await;
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    let pod = json!({"metadata": {"name": "a"}, "spec": {
        "containers": [{"name": "c", "image": "example.com/x:1", "resources": resources}],
    }});
    assert_eq!(server.json(ADMIN, Method::POST, PODS, &pod).await.0, 201);
    let one = format!("{PODS}/a");
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "example.com/debug:1", "targetContainerName": "c"}]}});
    let (code, refused) = server.json(ADMIN, Method::PATCH, &one, &debug).await;
    assert_eq!(code, 422, "{refused}");
    let own = format!("{one}/ephemeralcontainers");
    let (code, debugged) = server.json(ADMIN, Method::PATCH, &own, &debug).await;
    assert_eq!(code, 200, "{debugged}");
    assert_eq!(debugged["spec"]["ephemeralContainers"][0]["name"], "d");
    assert_eq!(debugged["metadata"]["generation"], 2);
    let gone = json!({"spec": {"ephemeralContainers": []}});
    assert_eq!(server.json(ADMIN, Method::PATCH, &own, &gone).await.0, 422);
    // Other writes go on as before.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, labelled) = server.json(ADMIN, Method::PATCH, &one, &label).await;
    assert_eq!((code, &labelled["spec"]["ephemeralContainers"][0]["name"]), (200, &json!("d")), "{labelled}");
    let status = json!({"status": {"phase": "Running"}});
    assert_eq!(server.json(ADMIN, Method::PATCH, &format!("{one}/status"), &status).await.0, 200);
    let resize = format!("{one}/resize");
    let more = json!({"spec": {"containers": [
        {"name": "c", "image": "ignored", "resources": {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}},
    ]}});
    assert_eq!(server.json(ADMIN, Method::PATCH, &one, &more).await.0, 422, "not by the main way");
    let (code, resized) = server.json(ADMIN, Method::PATCH, &resize, &more).await;
    assert_eq!(code, 200, "{resized}");
    let container = &resized["spec"]["containers"][0];
    assert_eq!(
        (&container["resources"]["requests"]["cpu"], &container["image"]),
        (&json!("150m"), &json!("example.com/x:1"))
    );
    assert_eq!(server.json(ADMIN, Method::GET, &resize, &Value::Null).await.0, 200);
    assert_eq!(server.json(ADMIN, Method::DELETE, &resize, &Value::Null).await.0, 405);
}

#[tokio::test]
async fn metrics_are_for_those_who_may_and_count_what_was_asked() {
    let server = TestServer::start(Limits::default()).await;
    assert_eq!(server.json("", Method::GET, "/metrics", &Value::Null).await.0, 401);
    assert_eq!(server.json(NOBODY, Method::GET, "/metrics", &Value::Null).await.0, 403);
    assert_eq!(server.json(ADMIN, Method::GET, &format!("{PODS}/none"), &Value::Null).await.0, 404);
    let (code, text) = server.send(ADMIN, Method::GET, "/metrics", b"").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert_eq!(code, 200);
    let line = |parts: &[&str]| text.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(line(&["apiserver_request_total{", "verb=\"GET\"", "resource=\"pods\"", "code=\"404\"", " 1"]), "{text}");
    assert!(line(&["apiserver_request_duration_seconds_bucket{", "resource=\"pods\""]), "{text}");
    assert!(line(&["apiserver_storage_objects{resource=\"namespaces\"} 4"]), "{text}");
    for family in ["apiserver_current_inflight_requests", "minke_api_revision"] {
        assert!(line(&["# TYPE", family]), "{family}: {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn events_of_both_groups_are_the_same_ones() {
    let server = TestServer::start(Limits::default()).await;
    // Older ones would be forgotten meanwhile.
    let now = &SystemClock.now().to_string();
    let (core, newer) = ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let event = json!({
        "metadata": {"name": "new"}, "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "eventTime": now, "reportingController": "c", "reportingInstance": "i",
        "action": "Act", "reason": "Because", "note": "said", "type": "Normal",
    });
    let (code, made) = server.json(ADMIN, Method::POST, newer, &event).await;
    assert_eq!((code, &made["note"], &made["apiVersion"]), (201, &json!("said"), &json!("events.k8s.io/v1")), "{made}");
    let (code, seen) = server.json(ADMIN, Method::GET, &format!("{core}/new"), &Value::Null).await;
    assert_eq!((code, &seen["message"], &seen["apiVersion"]), (200, &json!("said"), &json!("v1")), "{seen}");
    assert_eq!(seen["involvedObject"]["name"], "p");
    assert!(seen["note"].is_null());
    // A series is patched in the newer form, and seen in the older.
    let series = json!({"series": {"count": 2, "lastObservedTime": now}});
    let (code, patched) = server.json(ADMIN, Method::PATCH, &format!("{newer}/new"), &series).await;
    assert_eq!((code, &patched["series"]["count"]), (200, &json!(2)), "{patched}");
    let (_, seen) = server.json(ADMIN, Method::GET, &format!("{core}/new"), &Value::Null).await;
    assert_eq!((&seen["series"]["count"], &seen["message"]), (&json!(2), &json!("said")));
    let older = json!({
        "metadata": {"name": "old"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "q"},
        "message": "told", "reason": "R", "type": "Normal", "count": 4, "source": {"component": "kubelet"},
        "firstTimestamp": now, "lastTimestamp": now,
    });
    assert_eq!(server.json(ADMIN, Method::POST, core, &older).await.0, 201);
    let (_, seen) = server.json(ADMIN, Method::GET, &format!("{newer}/old"), &Value::Null).await;
    assert_eq!((&seen["note"], &seen["deprecatedCount"]), (&json!("told"), &json!(4)), "{seen}");
    for (path, field) in [(newer, "regarding.name%3Dq"), (core, "involvedObject.name%3Dq")] {
        let (code, list) =
            server.json(ADMIN, Method::GET, &format!("{path}?fieldSelector={field}"), &Value::Null).await;
        let items = list["items"].as_array().unwrap();
        assert_eq!((code, items.len(), &items[0]["metadata"]["name"]), (200, 1, &json!("old")), "{list}");
    }
    let (code, refused) = server.json(ADMIN, Method::POST, newer, &json!({"metadata": {"name": "bad"}})).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(server.json(ADMIN, Method::DELETE, &format!("{newer}/old"), &Value::Null).await.0, 200);
    assert_eq!(server.json(ADMIN, Method::GET, &format!("{core}/old"), &Value::Null).await.0, 404);
}
