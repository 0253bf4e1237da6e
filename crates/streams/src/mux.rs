//! Streams over one connection, whichever protocol carries them: what a session holds, and what it orders.
//!
//! ```text
//! StreamWriter ──orders (bounded)──► a connection's writer ──► peer
//! peer ──► a connection's reader ──pieces, as far as the budget goes──► StreamReader
//! ```
//! Neither protocol has flow control, so back-pressure is the connection's: a peer that reads slowly fills the orders,
//! and a session that reads slowly uses up the [`BUDGET`] of unread bytes, after which the connection is not read until
//! some are. Nothing is buffered without bound.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::PollSender;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Ended;
use crate::spdy::{Headers, MOST_DATA};

/// Most bytes that a connection holds unread, over all its streams.
const BUDGET: usize = 1 << 20;
/// What a piece costs besides its bytes.
const PIECE: usize = 256;
/// Orders that wait to be written.
const ORDERS: usize = 8;
/// How often a peer that is not read is asked whether it is still there.
const ASK: Duration = Duration::from_secs(10);

/// What a session wants written.
#[derive(Debug)]
pub(crate) enum Order {
    /// A new stream; its number comes back, or nothing if there can't be one.
    Open { headers: Headers, inbox: Inbox, opened: oneshot::Sender<u32> },
    /// The peer's stream is wanted.
    Accept(u32),
    /// Bytes; none at all only where a protocol has a use for that.
    Data(u32, Bytes),
    /// Nothing more comes on this stream.
    Finish(u32),
    /// The stream is over.
    Abort(u32),
    /// A stream that never was one, and why, as SPDY numbers it.
    Refuse(u32, u32),
    /// Answers a ping.
    Pong(u32),
    /// Asks whether the peer is there.
    Ping,
    /// Writes what is ordered so far, says good-bye and closes.
    Close,
}

/// What arrives on a stream.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The peer accepted it.
    Accepted,
    /// Bytes, and their share of the budget.
    Data(Bytes, Option<OwnedSemaphorePermit>),
    /// The peer sends nothing more.
    End,
    /// It is over.
    Abort,
}

/// Where a connection puts what arrives on a stream.
#[derive(Debug, Clone)]
pub(crate) struct Inbox {
    pieces: mpsc::UnboundedSender<Piece>,
    aborted: Arc<AtomicBool>,
}

impl Inbox {
    /// A reader that is gone wants nothing.
    pub(crate) fn put(&self, piece: Piece) {
        if matches!(piece, Piece::Abort) {
            self.aborted.store(true, Ordering::Release);
        }
        let _ = self.pieces.send(piece);
    }
}

/// Both ends of what a session orders, and the aborts of streams that were dropped, which can't wait.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) aborts: mpsc::UnboundedReceiver<u32>,
}

impl Desk {
    /// The next order.
    pub(crate) async fn next(&mut self) -> Option<Order> {
        tokio::select! {
            biased;
            Some(stream) = self.aborts.recv() => Some(Order::Abort(stream)),
            order = self.orders.recv() => order,
        }
    }
}

/// Where sessions order.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub(crate) sender: mpsc::Sender<Order>,
    aborts: mpsc::UnboundedSender<u32>,
}

impl Orders {
    pub(crate) fn new() -> (Self, Desk) {
        let (sender, orders) = mpsc::channel(ORDERS);
        let (abort, aborts) = mpsc::unbounded_channel();
        (Self { sender, aborts: abort }, Desk { orders, aborts })
    }

    /// Both halves of a stream, and where its pieces go. The number of one that is opened here is told later.
    pub(crate) fn stream(&self, number: u32) -> (StreamReader, StreamWriter, Inbox) {
        let (reader, inbox) = Self::unnumbered();
        let (reader, writer) = self.number(reader, number);
        (reader, writer, inbox)
    }

    /// A stream that has no number yet.
    pub(crate) fn unnumbered() -> (Unnumbered, Inbox) {
        let (sender, pieces) = mpsc::unbounded_channel();
        let aborted = Arc::new(AtomicBool::new(false));
        (Unnumbered { pieces, aborted: aborted.clone() }, Inbox { pieces: sender, aborted })
    }

    /// It has one.
    pub(crate) fn number(&self, stream: Unnumbered, number: u32) -> (StreamReader, StreamWriter) {
        let whole = Arc::new(Whole {
            number,
            aborts: self.aborts.clone(),
            read: AtomicBool::new(false),
            written: AtomicBool::new(false),
        });
        let reader = StreamReader {
            pieces: stream.pieces,
            current: Bytes::new(),
            permit: None,
            state: Reading::Open,
            whole: whole.clone(),
        };
        let orders = PollSender::new(self.sender.clone());
        (reader, StreamWriter { orders, aborted: stream.aborted, whole })
    }
}

/// What a stream is until its number is known.
#[derive(Debug)]
pub(crate) struct Unnumbered {
    pieces: mpsc::UnboundedReceiver<Piece>,
    aborted: Arc<AtomicBool>,
}

