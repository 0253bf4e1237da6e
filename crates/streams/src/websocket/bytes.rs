//! One stream of bytes in WebSocket messages, however those are cut: the tunnel that carries SPDY.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Most bytes of one message.
const MOST: usize = 32 << 10;

/// The stream.
#[derive(Debug)]
pub(crate) struct ByteStream<IO> {
    socket: WebSocketStream<IO>,
    current: Bytes,
}

impl<IO> ByteStream<IO>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin,
{
    /// Over a connection whose handshake is done.
    pub(crate) async fn new(io: IO, role: Role) -> Self {
        let socket = WebSocketStream::from_raw_socket(io, role, Some(super::config())).await;
        Self { socket, current: Bytes::new() }
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        other => io::Error::other(other),
    }
}

impl<IO> AsyncRead for ByteStream<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.current.is_empty() {
            match ready!(Pin::new(&mut this.socket).poll_next(context)) {
                Some(Ok(Message::Binary(data))) => this.current = data,
                Some(Ok(Message::Text(_))) => {
                    let text = "a text message in a stream of bytes";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
            }
        }
        let n = this.current.len().min(buffer.remaining());
        buffer.put_slice(&this.current[..n]);
        this.current.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<IO> AsyncWrite for ByteStream<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.get_mut().socket);
        ready!(socket.as_mut().poll_ready(context)).map_err(io_error)?;
        let n = buffer.len().min(MOST);
        socket.start_send(Message::binary(Bytes::copy_from_slice(&buffer[..n]))).map_err(io_error)?;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context).map_err(io_error)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.get_mut().socket).poll_close(context)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(io_error(error))),
        }
    }
}
