//! The streams of a remote command, whichever protocol carries them.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::error::{Limits, ServeError};
use crate::mux::{Connection, Order, StreamReader, StreamWriter};
use crate::negotiate::{ExecProtocol, ExecStreams, Version};
use crate::spdy::{self, Accepted, Side};
use crate::websocket::{Channel, Codec, Opening};

/// The streams of a command, all there.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) version: Version,
    pub(super) stdin: Option<StreamReader>,
    pub(super) stdout: Option<StreamWriter>,
    pub(super) stderr: Option<StreamWriter>,
    pub(super) resize: Option<StreamReader>,
    pub(super) error: StreamWriter,
    /// The other halves of streams that only the client writes. Closing one makes clients end their input, so they stay
    /// open until the session has ended.
    pub(super) idle: Vec<StreamWriter>,
    pub(super) connection: Connection,
    /// Whether these are channels of WebSocket, whose clients wait for a first message.
    pub(super) channels: bool,
}

/// What a stream of a command is for, by SPDY's header `streamType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
}

impl Purpose {
    fn of(header: &str) -> Option<Self> {
        Some(match header {
            "stdin" => Self::Stdin,
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            "error" => Self::Error,
            "resize" => Self::Resize,
            _ => return None,
        })
    }

    fn wanted(self, streams: ExecStreams, version: Version) -> bool {
        match self {
            Self::Stdin => streams.stdin,
            Self::Stdout => streams.stdout,
            Self::Stderr => streams.stderr && !streams.tty,
            Self::Error => true,
            Self::Resize => streams.tty && version >= Version::V3,
        }
    }
}

const ALL: [Purpose; 5] = [Purpose::Stdin, Purpose::Stdout, Purpose::Stderr, Purpose::Error, Purpose::Resize];

/// Waits for the streams of a command.
pub(super) async fn open<IO>(
    io: IO,
    protocol: ExecProtocol,
    streams: ExecStreams,
    limits: Limits,
) -> Result<Wire, ServeError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    match protocol {
        ExecProtocol::Spdy(version) => {
            let connection = spdy::Connection::new(io, Side::Server, limits.idle);
            match tokio::time::timeout(limits.creation, gather(connection, version, streams)).await {
                Ok(wire) => wire,
                Err(_) => Err(ServeError::Creation),
            }
        }
        ExecProtocol::WebSocket { version, base64 } => {
            let codec = Codec { base64, closes: version >= Version::V5 };
            Ok(over_channels(io, codec, version, streams, limits))
        }
    }
}

/// The client opens each stream that it asked for; others are refused.
async fn gather(mut connection: spdy::Connection, version: Version, streams: ExecStreams) -> Result<Wire, ServeError> {
    let wanted: Vec<Purpose> = ALL.into_iter().filter(|p| p.wanted(streams, version)).collect();
    let mut found: Vec<(Purpose, StreamReader, StreamWriter)> = Vec::new();
    while found.len() < wanted.len() {
        let Some(stream) = connection.accept().await else {
            let ended = connection.inner.ended().await;
            return Err(ended.served().err().unwrap_or(ServeError::Gone));
        };
        let Accepted { number, headers, reader, writer } = stream;
        let purpose = headers.get("streamType").and_then(Purpose::of);
        let Some(purpose) = purpose.filter(|p| wanted.contains(p) && found.iter().all(|(f, ..)| f != p)) else {
            tracing::debug!(kind = headers.get("streamType"), "a stream that a command has no use for is refused");
            continue;
        };
        if connection.inner.orders.sender.send(Order::Accept(number)).await.is_err() {
            return Err(ServeError::Gone);
        }
        found.push((purpose, reader, writer));
    }
    let (mut stdin, mut stdout, mut stderr, mut error, mut resize) = (None, None, None, None, None);
    let mut idle = Vec::new();
    for (purpose, reader, writer) in found {
        match purpose {
            Purpose::Stdin | Purpose::Resize => {
                idle.push(writer);
                if purpose == Purpose::Stdin { stdin = Some(reader) } else { resize = Some(reader) }
            }
            Purpose::Stdout | Purpose::Stderr | Purpose::Error => {
                reader.ignore();
                match purpose {
                    Purpose::Stdout => stdout = Some(writer),
                    Purpose::Stderr => stderr = Some(writer),
                    Purpose::Stdin | Purpose::Error | Purpose::Resize => error = Some(writer),
                }
            }
        }
    }
    let Some(error) = error else { return Err(ServeError::Creation) };
    Ok(Wire { version, stdin, stdout, stderr, resize, error, idle, connection: connection.inner, channels: false })
}

/// Channels 0 to 4: standard input, output, error, the status, the terminal's size.
fn over_channels<IO>(io: IO, codec: Codec, version: Version, streams: ExecStreams, limits: Limits) -> Wire
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut opening = Opening::new();
    let [stdin, stdout, stderr, error, resize] = [0, 1, 2, 3, 4].map(|number| opening.channel(number));
    let connection = opening.run(io, Role::Server, codec, limits.idle);
    // A channel is not aborted by being dropped: it has no life of its own.
    let reads = |channel: Channel, wanted: bool| wanted.then_some(channel.reader);
    let writes = |channel: Channel, wanted: bool| wanted.then_some(channel.writer);
    let of = |purpose: Purpose| purpose.wanted(streams, version);
    Wire {
        version,
        stdin: reads(stdin, of(Purpose::Stdin)),
        stdout: writes(stdout, of(Purpose::Stdout)),
        stderr: writes(stderr, of(Purpose::Stderr)),
        resize: reads(resize, streams.tty),
        error: error.writer,
        idle: Vec::new(),
        connection,
        channels: true,
    }
}
