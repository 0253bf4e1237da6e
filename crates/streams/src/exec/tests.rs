//! Whole sessions over connections in memory, time paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt};
use minke_core::runtime::{ExecControl, RuntimeError, TerminalSize};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::*;
use crate::client::exec_over;
use crate::negotiate::Version;

struct Control {
    code: i32,
    sizes: mpsc::UnboundedSender<TerminalSize>,
    ends: bool,
    dropped: Arc<AtomicBool>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl ExecControl for Control {
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError> {
        let _ = self.sizes.send(size);
        Ok(())
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        if self.ends { Ok(self.code) } else { std::future::pending().await }
    }
}

/// A command that writes what it reads, and `err` at the end of its input.
struct Cat {
    session: ExecSession,
    sizes: mpsc::UnboundedReceiver<TerminalSize>,
    dropped: Arc<AtomicBool>,
}

fn cat(code: i32) -> Cat {
    let (stdin, mut reads) = tokio::io::duplex(4096);
    let (mut writes, stdout) = tokio::io::duplex(4096);
    let (mut errs, stderr) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut reads, &mut writes).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut errs, b"err").await;
    });
    let (sender, sizes) = mpsc::unbounded_channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let control = Control { code, sizes: sender, ends: true, dropped: dropped.clone() };
    let session = ExecSession {
        stdin: Some(Box::pin(stdin.compat_write())),
        stdout: Box::pin(stdout.compat()),
        stderr: Some(Box::pin(stderr.compat())),
        control: Box::new(control),
    };
    Cat { session, sizes, dropped }
}

const ALL: ExecStreams = ExecStreams { stdin: true, stdout: true, stderr: true, tty: false };
const SPDY: ExecProtocol = ExecProtocol::Spdy(Version::V4);

fn serve(
    io: DuplexStream,
    protocol: ExecProtocol,
    streams: ExecStreams,
    session: Result<ExecSession, Failure>,
) -> tokio::task::JoinHandle<Result<(), ServeError>> {
    tokio::spawn(serve_exec(io, protocol, streams, async { session }, Limits::default()))
}

async fn read_all(stream: &mut (impl futures_util::AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all
}

#[tokio::test(start_paused = true)]
async fn megabytes_go_through_spdy_and_the_code_comes_back() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, SPDY, ALL, Ok(cat(7).session));
    let ExecSession { stdin, mut stdout, stderr, control } = exec_over(ours, ALL, None).await.unwrap();
    let data: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let (mut stdin, mut stderr) = (stdin.unwrap(), stderr.unwrap());
    let write = async {
        stdin.write_all(&data).await.unwrap();
        stdin.close().await.unwrap();
    };
    let ((), out, err) = tokio::join!(write, read_all(&mut stdout), read_all(&mut stderr));
    assert!(out == data);
    assert_eq!(err, b"err");
    assert_eq!((control.wait().await.unwrap(), control.wait().await.unwrap()), (7, 7));
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_that_could_not_start_is_told() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, SPDY, ALL, Err(Failure::new("exec: \"x\": executable file not found in $PATH")));
    let session = exec_over(ours, ALL, None).await.unwrap();
    let error = minke_core::runtime::error_chain(&session.control.wait().await.unwrap_err());
    assert!(error.contains("error executing command in container: exec: \"x\": executable file not found"), "{error}");
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_drops_the_session() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let cat = cat(0);
    let dropped = cat.dropped.clone();
    let served = serve(theirs, SPDY, ALL, Ok(cat.session));
    let session = exec_over(ours, ALL, None).await.unwrap();
    drop(session);
    assert!(matches!(served.await.unwrap(), Err(ServeError::Gone)));
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_while_the_command_starts_ends_the_start() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = tokio::spawn(serve_exec(theirs, SPDY, ALL, std::future::pending(), Limits::default()));
    drop(exec_over(ours, ALL, None).await.unwrap());
    assert!(matches!(served.await.unwrap(), Err(ServeError::Gone)));
}

#[tokio::test(start_paused = true)]
async fn streams_that_never_come_and_silence_end_a_session() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, SPDY, ALL, Ok(cat(0).session));
    let fewer = ExecStreams { stderr: false, ..ALL };
    let _half = exec_over(ours, fewer, None).await.unwrap();
    assert!(matches!(served.await.unwrap(), Err(ServeError::Creation)));

    let (ours, theirs) = tokio::io::duplex(10_000);
    let before = tokio::time::Instant::now();
    let served = serve(theirs, SPDY, ALL, Ok(cat(0).session));
    let _quiet = exec_over(ours, ALL, None).await.unwrap();
    assert!(matches!(served.await.unwrap(), Err(ServeError::Idle)));
    assert_eq!(before.elapsed().as_secs() / 3600, 4);
}

