//! Clients that mean no good, or know no better: right codes, bounded memory, and the server goes on.

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use minke_apiserver::http::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{ADMIN, NOBODY, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn who_is_nobody_reads_nothing_but_whether_the_server_is_well() {
    let server = TestServer::start(Limits::default()).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(server.send("", Method::GET, path, b"").await, (200, "ok".into()), "{path}");
    }
    let (mut discovered, mut groups) = (Vec::new(), vec!["/api/v1".to_owned()]);
    let (_, all) = server.json(ADMIN, Method::GET, "/apis", &Value::Null).await;
    for group in all["groups"].as_array().unwrap() {
        groups.push(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap()));
    }
    for group in groups {
        let (_, list) = server.json(ADMIN, Method::GET, &group, &Value::Null).await;
        for resource in list["resources"].as_array().unwrap() {
            let space = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
            discovered.push(match resource["name"].as_str().unwrap().split_once('/') {
                None => format!("{group}{space}/{}", resource["name"].as_str().unwrap()),
                Some((plural, part)) => format!("{group}{space}/{plural}/x/{part}"),
            });
        }
    }
    assert!(discovered.len() > 40, "{discovered:?}");
    for path in discovered.iter().map(String::as_str).chain([
        "/",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/node.k8s.io/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/nothing",
        MAPS,
        "/api/v1/secrets",
        "/api/v1/namespaces/default/secrets/x",
        "/api/v1/namespaces/default/pods?watch=1",
        "/apis/nope.example.com/v1/x",
    ]) {
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

/// Writes these bytes over TLS and then nothing; what comes back until the server hangs up.
async fn slowly(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = server.client().stream().await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(std::time::Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    // Hung up on without a farewell is hung up on, too.
    drop(read.expect("the server waits for ever"));
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_sends_nothing_more_is_not_waited_for() {
    let patience = std::time::Duration::from_millis(200);
    let server = TestServer::start(Limits { patience, ..Limits::default() }).await;
    let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n");
    // A head that does not end, and none at all.
    assert!(!slowly(&server, head.as_bytes()).await.contains(" 200 "));
    assert_eq!(slowly(&server, b"").await, "");
    // A body that does not come.
    let announced = format!("{head}content-length: 1000\r\nconnection: close\r\n\r\n{{");
    let answer = slowly(&server, announced.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("did not come in time"), "{answer}");
    // A connection without TLS.
    let mut plain = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), plain.read_to_end(&mut rest)).await;
    drop(ended.expect("the server waits for ever"));
    assert_eq!(server.send(ADMIN, Method::GET, "/healthz", b"").await.0, 200);
}

/// Megabytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_watches_that_nobody_reads_cost_a_bounded_part_of_memory() {
    const WATCHES: usize = 2000;
    let server = TestServer::start(Limits::default()).await;
    // One connection carries many, as those of informers do.
    let connections = server.client();
    let (mut held, mut senders) = (Vec::new(), Vec::new());
    for _ in 0..WATCHES / 200 {
        let mut sender = connections.connect_http2().await;
        for _ in 0..200 {
            let request = Request::builder()
                .uri(format!("https://localhost{MAPS}?watch=1"))
                .header("authorization", format!("Bearer {ADMIN}"))
                .body(Full::default())
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200);
            held.push(response);
        }
        // The connection lives as long as somebody can send over it.
        senders.push(sender);
    }
    let before = resident();
    let padding = "x".repeat(64 << 10);
    for round in 0..40 {
        let object = json!({"metadata": {"name": format!("m{round}")}, "data": {"x": padding}});
        assert_eq!(server.json(ADMIN, Method::POST, MAPS, &object).await.0, 201);
    }
    let grown = resident().saturating_sub(before);
    // Each of them would hold 2.5 MiB if it were served without being read: 5 GiB together.
    assert!(grown < 1024, "{grown} MiB more for {WATCHES} watches");
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
