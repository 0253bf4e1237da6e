//! Streams of the node's API over TLS: commands, attached programs, forwarded ports, and clients that know no better.

use std::time::Duration;

use futures_util::{AsyncReadExt, AsyncWriteExt};
use http_body_util::BodyExt;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use minke_core::runtime::{ExecSession, TerminalSize};
use minke_streams::client::{PortForward, exec_over, upgrade};
use minke_streams::negotiate::ExecStreams;

use crate::served::Node;

const ALL: ExecStreams = ExecStreams { stdin: true, stdout: true, stderr: true, tty: false };

async fn upgraded(node: &Node, path: &str, protocol: &str) -> TokioIo<hyper::upgrade::Upgraded> {
    let stream = node.connect(&node.own, Some(node.client("admin"))).await.unwrap();
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", "node")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .header("x-stream-protocol-version", protocol)
        .body(())
        .unwrap();
    upgrade(stream, request).await.unwrap().1
}

async fn command(node: &Node, path: &str, streams: ExecStreams) -> ExecSession {
    let io = upgraded(node, path, "v4.channel.k8s.io").await;
    exec_over(io, streams, Some(TerminalSize { width: 132, height: 43 })).await.unwrap()
}

/// Sends what a command echoes; its exit code.
async fn echoed(mut session: ExecSession, sent: &[u8]) -> (Vec<u8>, i32) {
    let (mut stdin, mut heard) = (session.stdin.take().unwrap(), Vec::new());
    let sending = async {
        stdin.write_all(sent).await.unwrap();
        stdin.close().await.unwrap();
    };
    let (_, read) = tokio::join!(sending, session.stdout.read_to_end(&mut heard));
    read.unwrap();
    (heard, session.control.wait().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_streams_its_size_and_its_exit_code() {
    let node = Node::start().await;
    let path = "/exec/ns/p/c?input=1&output=1&error=1&command=exit&command=7";
    let sent: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (heard, code) = echoed(command(&node, path, ALL).await, &sent).await;
    assert!(heard == sent && code == 7, "{} of {} bytes, {code}", heard.len(), sent.len());
    let tty = ExecStreams { tty: true, stderr: false, ..ALL };
    let session = command(&node, "/exec/ns/p/u/c?input=1&output=1&error=1&tty=1&command=size", tty).await;
    let (heard, code) = echoed(session, b"").await;
    assert_eq!((String::from_utf8_lossy(&heard).as_ref(), code), ("132x43", 0));
    let asked = node.provider.commands.lock().unwrap().clone();
    assert_eq!((asked[0].command.as_slice(), asked[0].stdin), (&["exit".to_owned(), "7".to_owned()][..], true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attach_joins_the_program() {
    let node = Node::start().await;
    let session = command(&node, "/attach/ns/p/c?input=1&output=1&error=1", ALL).await;
    assert_eq!(echoed(session, b"typed").await, (b"typed".to_vec(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_go_through_a_forwarded_port_intact() {
    let node = Node::start().await;
    let ports = PortForward::over(upgraded(&node, "/portForward/ns/p", "portforward.k8s.io").await);
    let (mut reader, mut writer) = ports.connect(7777).await.unwrap().split();
    const CHUNK: usize = 1 << 20;
    let chunk = |n: usize| (0..CHUNK).map(|i| ((i * 31 + n * 17) % 253) as u8).collect::<Vec<u8>>();
    let writing = tokio::spawn(async move {
        for n in 0..100 {
            writer.write_all(&chunk(n)).await.unwrap();
        }
        writer.close().await.unwrap();
    });
    let mut bytes = vec![0; CHUNK];
    for n in 0..100 {
        reader.read_exact(&mut bytes).await.unwrap();
        assert!(bytes == chunk(n), "megabyte {n}");
    }
    assert_eq!(reader.read(&mut bytes).await.unwrap(), 0);
    writing.await.unwrap();
    assert_eq!(*node.provider.ports.lock().unwrap(), [7777]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_commands_run_at_one_time() {
    let node = Node::start().await;
    let path = "/exec/ns/p/c?input=1&output=1&error=1&command=exit&command=3";
    let mut sessions = Vec::new();
    for batch in 0..20 {
        let opened = futures_util::future::join_all((0..50).map(|_| command(&node, path, ALL))).await;
        assert_eq!(opened.len(), 50, "batch {batch}");
        sessions.extend(opened);
    }
    let (_, said) = node.get("admin", Method::GET, "/metrics").await;
    assert!(said.contains("minke_node_stream_sessions{path=\"exec\"} 1000\n"), "{said}");
    for session in sessions {
        assert_eq!(echoed(session, b"hello").await, (b"hello".to_vec(), 3));
    }
    assert_eq!(node.provider.commands.lock().unwrap().len(), 1000);
    // Sessions that have ended are closed, every one.
    for _ in 0..2000 {
        let (_, said) = node.get("admin", Method::GET, "/metrics").await;
        if said.contains("minke_node_stream_sessions{path=\"exec\"} 0\n") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("sessions that have ended are still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_refused_is_refused_before_the_upgrade() {
    let node = Node::start().await;
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v4.channel.k8s.io")];
    let websocket = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    for (path, headers, code, said) in [
        ("/exec/ns/p/c?command=id", &spdy[..], 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/p/c?output=1", &spdy, 400, "a command is required"),
        ("/exec/ns/q/c?output=1&command=id", &spdy, 404, "pod does not exist"),
        ("/exec/ns/p/v/c?output=1&command=id", &spdy, 404, "pod not found"),
        ("/exec/ns/p/x?output=1&command=id", &spdy, 404, "container not found (\"x\")"),
        (
            "/portForward/ns/p/v",
            &[spdy[0], spdy[1], ("x-stream-protocol-version", "portforward.k8s.io")],
            404,
            "pod not found",
        ),
        ("/exec/ns/p/c?output=1&command=id", &[], 400, ""),
        ("/exec/ns/p/c?output=1&command=id", &spdy[..2], 400, ""),
        ("/exec/ns/p/c?output=1&command=id", &spdy[1..], 400, ""),
        ("/exec/ns/p/c?output=1&command=id", &[spdy[0], spdy[1], ("x-stream-protocol-version", "v9")], 403, ""),
        ("/exec/ns/p/c?output=1&command=id", &[spdy[0], ("upgrade", "gopher")], 400, ""),
        ("/attach/ns/p/c?output=1", &websocket, 400, ""),
        ("/portForward/ns/p", &spdy, 403, ""),
        ("/portForward/ns/p?port=0", &websocket, 400, ""),
    ] {
        let stream = node.connect(&node.own, None).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let method = if headers.iter().any(|header| header.1 == "websocket") { Method::GET } else { Method::POST };
        let mut request = Request::builder().method(method).uri(path).header("host", "node");
        request = request.header("authorization", "Bearer admin");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
        let answered = response.status().as_u16();
        let text = String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned();
        assert_eq!(answered, code, "{path} {headers:?}: {text}");
        assert!(text.starts_with(said), "{path}: {text}");
    }
    assert!(node.provider.commands.lock().unwrap().is_empty() && node.provider.ports.lock().unwrap().is_empty());
    assert_eq!(node.get("admin", Method::GET, "/healthz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_a_client_that_leaves_and_a_server_that_ends_end_the_command() {
    let node = Node::start().await;
    let path = "/exec/ns/p/c?input=1&output=1&error=1&command=exit&command=0";
    let running = |node: &Node| node.provider.running.load(std::sync::atomic::Ordering::SeqCst);
    let until = async |node: &Node, wanted: usize| {
        for _ in 0..2000 {
            if running(node) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} commands run, not {wanted}", running(node));
    };
    let (first, second) = (command(&node, path, ALL).await, command(&node, path, ALL).await);
    until(&node, 2).await;
    drop(first);
    until(&node, 1).await;
    node.end();
    until(&node, 0).await;
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_a_client_that_leaves_ends_its_connections_to_ports() {
    let node = Node::start().await;
    let ports = PortForward::over(upgraded(&node, "/portForward/ns/p", "portforward.k8s.io").await);
    let mut opened = Vec::new();
    for port in [7777, 7778] {
        let mut stream = ports.connect(port).await.unwrap();
        // It is there once something has come back.
        stream.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        opened.push(stream);
    }
    let connected = |node: &Node| node.provider.connected.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(connected(&node), 2);
    drop((opened, ports));
    for _ in 0..2000 {
        if connected(&node) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} connections are still open", connected(&node));
}
