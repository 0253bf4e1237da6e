//! What a client sends to a command, a container's program or a port: never more on its way than its window.

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::{Buf, BytesMut};
use futures_util::future::OptionFuture;
use futures_util::{AsyncWrite, AsyncWriteExt};
use minke_core::runtime::{ExecControl, error_chain};
use tokio::sync::mpsc;

use crate::protocol::{ChannelError, Piece, PieceReader, WINDOW};

/// Where it goes.
pub(super) type Sink = Pin<Box<dyn AsyncWrite + Send>>;

/// Takes what the client sends, and confirms what was taken. A sink that takes no more is no fault of the client's: what is
/// sent to it is dropped, and the other direction goes on. Without a `control` there is no terminal whose size could change.
/// Returns when the client is gone or talks out of turn.
pub(super) async fn carry(
    mut reader: PieceReader<'_>,
    mut sink: Option<Sink>,
    control: Option<&dyn ExecControl>,
    taken: mpsc::UnboundedSender<u32>,
) -> Result<(), ChannelError> {
    let wrong = || ChannelError::Io(std::io::ErrorKind::InvalidData.into());
    let confirm = |bytes: usize| {
        let _ = taken.send(u32::try_from(bytes).unwrap_or(u32::MAX));
    };
    let mut waiting: VecDeque<BytesMut> = VecDeque::new();
    let (mut unflushed, mut closing) = (false, false);
    loop {
        if waiting.is_empty() && closing {
            if let Some(mut sink) = sink.take() {
                let _ = sink.close().await;
            }
            closing = false;
        }
        let step = match (sink.as_mut(), waiting.front()) {
            (Some(sink), front) if front.is_some() || unflushed => Some(step(sink, front)),
            _ => None,
        };
        tokio::select! {
            Some(done) = OptionFuture::from(step) => match done {
                Step::Wrote(n) => {
                    confirm(n);
                    unflushed = true;
                    if let Some(front) = waiting.front_mut() {
                        front.advance(n);
                        if front.is_empty() {
                            waiting.pop_front();
                        }
                    }
                }
                Step::Flushed => unflushed = false,
                Step::Refused => {
                    sink = None;
                    confirm(waiting.drain(..).map(|data| data.len()).sum());
                }
            },
            piece = reader.receive() => match piece? {
                Piece::Stdin(data) if sink.is_some() && !data.is_empty() => {
                    waiting.push_back(data);
                    if waiting.iter().map(BytesMut::len).sum::<usize>() > WINDOW {
                        return Err(wrong());
                    }
                }
                Piece::Stdin(data) => confirm(data.len()),
                Piece::StdinClosed => closing = true,
                Piece::Resize(size) => {
                    let Some(control) = control else { return Err(wrong()) };
                    if let Err(error) = control.resize(size).await {
                        tracing::debug!(error = %error_chain(&error), "the terminal of a command keeps its size");
                    }
                }
                Piece::Stdout(_) | Piece::Stderr(_) | Piece::Ended(_) | Piece::Taken(_) | Piece::Lost(_) => {
                    return Err(wrong());
                }
            },
        }
    }
}

/// What a sink did.
enum Step {
    Wrote(usize),
    Flushed,
    /// It takes no more.
    Refused,
}

/// Writes what comes next, or flushes what was written. Dropped in between, nothing is lost and nothing written twice.
async fn step(sink: &mut Sink, front: Option<&BytesMut>) -> Step {
    match front {
        Some(front) => match sink.write(front).await {
            Ok(n) if n > 0 => Step::Wrote(n),
            Ok(_) | Err(_) => Step::Refused,
        },
        None => match sink.flush().await {
            Ok(()) => Step::Flushed,
            Err(_) => Step::Refused,
        },
    }
}
