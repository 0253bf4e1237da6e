//! Clients that mean no good, or know no better: right codes, bounded memory, and the server goes on.

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, NOBODY, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn who_is_nobody_reads_nothing_but_whether_the_server_is_well() {
    let server = TestServer::start(Limits::default()).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(server.send("", Method::GET, path, b"").await, (200, "ok".into()), "{path}");
    }
    for path in [
        "/",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/node.k8s.io/v1",
        "/openapi/v3",
        "/nothing",
        MAPS,
        "/api/v1/secrets",
        "/api/v1/namespaces/default/secrets/x",
        "/api/v1/namespaces/default/pods?watch=1",
        "/apis/nope.example.com/v1/x",
    ] {
        for (token, method) in
            [("", Method::GET), ("", Method::POST), ("wrong", Method::GET), ("wrong", Method::DELETE)]
        {
            let (code, status) = server.json(token, method.clone(), path, &Value::Null).await;
            assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")), "{method} {path}");
        }
    }
    // Who is known and may nothing is refused, before anything is read or written.
    for (method, path) in [
        (Method::GET, MAPS),
        (Method::POST, MAPS),
        (Method::DELETE, MAPS),
        (Method::GET, "/api/v1/secrets?watch=1"),
        (Method::PUT, "/api/v1/namespaces/default/configmaps/x"),
        (Method::POST, "/api/v1/namespaces/default/pods/x/binding"),
        (Method::PATCH, "/api/v1/nodes/x/status"),
        (Method::PUT, "/api/v1/namespaces/default/finalize"),
    ] {
        let (code, status) = server.json(NOBODY, method.clone(), path, &json!({})).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{method} {path}");
    }
}

#[tokio::test]
async fn bad_bodies_get_the_right_codes() {
    let server = TestServer::start(Limits { body: 100_000, ..Limits::default() }).await;
    let deep = format!(r#"{{"metadata":{}1{}}}"#, "[".repeat(20_000), "]".repeat(20_000));
    let big = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"x":"{}"}}}}"#, "x".repeat(200_000));
    for (body, expected) in [
        (&b""[..], 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 422),
        (b"\xff\xfe", 400),
        (br#"{"metadata":{"name":"\ud800"}}"#, 400),
        (deep.as_bytes(), 400),
        (big.as_bytes(), 413),
        (br#"{"metadata":{"name":"a/b"}}"#, 422),
        (br#"{"metadata":7}"#, 400),
        (br#"{"metadata":{"name":{"x":1}}}"#, 400),
        (br#"{"kind":"Pod","metadata":{"name":"a"}}"#, 400),
    ] {
        let (code, answer) = server.send(ADMIN, Method::POST, MAPS, body).await;
        let status: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((code, &status["kind"]), (expected, &json!("Status")), "{:?}", &body[..body.len().min(60)]);
    }
    for path in [
        "?limit=x",
        "?resourceVersion=abc",
        "?labelSelector=a%20b",
        "?fieldSelector=spec.foo%3Dx",
        "?continue=!!",
        "?watch=1&resourceVersion=-1",
        "?includeObject=Half",
    ] {
        assert_eq!(server.send(ADMIN, Method::GET, &format!("{MAPS}{path}"), b"").await.0, 400, "{path}");
    }
    assert_eq!(server.send(ADMIN, Method::GET, "/healthz", b"").await.0, 200);
}

#[tokio::test]
async fn more_watches_than_there_is_room_for_are_told_to_come_later() {
    let server = TestServer::start(Limits { watches: 2, ..Limits::default() }).await;
    let watch = || async {
        let mut sender = server.connect().await;
        let request = Request::builder()
            .uri(format!("{MAPS}?watch=1"))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {ADMIN}"))
            .body(Full::default())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        (sender, response)
    };
    let (first, second) = (watch().await, watch().await);
    assert_eq!((first.1.status().as_u16(), second.1.status().as_u16()), (200, 200));
    let refused = watch().await.1;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().ok()), (429, Some("1")));
    // One that goes makes room.
    drop(first);
    for _ in 0..1000 {
        let (_sender, response) = watch().await;
        if response.status() == 200 {
            return;
        }
        drop(response.into_body().collect().await);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("a watch that is gone still takes room");
}