/// A stream, seen from both halves: one that is dropped before both directions ended is aborted.
#[derive(Debug)]
struct Whole {
    number: u32,
    aborts: mpsc::UnboundedSender<u32>,
    read: AtomicBool,
    written: AtomicBool,
}

impl Drop for Whole {
    fn drop(&mut self) {
        if !(*self.read.get_mut() && *self.written.get_mut()) {
            let _ = self.aborts.send(self.number);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
    Broken,
}

/// What the peer sends on a stream. It reads as an error once the stream was aborted or the connection is gone.
#[derive(Debug)]
pub(crate) struct StreamReader {
    pieces: mpsc::UnboundedReceiver<Piece>,
    current: Bytes,
    permit: Option<OwnedSemaphorePermit>,
    state: Reading,
    whole: Arc<Whole>,
}

impl StreamReader {
    /// Waits for the peer's acceptance of a stream that was opened here.
    pub(crate) async fn accepted(&mut self) -> bool {
        matches!(self.pieces.recv().await, Some(Piece::Accepted))
    }

    /// Nobody reads it, and that aborts nothing.
    pub(crate) fn ignore(self) {
        self.whole.read.store(true, Ordering::Release);
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            if !this.current.is_empty() {
                let n = this.current.len().min(buffer.len());
                this.current.copy_to_slice(&mut buffer[..n]);
                if this.current.is_empty() {
                    this.permit = None;
                }
                return Poll::Ready(Ok(n));
            }
            match this.state {
                Reading::Open => {}
                Reading::Ended => return Poll::Ready(Ok(0)),
                Reading::Broken => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            }
            match ready!(this.pieces.poll_recv(context)) {
                Some(Piece::Accepted) => {}
                Some(Piece::Data(data, permit)) => (this.current, this.permit) = (data, permit),
                Some(Piece::End) => {
                    this.state = Reading::Ended;
                    this.whole.read.store(true, Ordering::Release);
                }
                Some(Piece::Abort) | None => this.state = Reading::Broken,
            }
        }
    }
}

/// What goes to the peer on a stream. Closing it is the end of this direction; dropping it unclosed aborts the stream.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    orders: PollSender<Order>,
    aborted: Arc<AtomicBool>,
    whole: Arc<Whole>,
}

impl StreamWriter {
    /// Room for one order.
    fn room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.aborted.load(Ordering::Acquire) || self.whole.written.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.orders.poll_reserve(context).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Uses it, in the same step: a slot that is kept is one that the other streams lack.
    fn order(&mut self, order: Order) -> io::Result<()> {
        self.orders.send_item(order).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends a message without bytes: the sign of life that WebSocket clients wait for.
    pub(crate) async fn announce(&mut self) -> io::Result<()> {
        let number = self.whole.number;
        std::future::poll_fn(|context| {
            ready!(self.room(context))?;
            Poll::Ready(self.order(Order::Data(number, Bytes::new())))
        })
        .await
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let this = self.get_mut();
        ready!(this.room(context))?;
        let data = &buffer[..buffer.len().min(MOST_DATA)];
        this.order(Order::Data(this.whole.number, Bytes::copy_from_slice(data)))?;
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.whole.written.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let done = ready!(this.room(context)).and_then(|()| this.order(Order::Finish(this.whole.number)));
        this.whole.written.store(true, Ordering::Release);
        Poll::Ready(done)
    }
}

/// The unread bytes of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }

    /// Waits until there is room for a piece of this length; asks the peer meanwhile whether it is still there.
    pub(crate) async fn room(&self, length: usize, orders: &Orders) -> Option<OwnedSemaphorePermit> {
        let cost = u32::try_from((length + PIECE).min(BUDGET)).unwrap_or(u32::MAX);
        loop {
            let room = self.0.clone().acquire_many_owned(cost);
            if let Ok(permit) = tokio::time::timeout(ASK, room).await {
                return permit.ok();
            }
            let _ = orders.sender.try_send(Order::Ping);
        }
    }
}

/// When something last went over a connection.
#[derive(Debug)]
pub(crate) struct Activity(watch::Sender<Instant>);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Instant::now()))
    }

    pub(crate) fn seen(&self) {
        self.0.send_replace(Instant::now());
    }

    /// Returns when nothing was seen for this long.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let until = *self.0.borrow() + limit;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A connection whose task runs. Dropping it closes it at once.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) orders: Orders,
    ended: watch::Receiver<Option<Ended>>,
    _task: AbortOnDropHandle<()>,
}

impl Connection {
    /// Runs a connection in a task of its own.
    pub(crate) fn spawn(orders: Orders, drive: impl Future<Output = Ended> + Send + 'static) -> Self {
        let (sender, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            let end = drive.await;
            sender.send_replace(Some(end));
        });
        Self { orders, ended, _task: AbortOnDropHandle::new(task) }
    }

    /// Waits for its end. Cancel-safe.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ended::Gone),
            Err(_) => Ended::Gone,
        }
    }

    /// Lets everything be written that was ordered, and closes.
    pub(crate) async fn close(self) -> Ended {
        let _ = self.orders.sender.send(Order::Close).await;
        self.ended().await
    }
}
