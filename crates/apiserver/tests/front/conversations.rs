//! What goes over the wire, request by request.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_life_of_an_object_over_the_wire() {
    let server = TestServer::start(Limits::default()).await;
    let map = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
    let (code, made) = server.json(ADMIN, Method::POST, MAPS, &map).await;
    assert_eq!((code, &made["kind"]), (201, &json!("ConfigMap")));
    let one = format!("{MAPS}/a");
    assert_eq!(server.json(ADMIN, Method::GET, &one, &Value::Null).await, (200, made.clone()));
    let (code, patched) = server.json(ADMIN, Method::PATCH, &one, &json!({"data": {"k": "w"}})).await;
    assert_eq!((code, &patched["data"]["k"]), (200, &json!("w")));
    let (code, stale) = server.json(ADMIN, Method::PUT, &one, &made).await;
    assert_eq!((code, &stale["reason"], &stale["details"]["name"]), (409, &json!("Conflict"), &json!("a")));
    let (code, list) =
        server.json(ADMIN, Method::GET, &format!("{MAPS}?labelSelector=x%3Dy&limit=500"), &Value::Null).await;
    assert_eq!((code, &list["kind"], list["items"].as_array().unwrap().len()), (200, &json!("ConfigMapList"), 1));
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let (code, gone) = server.json(ADMIN, Method::DELETE, &one, &json!({"propagationPolicy": "Background"})).await;
    assert_eq!((code, &gone["status"], &gone["details"]["kind"]), (200, &json!("Success"), &json!("configmaps")));
    let (code, lost) = server.json(ADMIN, Method::GET, &one, &Value::Null).await;
    assert_eq!((code, &lost["message"]), (404, &json!("configmaps \"a\" not found")));
    assert_eq!(server.json(ADMIN, Method::GET, "/api/v1/widgets", &Value::Null).await.0, 404);
    assert_eq!(server.send(ADMIN, Method::GET, "/apis/nope.io/v1", b"").await, (404, "404 page not found\n".into()));
    assert_eq!(server.json(ADMIN, Method::PUT, MAPS, &map).await.0, 405);
}

async fn ask(server: &TestServer, path: &str, accept: &str) -> (u16, String, Value) {
    let request = Request::builder()
        .uri(path)
        .header("host", "localhost")
        .header("accept", accept)
        .header("authorization", format!("Bearer {ADMIN}"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = server.connect().await.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, content_type, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn forms_are_negotiated() {
    let server = TestServer::start(Limits::default()).await;
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (code, content_type, list) = ask(&server, "/apis", &format!("{v2},application/json")).await;
    assert_eq!((code, content_type.as_str(), &list["kind"]), (200, v2, &json!("APIGroupDiscoveryList")));
    let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let (code, content_type, list) = ask(&server, "/apis", v2beta1).await;
    assert_eq!((code, content_type.as_str(), &list["kind"]), (200, "application/json", &json!("APIGroupList")));
    let (_, _, resources) = ask(&server, "/api/v1", "application/json").await;
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    for name in ["pods", "pods/status", "pods/binding", "pods/eviction", "namespaces/finalize", "events"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, _, namespaces) = ask(&server, "/api/v1/namespaces", table).await;
    assert_eq!(namespaces["kind"], "Table");
    assert_eq!(namespaces["rows"][0]["cells"][1], "Active");
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, _, namespaces) = ask(&server, "/api/v1/namespaces", partial).await;
    assert_eq!(namespaces["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(ask(&server, "/api/v1/pods", "application/vnd.kubernetes.protobuf").await.0, 406);
    let (_, _, document) = ask(&server, "/openapi/v3/api/v1", "application/json").await;
    let parameters = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]["parameters"];
    assert!(parameters.as_array().unwrap().iter().any(|parameter| parameter["name"] == "fieldValidation"));
}

#[tokio::test]
async fn a_watch_streams_lines_as_things_happen() {
    let server = TestServer::start(Limits::default()).await;
    let request = Request::builder()
        .uri(format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Da&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=30"))
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ADMIN}"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let mut sender = server.connect().await;
    let mut response = sender.send_request(request).await.unwrap();
    let mut told = String::new();
    let mut acted = false;
    while told.matches('\n').count() < 4 {
        let frame = response.frame().await.unwrap().unwrap();
        told.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        if !acted {
            acted = true;
            server.json(ADMIN, Method::POST, MAPS, &json!({"metadata": {"name": "a"}})).await;
            server.json(ADMIN, Method::PATCH, &format!("{MAPS}/a"), &json!({"data": {"k": "v"}})).await;
            server.json(ADMIN, Method::DELETE, &format!("{MAPS}/a"), &Value::Null).await;
        }
    }
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["BOOKMARK", "ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(events[0]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}
