//! A SPDY connection that performs: bytes in, what the table says, bytes out. One task.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::frame::{Frame, Headers};
use super::table::{Action, CANCEL, MOST_STREAMS, Side, Table};
use super::{Decoder, Encoder};
use crate::error::Ended;
use crate::mux::{self, Activity, Budget, Desk, Inbox, Order, Orders, Piece, StreamReader, StreamWriter};

/// Read at once.
const CHUNK: usize = 32 << 10;
/// Orders are put together into writes of about this length.
const GATHER: usize = 64 << 10;
/// After good-bye, what the peer still sends is read for so long: closing on unread bytes would take from the peer what
/// it has not read yet.
const LINGER: Duration = Duration::from_secs(2);

/// A stream that the peer opened. It is neither accepted nor refused yet.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) number: u32,
    pub(crate) headers: Headers,
    pub(crate) reader: StreamReader,
    pub(crate) writer: StreamWriter,
}

/// A SPDY connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) inner: mux::Connection,
    streams: mpsc::Receiver<Accepted>,
}

impl Connection {
    /// Speaks SPDY over this; ends after `idle` without a byte.
    pub(crate) fn new<IO>(io: IO, side: Side, idle: Duration) -> Self
    where
        IO: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (orders, desk) = Orders::new();
        let (sender, streams) = mpsc::channel(MOST_STREAMS);
        let inner = mux::Connection::spawn(orders.clone(), drive(io, side, idle, orders, desk, sender));
        Self { inner, streams }
    }

    /// The next stream that the peer opens; `None` when the connection has ended. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> Option<Accepted> {
        self.streams.recv().await
    }

    /// Opens a stream and waits until the peer has accepted it; `None` if it does not.
    pub(crate) async fn open(&self, headers: Headers) -> Option<(StreamReader, StreamWriter)> {
        let orders = &self.inner.orders;
        let (stream, inbox) = Orders::unnumbered();
        let (opened, number) = oneshot::channel();
        orders.sender.send(Order::Open { headers, inbox, opened }).await.ok()?;
        // From here on, dropping this aborts the stream.
        let (mut reader, writer) = orders.number(stream, number.await.ok()?);
        reader.accepted().await.then_some((reader, writer))
    }
}

/// What both directions know.
#[derive(Debug)]
struct Book {
    table: Table,
    inboxes: HashMap<u32, Inbox>,
}

impl Book {
    /// Streams that are over have no readers.
    fn tidy(&mut self, stream: u32) {
        if !self.table.is_open(stream) {
            self.inboxes.remove(&stream);
        }
    }
}

#[derive(Debug)]
struct Shared(Mutex<Book>);

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn drive<IO>(
    io: IO,
    side: Side,
    limit: Duration,
    orders: Orders,
    mut desk: Desk,
    streams: mpsc::Sender<Accepted>,
) -> Ended
where
    IO: AsyncRead + AsyncWrite,
{
    let (mut read, mut write) = tokio::io::split(io);
    let shared = Arc::new(Shared(Mutex::new(Book { table: Table::new(side), inboxes: HashMap::new() })));
    let activity = Activity::new();
    let reading = reading(&mut read, &shared, &orders, &streams, &activity);
    let writing = writing(&mut write, &shared, side, &mut desk, &activity);
    let ended = tokio::select! {
        ended = reading => ended,
        ended = writing => ended,
        () = activity.idle(limit) => Ended::Idle,
    };
    if matches!(ended, Ended::Closed) {
        let mut rest = [0; 4096];
        let drain = async { while read.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
    ended
}

/// Takes in what the peer sends, as far as there is room for it.
async fn reading(
    read: &mut (impl AsyncRead + Unpin),
    shared: &Shared,
    orders: &Orders,
    streams: &mpsc::Sender<Accepted>,
    activity: &Activity,
) -> Ended {
    let mut decoder = Decoder::new();
    let budget = Budget::new();
    loop {
        let buffer = decoder.buffer();
        buffer.reserve(CHUNK);
        match read.read_buf(buffer).await {
            Ok(0) => return Ended::Gone,
            Ok(_) => activity.seen(),
            Err(e) => return broke(e),
        }
        loop {
            let frame = match decoder.frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return Ended::Frame(error),
            };
            let arrived = shared.book().table.arrived(frame);
            let actions = match arrived {
                Ok(actions) => actions,
                Err(violation) => return Ended::Violation(violation),
            };
            for action in actions {
                match action {
                    Action::Accept { stream, headers } => {
                        let (reader, writer, inbox) = orders.stream(stream);
                        shared.book().inboxes.insert(stream, inbox);
                        // One that finds no room is dropped, which aborts it.
                        let _ = streams.try_send(Accepted { number: stream, headers, reader, writer });
                    }
                    Action::Accepted { stream } => put(shared, stream, Piece::Accepted),
                    Action::Deliver { stream, data } => {
                        let permit = budget.room(data.len(), orders).await;
                        put(shared, stream, Piece::Data(data, permit));
                    }
                    Action::End { stream } => put(shared, stream, Piece::End),
                    Action::Abort { stream } => put(shared, stream, Piece::Abort),
                    Action::Send(frame) => {
                        let order = match frame {
                            Frame::Ping(id) => Order::Pong(id),
                            Frame::RstStream { stream, status } => Order::Refuse(stream, status),
                            Frame::SynStream { .. }
                            | Frame::SynReply { .. }
                            | Frame::Settings(_)
                            | Frame::GoAway { .. }
                            | Frame::Headers { .. }
                            | Frame::WindowUpdate { .. }
                            | Frame::Data { .. } => continue,
                        };
                        if orders.sender.send(order).await.is_err() {
                            return Ended::Gone;
                        }
                    }
                }
            }
        }
    }
}

fn put(shared: &Shared, stream: u32, piece: Piece) {
    let mut book = shared.book();
    if let Some(inbox) = book.inboxes.get(&stream) {
        inbox.put(piece);
    }
    book.tidy(stream);
}

fn broke(error: io::Error) -> Ended {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => Ended::Gone,
        _ => Ended::Io(Arc::new(error)),
    }
}