#[tokio::test(start_paused = true)]
async fn r18_a_terminal_follows_the_clients_size_and_sizes_end_with_the_client() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let mut cat = cat(0);
    let streams = ExecStreams { stdin: true, stdout: true, stderr: false, tty: true };
    cat.session.stderr = None;
    let served = serve(theirs, SPDY, streams, Ok(cat.session));
    let size = |width, height| TerminalSize { width, height };
    let session = exec_over(ours, streams, Some(size(100, 30))).await.unwrap();
    assert_eq!(cat.sizes.recv().await, Some(size(100, 30)));
    session.control.resize(size(90, 20)).await.unwrap();
    assert_eq!(cat.sizes.recv().await, Some(size(90, 20)));
    let ExecSession { stdin, control, .. } = session;
    drop(stdin);
    drop(control);
    let _ = served.await.unwrap();
    assert_eq!(cat.sizes.recv().await, None, "no empty sizes follow");
}

/// Counts what is taken from it, and never ends.
struct Endless(Arc<AtomicUsize>);

impl futures_util::AsyncRead for Endless {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut [u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.fetch_add(buffer.len(), Ordering::SeqCst);
        std::task::Poll::Ready(Ok(buffer.len()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_stops_the_command() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let taken = Arc::new(AtomicUsize::new(0));
    let mut cat = cat(0);
    cat.session.stdout = Box::pin(Endless(taken.clone()));
    let _served = serve(theirs, SPDY, ALL, Ok(cat.session));
    let session = exec_over(ours, ALL, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stuck = taken.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(taken.load(Ordering::SeqCst), stuck);
    assert!(stuck < 4 << 20, "{stuck} bytes are held");
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_read_stops_the_client_and_its_going_is_noticed() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let mut cat = cat(0);
    // Nobody reads the other end, and the command does not end.
    let (stdin, _unread) = tokio::io::duplex(64);
    let (_quiet, stdout) = tokio::io::duplex(64);
    cat.session.stdin = Some(Box::pin(stdin.compat_write()));
    cat.session.stdout = Box::pin(stdout.compat());
    let served = serve(theirs, SPDY, ALL, Ok(cat.session));
    let mut session = exec_over(ours, ALL, None).await.unwrap();
    let mut sent = 0;
    let stdin = session.stdin.as_mut().unwrap();
    while let Ok(Ok(n)) = tokio::time::timeout(Duration::from_secs(1), stdin.write(&[0; 32 << 10])).await {
        sent += n;
    }
    assert!(sent < 4 << 20, "{sent} bytes are held");
    drop(session);
    assert!(matches!(served.await.unwrap(), Err(ServeError::Gone)));
}

async fn websocket(io: DuplexStream) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

async fn message(socket: &mut WebSocketStream<DuplexStream>) -> Message {
    socket.next().await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn websocket_5_has_channels_and_the_end_of_input() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let served =
        serve(theirs, ExecProtocol::WebSocket { version: Version::V5, base64: false }, ALL, Ok(cat(7).session));
    let mut socket = websocket(ours).await;
    assert_eq!(message(&mut socket).await, Message::binary(vec![1]), "a sign of life on the lowest channel");
    socket.send(Message::binary(&b"\0abc"[..])).await.unwrap();
    assert_eq!(message(&mut socket).await, Message::binary(&b"\x01abc"[..]));
    socket.send(Message::binary(vec![255, 0])).await.unwrap();
    let mut rest = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        rest.push(message);
    }
    assert!(rest.contains(&Message::binary(&b"\x02err"[..])), "{rest:?}");
    let status = rest.iter().find(|m| matches!(m, Message::Binary(b) if b.first() == Some(&3))).unwrap();
    assert_eq!(parse_status(&status.clone().into_data()[1..]), End::Code(7));
    assert!(rest.iter().any(|m| matches!(m, Message::Close(Some(frame)) if u16::from(frame.code) == 1000)), "{rest:?}");
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn websocket_1_in_base64_says_only_failures_in_words() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let streams = ExecStreams { stderr: true, ..ExecStreams::default() };
    let failed = Err(Failure::new("no"));
    let served = serve(theirs, ExecProtocol::WebSocket { version: Version::V1, base64: true }, streams, failed);
    let mut socket = websocket(ours).await;
    assert_eq!(message(&mut socket).await, Message::text("2"));
    let words = STANDARD.encode("Internal error occurred: error executing command in container: no");
    assert_eq!(message(&mut socket).await, Message::text(format!("3{words}")));
    drop(socket);
    let _ = served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn websocket_nonsense_ends_the_session_and_nothing_else() {
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]]
    {
        let (mut ours, theirs) = tokio::io::duplex(10_000);
        let served =
            serve(theirs, ExecProtocol::WebSocket { version: Version::V4, base64: false }, ALL, Ok(cat(0).session));
        tokio::io::AsyncWriteExt::write_all(&mut ours, bytes).await.unwrap();
        assert!(served.await.unwrap().is_err());
    }
    let (mut ours, theirs) = tokio::io::duplex(10_000);
    let served = serve(theirs, SPDY, ALL, Ok(cat(0).session));
    tokio::io::AsyncWriteExt::write_all(&mut ours, b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut ours).await.unwrap();
    assert!(served.await.unwrap().is_err());
}
