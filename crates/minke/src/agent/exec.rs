//! A client whose connection carries the streams of a command, or of a container's own program.

use bytes::BytesMut;
use futures_util::AsyncReadExt;
use futures_util::future::OptionFuture;
use minke_core::identity::PodUid;
use minke_core::runtime::{AttachRequest, ExecControl, ExecRequest, ExecSession, RuntimeError, error_chain};
use minke_kubelet::{ExecError, Kubelet};

use super::input;
use crate::protocol::{Channel, ChannelError, Piece, PieceWriter, Reply};

/// Read at once from a command.
const CHUNK: usize = 16 << 10;

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
    let input = input::carry(reader, stdin, Some(&*control), taken);
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