/// Writes what is ordered.
async fn writing(
    write: &mut (impl AsyncWrite + Unpin),
    shared: &Shared,
    side: Side,
    desk: &mut Desk,
    activity: &Activity,
) -> Ended {
    let mut encoder = match Encoder::new() {
        Ok(encoder) => encoder,
        Err(error) => return Ended::Frame(error),
    };
    let mut out = BytesMut::new();
    let mut pings = match side {
        Side::Client => 1,
        Side::Server => 2,
    };
    loop {
        let mut order = desk.next().await;
        if order.is_none() {
            return Ended::Gone;
        }
        let mut closing = false;
        while let Some(next) = order.take() {
            closing |= matches!(next, Order::Close);
            for frame in frames(next, &mut shared.book(), &mut pings) {
                if let Err(error) = encoder.encode(&frame, &mut out) {
                    return Ended::Frame(error);
                }
            }
            if !closing && out.len() < GATHER {
                order = desk.orders.try_recv().ok();
            }
        }
        let written = async {
            write.write_all(&out).await?;
            write.flush().await?;
            if closing { write.shutdown().await } else { Ok(()) }
        };
        if let Err(e) = written.await {
            return broke(e);
        }
        out.clear();
        activity.seen();
        if closing {
            return Ended::Closed;
        }
    }
}

/// The frames of an order, as far as its stream is still there.
fn frames(order: Order, book: &mut Book, pings: &mut u32) -> Vec<Frame> {
    let ping = |id| vec![Frame::Ping(id)];
    match order {
        Order::Open { headers, inbox, opened } => {
            // Whoever asked and is gone wants none.
            if opened.is_closed() {
                return Vec::new();
            }
            let Some(stream) = book.table.open() else { return Vec::new() };
            book.inboxes.insert(stream, inbox);
            let begin =
                Frame::SynStream { stream, associated: 0, priority: 0, fin: false, unidirectional: false, headers };
            if opened.send(stream).is_ok() {
                return vec![begin];
            }
            book.table.abort(stream);
            book.inboxes.remove(&stream);
            vec![begin, Frame::RstStream { stream, status: CANCEL }]
        }
        Order::Accept(stream) if book.table.is_open(stream) => {
            vec![Frame::SynReply { stream, fin: false, headers: Headers::default() }]
        }
        Order::Data(stream, data) if book.table.sends(stream) && !data.is_empty() => {
            vec![Frame::Data { stream, fin: false, data }]
        }
        Order::Accept(_) | Order::Data(..) => Vec::new(),
        Order::Finish(stream) => {
            let sent = book.table.finish(stream);
            book.tidy(stream);
            if sent { vec![Frame::Data { stream, fin: true, data: Bytes::new() }] } else { Vec::new() }
        }
        Order::Abort(stream) => {
            let sent = book.table.abort(stream);
            book.inboxes.remove(&stream);
            if sent { vec![Frame::RstStream { stream, status: CANCEL }] } else { Vec::new() }
        }
        Order::Refuse(stream, status) => vec![Frame::RstStream { stream, status }],
        Order::Pong(id) => ping(id),
        Order::Ping => {
            let id = *pings;
            *pings = pings.wrapping_add(2);
            ping(id)
        }
        Order::Close => vec![Frame::GoAway { last: book.table.last(), status: 0 }],
    }
}
