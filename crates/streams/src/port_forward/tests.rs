//! Whole port-forwards over connections in memory, time paused.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::*;
use crate::client::PortForward;
use crate::mux::Order;
use crate::spdy::{Connection, Headers, Side};

/// Port 7 echoes, with its end; on port 9 nobody reads; nobody listens on the others.
struct Ports;

#[async_trait]
impl Connect for Ports {
    async fn connect(&self, port: u16) -> Result<Pin<Box<dyn Duplex>>, Failure> {
        let (ours, theirs) = tokio::io::duplex(4096);
        match port {
            7 => {
                tokio::spawn(async move {
                    let (mut read, mut write) = tokio::io::split(theirs);
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    let _ = tokio::io::AsyncWriteExt::shutdown(&mut write).await;
                });
            }
            9 => {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(1000)).await;
                    drop(theirs);
                });
            }
            _ => return Err(Failure::new("connection refused")),
        }
        Ok(Box::pin(ours.compat()))
    }
}

fn serve(
    io: DuplexStream,
    protocol: PortForwardProtocol,
    ports: &'static [u16],
) -> tokio::task::JoinHandle<Result<(), ServeError>> {
    tokio::spawn(serve_port_forward(io, protocol, ports, Arc::new(Ports), Limits::default()))
}

fn bytes(n: u32) -> Vec<u8> {
    (0..n).map(|n| n.to_le_bytes()[1]).collect()
}

/// Sends, ends its direction, and reads to the end.
async fn echo(forward: &PortForward, data: &[u8]) -> std::io::Result<Vec<u8>> {
    let connection = forward.connect(7).await.unwrap();
    let (mut read, mut write) = connection.split();
    let mut out = Vec::new();
    let sending = async {
        write.write_all(data).await?;
        write.close().await
    };
    let (sent, read) = tokio::join!(sending, read.read_to_end(&mut out));
    sent.and(read)?;
    Ok(out)
}

#[tokio::test(start_paused = true)]
async fn megabytes_come_back_intact_on_many_connections_at_once() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, PortForwardProtocol::Spdy, &[]);
    let forward = PortForward::over(ours);
    let data = bytes(2 << 20);
    assert!(echo(&forward, &data).await.unwrap() == data);
    let small = bytes(100_000);
    let all = join_all((0..50).map(|_| echo(&forward, &small))).await;
    assert!(all.into_iter().all(|out| out.unwrap() == small));
    drop(forward);
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_tunnel_carries_the_same() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, PortForwardProtocol::Tunnel, &[]);
    let forward = PortForward::over(ByteStream::new(ours, Role::Client).await);
    let data = bytes(1 << 20);
    assert!(echo(&forward, &data).await.unwrap() == data);
    drop(forward);
    let _ = served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_port_without_a_listener_is_told_and_ends_no_other() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let _served = serve(theirs, PortForwardProtocol::Spdy, &[]);
    let forward = PortForward::over(ours);
    let mut refused = forward.connect(8).await.unwrap();
    let error = refused.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.to_string(), "error forwarding port 8: connection refused");
    assert_eq!(echo(&forward, b"x").await.unwrap(), b"x");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_the_data_before_it_says_why_is_heard() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let mut server = Connection::new(theirs, Side::Server, Limits::default().idle);
    tokio::spawn(async move {
        let mut error = server.accept().await.unwrap();
        server.inner.orders.sender.send(Order::Accept(error.number)).await.unwrap();
        let mut data = server.accept().await.unwrap();
        server.inner.orders.sender.send(Order::Accept(data.number)).await.unwrap();
        data.writer.close().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        error.writer.write_all(b"failed to dial").await.unwrap();
        error.writer.close().await.unwrap();
        std::future::pending::<()>().await;
    });
    let forward = PortForward::over(ours);
    let mut connection = forward.connect(8).await.unwrap();
    let error = connection.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to dial");
}

#[tokio::test(start_paused = true)]
async fn a_port_that_nobody_reads_does_not_hold_up_the_others_at_once() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let _served = serve(theirs, PortForwardProtocol::Spdy, &[]);
    let forward = PortForward::over(ours);
    let mut stuck = forward.connect(9).await.unwrap();
    stuck.write_all(&bytes(300_000)).await.unwrap();
    assert_eq!(echo(&forward, b"x").await.unwrap(), b"x");
    drop(stuck);
    assert_eq!(echo(&forward, &bytes(200_000)).await.unwrap().len(), 200_000);
}

#[tokio::test(start_paused = true)]
async fn half_a_connection_is_given_up_in_time_and_a_wrong_one_refused_at_once() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let _served = serve(theirs, PortForwardProtocol::Spdy, &[]);
    let connection = Connection::new(ours, Side::Client, Duration::from_secs(10_000));
    let headers =
        |kind: &str, id: &str| Headers::default().with("streamType", kind).with("port", "7").with("requestID", id);
    let before = tokio::time::Instant::now();
    let (mut error, _writer) = connection.open(headers("error", "1")).await.unwrap();
    let mut words = String::new();
    error.read_to_string(&mut words).await.unwrap();
    assert_eq!(words, "request 1: timed out waiting for streams");
    assert_eq!(before.elapsed().as_secs(), 30);

    let (mut first, _w1) = connection.open(headers("error", "2")).await.unwrap();
    let (_second, _w2) = connection.open(headers("error", "2")).await.unwrap();
    words.clear();
    first.read_to_string(&mut words).await.unwrap();
    assert_eq!(words, "error processing stream for request 2: error stream already assigned");

    assert!(connection.open(headers("stdin", "3")).await.is_none());
    assert!(connection.open(Headers::default()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn channels_begin_with_their_port_and_end_with_the_ports_side() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, PortForwardProtocol::WebSocket { base64: false }, &[7, 8]);
    let mut socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(socket.next().await.unwrap().unwrap().into_data().to_vec());
    }
    seen.sort();
    assert_eq!(seen[..3], [vec![0, 7, 0], vec![1, 7, 0], vec![2, 8, 0]]);
    assert_eq!(seen[3], [3, 8, 0]);
    assert_eq!(seen[4], b"\x03error forwarding port 8: connection refused");
    socket.send(Message::binary(&b"\0abc"[..])).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary(&b"\0abc"[..]));
    socket.close(None).await.unwrap();
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_port_forward() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, PortForwardProtocol::Spdy, &[]);
    let _forward = PortForward::over(ours);
    assert!(matches!(served.await.unwrap(), Err(ServeError::Idle)));
}
