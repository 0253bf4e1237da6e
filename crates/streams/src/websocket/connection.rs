//! A WebSocket connection with numbered channels. One task.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::channel::{Codec, Word};
use crate::error::Ended;
use crate::mux::{self, Activity, Budget, Desk, Inbox, Order, Orders, Piece, StreamReader, StreamWriter};

/// What the peer still sends after good-bye is read for so long.
const LINGER: Duration = Duration::from_secs(2);

/// Both directions of one channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) reader: StreamReader,
    pub(crate) writer: StreamWriter,
}

/// A connection with numbered channels; [`Opening::channel`] makes them before it runs.
#[derive(Debug)]
pub(crate) struct Opening {
    orders: Orders,
    desk: Desk,
    inboxes: HashMap<u8, Inbox>,
}

impl Opening {
    pub(crate) fn new() -> Self {
        let (orders, desk) = Orders::new();
        Self { orders, desk, inboxes: HashMap::new() }
    }

    pub(crate) fn channel(&mut self, number: u8) -> Channel {
        let (reader, writer, inbox) = self.orders.stream(u32::from(number));
        self.inboxes.insert(number, inbox);
        Channel { reader, writer }
    }

    /// Runs it over a connection whose WebSocket handshake is done.
    pub(crate) fn run<IO>(self, io: IO, role: Role, codec: Codec, idle: Duration) -> mux::Connection
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { orders, desk, inboxes } = self;
        mux::Connection::spawn(orders.clone(), drive(io, role, codec, idle, orders, desk, inboxes))
    }
}

async fn drive<IO>(
    io: IO,
    role: Role,
    codec: Codec,
    limit: Duration,
    orders: Orders,
    mut desk: Desk,
    inboxes: HashMap<u8, Inbox>,
) -> Ended
where
    IO: AsyncRead + AsyncWrite + Send + Unpin,
{
    let socket = WebSocketStream::from_raw_socket(io, role, Some(super::config())).await;
    let (mut sink, mut stream) = socket.split();
    let activity = Activity::new();
    let ended = tokio::select! {
        ended = reading(&mut stream, codec, &inboxes, &orders, &activity) => ended,
        ended = writing(&mut sink, codec, &mut desk, &activity) => ended,
        () = activity.idle(limit) => Ended::Idle,
    };
    if matches!(ended, Ended::Closed) {
        let drain = async { while stream.next().await.is_some_and(|message| message.is_ok()) {} };
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
    ended
}

async fn reading<IO>(
    stream: &mut SplitStream<WebSocketStream<IO>>,
    codec: Codec,
    inboxes: &HashMap<u8, Inbox>,
    orders: &Orders,
    activity: &Activity,
) -> Ended
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let budget = Budget::new();
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return broke(error),
            None => return Ended::Gone,
        };
        activity.seen();
        match codec.decode(message) {
            Word::Data(channel, data) => {
                // A channel that nobody has is ignored, as upstream.
                let Some(inbox) = inboxes.get(&channel).filter(|_| !data.is_empty()) else { continue };
                let permit = budget.room(data.len(), orders).await;
                inbox.put(Piece::Data(data, permit));
            }
            Word::End(channel) => {
                if let Some(inbox) = inboxes.get(&channel) {
                    inbox.put(Piece::End);
                }
            }
            Word::Close => return Ended::Gone,
            Word::Nothing => {}
        }
    }
}

async fn writing<IO>(
    sink: &mut SplitSink<WebSocketStream<IO>, Message>,
    codec: Codec,
    desk: &mut Desk,
    activity: &Activity,
) -> Ended
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let number = |stream: u32| u8::try_from(stream).unwrap_or(u8::MAX);
        let message = match desk.next().await {
            Some(Order::Data(stream, data)) => Some(codec.encode(number(stream), &data)),
            Some(Order::Finish(stream)) => codec.end(number(stream)),
            Some(Order::Ping) => Some(Message::Ping(bytes::Bytes::new())),
            Some(Order::Close) => {
                let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                return match sink.send(Message::Close(Some(normal))).await {
                    Ok(()) => Ended::Closed,
                    Err(error) => broke(error),
                };
            }
            // Channels are neither opened nor aborted, and pings are answered by the library.
            Some(Order::Open { .. } | Order::Accept(_) | Order::Abort(_) | Order::Refuse(..) | Order::Pong(_)) => None,
            None => return Ended::Gone,
        };
        if let Some(message) = message {
            if let Err(error) = sink.send(message).await {
                return broke(error);
            }
            activity.seen();
        }
    }
}

fn broke(error: Error) -> Ended {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => Ended::Gone,
        Error::Protocol(tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Ended::Gone
        }
        Error::Io(e) if matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) => {
            Ended::Gone
        }
        Error::Io(e) => Ended::Io(Arc::new(e)),
        other => Ended::WebSocket(Arc::new(other)),
    }
}
