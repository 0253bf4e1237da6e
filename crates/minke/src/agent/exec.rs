//! A client whose connection carries the streams of a command, or of a container's own program.

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};
use futures_util::future::OptionFuture;
use futures_util::{AsyncReadExt, AsyncWriteExt};
use minke_core::identity::PodUid;
use minke_core::runtime::{AttachRequest, ExecControl, ExecRequest, ExecSession, RuntimeError, error_chain};
use minke_kubelet::{ExecError, Kubelet};

use crate::protocol::{Channel, ChannelError, Piece, PieceReader, PieceWriter, Reply, WINDOW};

/// Read at once from a command.
const CHUNK: usize = 16 << 10;

type Stdin = std::pin::Pin<Box<dyn futures_util::AsyncWrite + Send>>;
type Stdout = std::pin::Pin<Box<dyn futures_util::AsyncRead + Send>>;

/// Runs a command and carries its streams until it has ended, or the client goes, which kills it.
pub(super) async fn serve(
    channel: &mut Channel,
    kubelet: &Kubelet,
    uid: &PodUid,
    container: &str,
    request: &ExecRequest,
) -> Result<(), ChannelError> {
    carry(channel, kubelet.exec(uid, container, request)).await
}

/// Joins a program and carries its streams until it has ended, or the client goes, which leaves it running.
pub(super) async fn attach(
    channel: &mut Channel,
    kubelet: &Kubelet,
    uid: &PodUid,
    container: &str,
    request: AttachRequest,
) -> Result<(), ChannelError> {
    carry(channel, kubelet.attach(uid, container, request)).await
}

async fn carry(
    channel: &mut Channel,
    start: impl Future<Output = Result<ExecSession, ExecError>>,
) -> Result<(), ChannelError> {
    let started = tokio::select! {
        started = start => started,
        // A client that goes before its command runs wants none; one that talks out of turn is not one of ours.
        _ = channel.receive::<serde_json::Value>() => return Ok(()),
    };
    let session = match started {
        Ok(session) => session,
        Err(error) => return channel.send(&refusal(&error)).await,
    };
    channel.send(&Reply::Done).await?;
    let (reader, mut writer) = channel.pieces();
    let ExecSession { stdin, stdout, stderr, control } = session;
    let (taken, mut confirm) = tokio::sync::mpsc::unbounded_channel();
    let input = input(reader, stdin, &*control, taken);
    let output = async {
        let mut streams = Streams { stdout: Some(stdout), stderr };
        let mut confirming = true;
        loop {
            let piece = tokio::select! {
                piece = streams.next() => match piece {
                    Some(piece) => piece,
                    None => break,
                },
                count = confirm.recv(), if confirming => match count {
                    Some(count) => Piece::Taken(count),
                    None => {
                        confirming = false;
                        continue;
                    }
                },
            };
            writer.send(&piece).await?;
        }
        end(&mut writer, &*control).await
    };
    tokio::select! {
        done = output => done,
        gone = input => gone,
    }
}

pub(super) fn refusal(error: &ExecError) -> Reply {
    let exit_code = match error {
        ExecError::Runtime(RuntimeError::NotExecutable { exit_code, .. }) => u8::try_from(*exit_code).ok(),
        ExecError::UnknownPod(uid) => return Reply::UnknownPod(uid.clone()),
        ExecError::NotRunning(_) | ExecError::NoSandbox | ExecError::Runtime(_) => None,
    };
    let message = match error {
        ExecError::Runtime(RuntimeError::NotExecutable { message, .. }) => message.clone(),
        other => error_chain(other),
    };
    Reply::ExecRefused { exit_code, message }
}

