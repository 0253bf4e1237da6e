//! What is asked of a Pod's node, with a node that notes what it is asked and echoes what is upgraded.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use minke_apiserver::access::Authority;
use minke_apiserver::http::Limits;
use minke_core::clock::{Clock, SystemClock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::server::{ADMIN, NOBODY, TestServer};

const POD: &str = "/api/v1/namespaces/default/pods/p";

/// A kubelet. Ends when dropped.
struct FakeNode {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    /// What it says of what it uses; the last one again and again.
    summaries: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn respond(
    mut request: Request<Incoming>,
    noted: Arc<Mutex<Vec<String>>>,
    summaries: Arc<Mutex<Vec<Value>>>,
) -> Response<Body> {
    let headers = request.headers();
    let mut heard = format!("{} {}", request.method(), request.uri());
    assert!(!headers.contains_key("authorization"), "the client's credentials are not the node's business");
    let text =
        |code: u16, said: &'static str| Response::builder().status(code).body(Full::from(said).boxed_unsync()).unwrap();
    let path = request.uri().path().to_owned();
    if let Some(upgrade) = headers.get("upgrade").cloned() {
        heard = format!("{heard} {}", upgrade.to_str().unwrap());
        noted.lock().unwrap().push(heard);
        if path.contains("/attach/") {
            return text(404, "container not found (\"a\")");
        }
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut io = TokioIo::new(upgraded.await.unwrap());
            io.write_all(b"hello").await.unwrap();
            io.flush().await.unwrap();
            let mut bytes = vec![0; 4096];
            while let Ok(length @ 1..) = io.read(&mut bytes).await {
                io.write_all(&bytes[..length]).await.unwrap();
                io.flush().await.unwrap();
            }
        });
        let response = Response::builder().status(101).header("connection", "Upgrade").header("upgrade", upgrade);
        let response = response.header("x-stream-protocol-version", "v4.channel.k8s.io");
        return response.body(Full::default().boxed_unsync()).unwrap();
    }
    noted.lock().unwrap().push(heard);
    if path == "/stats/summary" {
        let mut summaries = summaries.lock().unwrap();
        let summary = if summaries.len() > 1 { summaries.remove(0) } else { summaries[0].clone() };
        return Response::new(Full::from(summary.to_string()).boxed_unsync());
    }
    if path.ends_with("/b") {
        return text(400, "container \"b\" in pod \"p\" is waiting to start: ContainerCreating");
    }
    // Follows for ever: what was written must arrive before the end.
    let lines = futures_util::stream::once(async { Ok(Frame::data(Bytes::from_static(b"one line\n"))) });
    let forever = futures_util::stream::pending();
    use futures_util::StreamExt;
    match request.uri().query().is_some_and(|query| query.contains("follow")) {
        true => Response::new(StreamBody::new(lines.chain(forever)).boxed_unsync()),
        false => Response::new(StreamBody::new(lines).boxed_unsync()),
    }
}

impl FakeNode {
    /// With a certificate by this authority, letting in whom it vouches for.
    async fn start(authority: &Authority) -> Self {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let own = authority.kubelet("n", &[], &[loopback]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((loopback, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let summaries: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (noted, told) = (asked.clone(), summaries.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted, told) = (acceptor.clone(), noted.clone(), told.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let (noted, told) = (noted.clone(), told.clone());
                        async move { Ok::<_, Infallible>(respond(request, noted, told).await) }
                    });
                    let served = hyper::server::conn::http1::Builder::new();
                    drop(served.serve_connection(TokioIo::new(stream), service).with_upgrades().await);
                });
            }
        });
        Self { address, asked, summaries, task }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn post(server: &TestServer, path: &str, body: Value) {
    let (code, answer) = server.json(ADMIN, Method::POST, path, &body).await;
    assert_eq!(code, 201, "{answer}");
}

/// A server with Pod `p` (containers `a` and `b`) on node `n`, and that node.
async fn cluster(stranger: bool) -> (TestServer, FakeNode) {
    let server = TestServer::start(Limits::default()).await;
    let own = Authority::open(&server.directory.path().join("pki"), SystemClock.now()).unwrap();
    let other = Authority::open(&server.directory.path().join("other"), SystemClock.now()).unwrap();
    let node = FakeNode::start(if stranger { &other } else { &own }).await;
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": node.address.port()}},
    });
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let (code, _) = server.json(ADMIN, Method::PATCH, "/api/v1/nodes/n/status", &json!({"status": status})).await;
    assert_eq!(code, 200);
    pod(&server, "p", "n").await;
    (server, node)
}

