//! A session with a command or a container's program, over SPDY.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::io::{AsyncReadExt, AsyncWriteExt, empty};
use minke_core::runtime::{ExecControl, ExecSession, RuntimeError, TerminalSize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{ClientError, dial};
use crate::exec::{End, encode_size, parse_status};
use crate::mux::{self, StreamReader, StreamWriter};
use crate::negotiate::ExecStreams;
use crate::spdy::{Connection, Headers, Side};

/// What each kubelet and container runtime speaks since 2016.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// A server that has not accepted a stream by then does not.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server that closes for want of traffic does so earlier.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most that is read of a status.
const MOST_STATUS: u64 = 64 << 10;
const EXEC: &str = "exec";

/// Exec or attach at an `http` address on this machine: the address alone says which command or container it is.
/// Dropping the session closes the connection; what the server does then is the server's.
///
/// # Errors
/// Nobody is there, the server refuses, or it accepts no stream. What is wrong with the command comes as the session's end.
pub async fn exec(
    address: &str,
    streams: ExecStreams,
    first_size: Option<TerminalSize>,
) -> Result<ExecSession, ClientError> {
    exec_over(dial(address, PROTOCOL).await?, streams, first_size).await
}

/// The same on a connection that is upgraded to SPDY with version 4 of the protocol.
///
/// # Errors
/// As [`exec`].
pub async fn exec_over<IO>(
    io: IO,
    streams: ExecStreams,
    first_size: Option<TerminalSize>,
) -> Result<ExecSession, ClientError>
where
    IO: AsyncRead + AsyncWrite + Send + 'static,
{
    let connection = Connection::new(io, Side::Client, IDLE);
    let open = async |name: &'static str, wanted: bool| {
        if !wanted {
            return Ok(None);
        }
        let headers = Headers::default().with("streamType", name);
        match tokio::time::timeout(PATIENCE, connection.open(headers)).await {
            Ok(Some(halves)) => Ok(Some(halves)),
            Ok(None) | Err(_) => Err(ClientError::Stream(name)),
        }
    };
    // In upstream's order.
    let error = open("error", true).await?;
    let stdin = open("stdin", streams.stdin).await?;
    let stdout = open("stdout", streams.stdout).await?;
    let stderr = open("stderr", streams.stderr && !streams.tty).await?;
    let resize = open("resize", streams.tty).await?;
    let Some((error, error_writer)) = error else { return Err(ClientError::Stream("error")) };

    let mut unused = vec![error_writer];
    let mut reads = |stream: Option<(StreamReader, StreamWriter)>| {
        stream.map(|(reader, writer)| {
            unused.push(writer);
            reader
        })
    };
    let (stdout, stderr) = (reads(stdout), reads(stderr));
    let writes = |stream: Option<(StreamReader, StreamWriter)>| {
        stream.map(|(reader, writer)| {
            reader.ignore();
            writer
        })
    };
    let (stdin, mut resize) = (writes(stdin), writes(resize));
    if let (Some(size), Some(resize)) = (first_size, &mut resize) {
        let _ = resize.write_all(&encode_size(size)).await;
    }
    let (sender, end) = watch::channel(None);
    let watcher = tokio::spawn(async move {
        let mut status = Vec::new();
        // What was said before the connection went counts.
        let _ = error.take(MOST_STATUS).read_to_end(&mut status).await;
        sender.send_replace(Some(parse_status(&status)));
    });
    Ok(ExecSession {
        stdin: stdin.map(|stdin| Box::pin(stdin) as _),
        stdout: match stdout {
            Some(stdout) => Box::pin(stdout),
            None => Box::pin(empty()),
        },
        stderr: match (stderr, streams.tty) {
            (Some(stderr), _) => Some(Box::pin(stderr)),
            (None, true) => None,
            (None, false) => Some(Box::pin(empty())),
        },
        control: Box::new(Control {
            end,
            resize: Mutex::new(resize),
            _watcher: AbortOnDropHandle::new(watcher),
            _unused: unused,
            _connection: connection.inner,
        }),
    })
}

/// The end of a session and its terminal. It holds the connection.
#[derive(Debug)]
struct Control {
    end: watch::Receiver<Option<End>>,
    resize: Mutex<Option<StreamWriter>>,
    _watcher: AbortOnDropHandle<()>,
    /// Halves that nobody writes. A server takes the end of one for a client that wants no more.
    _unused: Vec<StreamWriter>,
    _connection: mux::Connection,
}

#[async_trait]
impl ExecControl for Control {
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError> {
        match &mut *self.resize.lock().await {
            Some(resize) => resize.write_all(&encode_size(size)).await.map_err(|e| RuntimeError::failed(EXEC, e)),
            None => Ok(()),
        }
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        let mut end = self.end.clone();
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match end {
            Some(End::Code(code)) => Ok(code),
            Some(End::Failed(failure)) => Err(RuntimeError::failed(EXEC, failure)),
            None => Err(RuntimeError::Unavailable { operation: EXEC, source: "the session is over".into() }),
        }
    }
}