async fn end(writer: &mut PieceWriter<'_>, control: &dyn ExecControl) -> Result<(), ChannelError> {
    let last = match control.wait().await {
        Ok(code) => Piece::Ended(u8::try_from(code).unwrap_or(u8::MAX)),
        // Over CRI this comes so late.
        Err(RuntimeError::NotExecutable { exit_code, message, .. }) => {
            writer.send(&Piece::Stderr(BytesMut::from(format!("{message}\n").as_bytes()))).await?;
            Piece::Ended(u8::try_from(exit_code).unwrap_or(u8::MAX))
        }
        Err(error) => Piece::Lost(error_chain(&error)),
    };
    writer.send(&last).await
}

/// What a command writes, whichever stream has something.
struct Streams {
    stdout: Option<Stdout>,
    stderr: Option<Stdout>,
}

impl Streams {
    /// The next piece; `None` when both have ended. Cancel-safe.
    async fn next(&mut self) -> Option<Piece> {
        let (mut out, mut err) = ([0; CHUNK], [0; CHUNK]);
        loop {
            if self.stdout.is_none() && self.stderr.is_none() {
                return None;
            }
            tokio::select! {
                Some(read) = OptionFuture::from(self.stdout.as_mut().map(|s| s.read(&mut out))) => match read {
                    Ok(n) if n > 0 => return Some(Piece::Stdout(BytesMut::from(&out[..n]))),
                    Ok(_) | Err(_) => self.stdout = None,
                },
                Some(read) = OptionFuture::from(self.stderr.as_mut().map(|s| s.read(&mut err))) => match read {
                    Ok(n) if n > 0 => return Some(Piece::Stderr(BytesMut::from(&err[..n]))),
                    Ok(_) | Err(_) => self.stderr = None,
                },
            }
        }
    }
}

/// Takes what the client sends. Returns when the client is gone.
async fn input(
    mut reader: PieceReader<'_>,
    mut stdin: Option<Stdin>,
    control: &dyn ExecControl,
    taken: tokio::sync::mpsc::UnboundedSender<u32>,
) -> Result<(), ChannelError> {
    let mut waiting: VecDeque<BytesMut> = VecDeque::new();
    let mut closing = false;
    loop {
        if waiting.is_empty() && closing {
            if let Some(mut stdin) = stdin.take() {
                // A command that reads no more is no fault of the client's.
                let _ = stdin.close().await;
            }
            closing = false;
        }
        let write = match (stdin.as_mut(), waiting.front()) {
            (Some(stdin), Some(front)) => Some(stdin.write(front)),
            _ => None,
        };
        tokio::select! {
            Some(written) = OptionFuture::from(write) => match written {
                Ok(n) if n > 0 => {
                    let _ = taken.send(u32::try_from(n).unwrap_or(u32::MAX));
                    if let Some(front) = waiting.front_mut() {
                        front.advance(n);
                        if front.is_empty() {
                            waiting.pop_front();
                        }
                    }
                }
                // It reads no more, though it may write.
                Ok(_) | Err(_) => {
                    stdin = None;
                    let dropped: usize = waiting.drain(..).map(|data| data.len()).sum();
                    let _ = taken.send(u32::try_from(dropped).unwrap_or(u32::MAX));
                }
            },
            piece = reader.receive() => match piece? {
                Piece::Stdin(data) if stdin.is_some() && !data.is_empty() => {
                    waiting.push_back(data);
                    if waiting.iter().map(BytesMut::len).sum::<usize>() > WINDOW {
                        return Err(ChannelError::Io(std::io::ErrorKind::InvalidData.into()));
                    }
                }
                Piece::Stdin(data) => {
                    let _ = taken.send(u32::try_from(data.len()).unwrap_or(u32::MAX));
                }
                Piece::StdinClosed => closing = true,
                Piece::Resize(size) => {
                    if let Err(error) = control.resize(size).await {
                        tracing::debug!(error = %error_chain(&error), "the terminal of a command keeps its size");
                    }
                }
                Piece::Stdout(_) | Piece::Stderr(_) | Piece::Ended(_) | Piece::Taken(_) | Piece::Lost(_) => {
                    return Err(ChannelError::Io(std::io::ErrorKind::InvalidData.into()));
                }
            },
        }
    }
}