async fn pod(server: &TestServer, name: &str, node: &str) {
    let containers = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
    let spec = match node {
        "" => json!({"containers": containers}),
        node => json!({"containers": containers, "nodeName": node}),
    };
    post(server, "/api/v1/namespaces/default/pods", json!({"metadata": {"name": name}, "spec": spec})).await;
}

#[tokio::test]
async fn logs_pass_through_as_they_come() {
    let (server, node) = cluster(false).await;
    let path = format!("{POD}/log?container=a&tailLines=5&timestamps=true");
    assert_eq!(server.send(ADMIN, Method::GET, &path, b"").await, (200, "one line\n".into()));
    assert_eq!(node.asked(), ["GET /containerLogs/default/p/a?timestamps=true&tailLines=5"]);
    // What follows has no end, and its first line is here.
    let mut sender = server.connect().await;
    let request = Request::builder()
        .uri(format!("{POD}/log?container=a&follow=true"))
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ADMIN}"))
        .body(Full::default())
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one line\n");
}

#[tokio::test]
async fn what_makes_no_sense_never_reaches_a_node() {
    let (server, node) = cluster(false).await;
    pod(&server, "nowhere", "").await;
    pod(&server, "lost", "gone").await;
    let nowhere = "/api/v1/namespaces/default/pods/nowhere";
    for (method, path, code, message) in [
        (Method::GET, format!("{POD}/log"), 400, "a container name must be specified for pod p, choose one of: [a b]"),
        (Method::GET, format!("{POD}/log?container=x"), 400, "container x is not valid for pod p"),
        (
            Method::GET,
            format!("{POD}/log?container=a&tailLines=x"),
            400,
            r#"strconv.ParseInt: parsing "x": invalid syntax"#,
        ),
        (
            Method::GET,
            format!("{POD}/log?container=a&limitBytes=0"),
            422,
            r#"PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0"#,
        ),
        (Method::GET, format!("{POD}/exec?container=a&command=id"), 400, "Upgrade request required"),
        (
            Method::POST,
            format!("{nowhere}/exec?container=a&command=id"),
            400,
            "pod nowhere does not have a host assigned",
        ),
        (Method::POST, "/api/v1/namespaces/default/pods/q/exec".to_owned(), 404, r#"pods "q" not found"#),
        (
            Method::GET,
            "/api/v1/namespaces/default/pods/lost/log?container=a".to_owned(),
            404,
            r#"nodes "gone" not found"#,
        ),
    ] {
        let (answered, status) = server.json(ADMIN, method, &path, &Value::Null).await;
        assert_eq!((answered, status["message"].as_str()), (code, Some(message)), "{path}");
    }
    assert_eq!(server.send(ADMIN, Method::GET, &format!("{nowhere}/log?container=a"), b"").await.0, 204);
    for (method, path) in [(Method::POST, "log"), (Method::PUT, "exec"), (Method::DELETE, "portforward")] {
        let path = format!("{POD}/{path}?container=a");
        assert_eq!(server.send(ADMIN, method, &path, b"").await.0, 405, "{path}");
    }
    for path in ["log", "exec", "attach", "portforward"] {
        let path = format!("{POD}/{path}?container=a");
        assert_eq!(server.send(NOBODY, Method::GET, &path, b"").await.0, 403, "{path}");
        assert_eq!(server.send("", Method::GET, &path, b"").await.0, 401, "{path}");
    }
    assert_eq!(node.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_nodes_refusal_and_a_node_that_is_not_believed() {
    let (server, _node) = cluster(false).await;
    let (code, status) = server.json(ADMIN, Method::GET, &format!("{POD}/log?container=b"), &Value::Null).await;
    let message = "container \"b\" in pod \"p\" is waiting to start: ContainerCreating";
    assert_eq!((code, &status["message"], &status["reason"]), (400, &json!(message), &json!("BadRequest")));
    let (server, node) = cluster(true).await;
    let (code, status) = server.json(ADMIN, Method::GET, &format!("{POD}/log?container=a"), &Value::Null).await;
    let message = status["message"].as_str().unwrap();
    assert_eq!(code, 500, "{message}");
    assert!(
        message.starts_with("Internal error occurred: error dialing backend: the kubelet at 127.0.0.1:"),
        "{message}"
    );
    assert_eq!(node.asked(), Vec::<String>::new(), "it learns nothing");
}

#[tokio::test]
async fn streams_pass_through_both_ways_whatever_they_speak() {
    let (server, node) = cluster(false).await;
    let upgrade = async |method: Method, path: &str, protocol: &str| {
        let mut sender = server.connect().await;
        let request = Request::builder()
            .method(method)
            .uri(format!("{POD}/{path}"))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("connection", "Upgrade")
            .header("upgrade", protocol)
            .body(Full::default())
            .unwrap();
        sender.send_request(request).await.unwrap()
    };
    for (method, path, protocol, expected) in [
        (
            Method::POST,
            "exec?container=a&command=id&stdin=true",
            "SPDY/3.1",
            "POST /exec/default/p/a?input=1&output=1&error=1&command=id SPDY/3.1",
        ),
        (
            Method::GET,
            "exec?container=a&command=id&tty=true&stderr=false",
            "websocket",
            "GET /exec/default/p/a?output=1&tty=1&command=id websocket",
        ),
        (Method::POST, "portforward", "SPDY/3.1", "POST /portForward/default/p SPDY/3.1"),
    ] {
        let response = upgrade(method, path, protocol).await;
        assert_eq!((response.status().as_u16(), &response.headers()["upgrade"]), (101, &protocol.parse().unwrap()));
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
        assert_eq!(node.asked().pop().unwrap(), expected);
        let io = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let (mut reader, mut writer) = tokio::io::split(io);
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let wanted = sent.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            writer.flush().await.unwrap();
            writer
        });
        let mut bytes = vec![0; 5 + wanted.len()];
        reader.read_exact(&mut bytes).await.unwrap();
        assert!(bytes[..5] == *b"hello" && bytes[5..] == wanted, "not what was sent");
        drop(writing.await);
    }
    let refused = upgrade(Method::POST, "attach?container=a", "SPDY/3.1").await;
    assert_eq!(refused.status().as_u16(), 404);
    let status: Value = serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(status["message"], "container not found (\"a\")");
}

const MEASURED: &str = "/apis/metrics.k8s.io/v1beta1";

#[tokio::test]
async fn what_nodes_and_pods_use_is_asked_of_their_nodes() {
    let (server, node) = cluster(false).await;
    pod(&server, "elsewhere", "gone").await;
    pod(&server, "nowhere", "").await;
    let read = async |path: &str| server.json(ADMIN, Method::GET, &format!("{MEASURED}{path}"), &Value::Null).await;
    let uid = server.json(ADMIN, Method::GET, POD, &Value::Null).await.1["metadata"]["uid"].clone();
    let summary = |rate: Option<u64>| {
        let mut cpu = json!({"time": "2026-11-22T07:00:00Z", "usageCoreNanoSeconds": 7});
        if let Some(rate) = rate {
            cpu["usageNanoCores"] = rate.into();
        }
        let used = json!({"name": "a", "cpu": cpu, "memory": {"workingSetBytes": 2048}});
        json!({"node": used, "pods": [{"podRef": {"uid": uid}, "containers": [used]}]})
    };
    // A node that was not asked before knows no rate; it is asked again instead of being called idle.
    *node.summaries.lock().unwrap() = vec![summary(None), summary(Some(9_000))];
    let (code, list) = read("/namespaces/default/pods").await;
    assert_eq!((code, &list["kind"]), (200, &json!("PodMetricsList")));
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    let told = json!([{"name": "a", "usage": {"cpu": "9000n", "memory": "2Ki"}}]);
    assert_eq!((&list["items"][0]["metadata"]["name"], &list["items"][0]["containers"]), (&json!("p"), &told));
    assert_eq!(node.asked(), ["GET /stats/summary?only_cpu_and_memory=true"; 2]);

    let (code, one) = read("/namespaces/default/pods/p").await;
    assert_eq!((code, &one["kind"], &one["containers"]), (200, &json!("PodMetrics"), &told));
    let (code, list) = read("/nodes").await;
    assert_eq!((code, &list["items"][0]["usage"]["cpu"]), (200, &json!("9000n")));
    assert_eq!(read("/nodes/n").await.1["usage"]["memory"], "2Ki");
    assert_eq!(read("/pods?labelSelector=a%3Db").await.1["items"], json!([]));
    for (path, code) in [
        ("/namespaces/default/pods/elsewhere", 404),
        ("/namespaces/default/pods/nobody", 404),
        ("/nodes/gone", 404),
        ("/pods?watch=true", 405),
        ("/nodes/n/status", 404),
    ] {
        assert_eq!(read(path).await.0, code, "{path}");
    }
    assert_eq!(server.send(ADMIN, Method::DELETE, &format!("{MEASURED}/nodes/n"), b"").await.0, 405);
    assert_eq!(server.send(NOBODY, Method::GET, &format!("{MEASURED}/nodes"), b"").await.0, 403);
    let (_, found) = server.json(ADMIN, Method::GET, MEASURED, &Value::Null).await;
    let resources: Vec<_> = found["resources"].as_array().unwrap().iter().map(|one| one["verbs"].clone()).collect();
    assert_eq!(resources, [json!(["get", "list"]), json!(["get", "list"])]);
}
