//! Carrying a session's streams over its wire until its end.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::OptionFuture;
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use minke_core::runtime::{ExecControl, ExecSession, error_chain};

use super::resize::Sizes;
use super::status::{self, End};
use super::wire::Wire;
use crate::error::{Failure, ServeError};
use crate::mux::{StreamReader, StreamWriter};

/// kubectl 1.31 to 1.33 throws away what comes over WebSocket before it has taken up its channels, which it does at once
/// (<https://github.com/kubernetes/kubernetes/pull/131203>): what a command says sooner than that would be lost.
const TAKEN_UP: Duration = Duration::from_millis(20);
/// Read at once.
const CHUNK: usize = 32 << 10;

/// Starts the session, carries it, tells its end and closes.
pub(super) async fn serve(
    wire: Wire,
    start: impl Future<Output = Result<ExecSession, Failure>> + Send,
) -> Result<(), ServeError> {
    let Wire { version, stdin, mut stdout, mut stderr, resize, mut error, idle, channels, connection } = wire;
    let session = async {
        let ready = async {
            if channels {
                tokio::time::sleep(TAKEN_UP).await;
                // Clients wait for a message on the lowest channel that they read.
                let first = stdout.as_mut().or(stderr.as_mut()).unwrap_or(&mut error);
                let _ = first.announce().await;
            }
        };
        let (started, ()) = tokio::join!(start, ready);
        let end = match started {
            Ok(session) => carry(session, stdin, stdout, stderr, resize).await,
            Err(failure) => End::Failed(failure),
        };
        // A client that reads no status any more has closed everything else as well, or is about to.
        let _ = error.write_all(&status::encode(&end, version)).await;
        let _ = error.close().await;
        for mut stream in idle {
            let _ = stream.close().await;
        }
    };
    let gone = tokio::select! {
        () = session => None,
        ended = connection.ended() => Some(ended),
    };
    match gone {
        Some(ended) => ended.served(),
        None => connection.close().await.served(),
    }
}

async fn carry(
    session: ExecSession,
    from_client: Option<StreamReader>,
    to_stdout: Option<StreamWriter>,
    to_stderr: Option<StreamWriter>,
    sizes: Option<StreamReader>,
) -> End {
    let ExecSession { stdin, stdout, stderr, control } = session;
    let out = async {
        let stderr = OptionFuture::from(stderr.map(|stderr| output(stderr, to_stderr)));
        tokio::join!(output(stdout, to_stdout), stderr);
        match control.wait().await {
            Ok(code) => End::Code(code),
            Err(error) => End::Failed(Failure::new(error_chain(&error))),
        }
    };
    let input = async {
        match (stdin, from_client) {
            (Some(stdin), Some(from)) => input(from, stdin).await,
            (_, Some(from)) => from.ignore(),
            (_, None) => {}
        }
    };
    let resizing = async {
        if let Some(sizes) = sizes {
            resize(sizes, &*control).await;
        }
    };
    // The output's end is the session's; the input may end long before, or never.
    tokio::select! {
        end = out => end,
        end = async {
            tokio::join!(input, resizing);
            std::future::pending().await
        } => end,
    }
}

/// What the command writes goes to the client; to nobody if the client does not want it, or not any more: the command
/// must not stand still for that.
async fn output(mut from: Pin<Box<dyn AsyncRead + Send>>, mut to: Option<StreamWriter>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => {
                if let Some(client) = &mut to
                    && client.write_all(&buffer[..n]).await.is_err()
                {
                    to = None;
                }
            }
        }
    }
    if let Some(mut to) = to {
        let _ = to.close().await;
    }
}

/// What the client sends goes to the command; its end is the end of input. A command that reads no more is no fault.
async fn input(mut from: StreamReader, mut to: Pin<Box<dyn AsyncWrite + Send>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => {
                if to.write_all(&buffer[..n]).await.is_err() || to.flush().await.is_err() {
                    from.ignore();
                    break;
                }
            }
        }
    }
    let _ = to.close().await;
}

/// The terminal takes each size, until the client sends none any more.
async fn resize(mut from: StreamReader, control: &dyn ExecControl) {
    let mut sizes = Sizes::default();
    let mut buffer = [0; 512];
    while let Ok(n) = from.read(&mut buffer).await {
        if n == 0 {
            return;
        }
        match sizes.feed(&buffer[..n]) {
            Ok(Some(size)) => {
                if let Err(error) = control.resize(size).await {
                    tracing::debug!(error = %error_chain(&error), "a terminal keeps its size");
                }
            }
            Ok(None) => {}
            Err(_) => return from.ignore(),
        }
    }
}
