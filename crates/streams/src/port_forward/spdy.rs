//! Port-forward over SPDY: pairs of streams.

use std::sync::Arc;

use futures_util::AsyncWriteExt;
use futures_util::future::OptionFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Connect;
use super::carry::carry;
use super::pairs::{self, Half, Pairs, Step};
use crate::error::{Limits, ServeError};
use crate::mux::{Order, Orders, StreamReader, StreamWriter};
use crate::spdy::{Accepted, Connection, Side};

struct Stream {
    reader: StreamReader,
    writer: StreamWriter,
    port: u16,
}

pub(super) async fn serve<IO>(io: IO, connect: Arc<dyn Connect>, limits: Limits) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut connection = Connection::new(io, Side::Server, limits.idle);
    let orders = connection.inner.orders.clone();
    let mut pairs: Pairs<Stream, Instant> = Pairs::new();
    // Dropped with the connection, and everything that is carried with it.
    let mut work = JoinSet::new();
    loop {
        let late = OptionFuture::from(pairs.next().map(sleep_until));
        tokio::select! {
            stream = connection.accept() => {
                let Some(stream) = stream else { return connection.inner.ended().await.served() };
                accepted(stream, &orders, &mut pairs, &mut work, &connect, limits).await;
            }
            Some(()) = late => {
                for (request, half, stream) in pairs.late(Instant::now()) {
                    tracing::debug!(request, "half of a forwarded connection never came");
                    work.spawn(give_up(half, stream, format!("request {request}: timed out waiting for streams")));
                }
            }
            Some(_) = work.join_next() => {}
        }
    }
}

async fn accepted(
    stream: Accepted,
    orders: &Orders,
    pairs: &mut Pairs<Stream, Instant>,
    work: &mut JoinSet<()>,
    connect: &Arc<dyn Connect>,
    limits: Limits,
) {
    let Accepted { number, headers, reader, writer } = stream;
    let asked = match pairs::read(number, &headers) {
        Ok(asked) => asked,
        Err(reason) => {
            tracing::debug!(reason, "a stream of a port-forward is refused");
            return;
        }
    };
    let _ = orders.sender.send(Order::Accept(number)).await;
    let stream = Stream { reader, writer, port: asked.port };
    match pairs.add(&asked, stream, Instant::now() + limits.creation) {
        Step::Waits => {}
        Step::Whole { error, data } => {
            work.spawn(forward(error, data, connect.clone()));
        }
        Step::Twice { first, second } => {
            let name = if asked.half == Half::Error { "error" } else { "data" };
            let text = format!("error processing stream for request {}: {name} stream already assigned", asked.request);
            work.spawn(give_up(asked.half, first, text.clone()));
            work.spawn(give_up(asked.half, second, text));
        }
    }
}

/// Says why, where there is an error stream; a data stream alone is aborted.
async fn give_up(half: Half, stream: Stream, text: String) {
    match half {
        Half::Error => tell(stream, &text).await,
        Half::Data => drop(stream),
    }
}

async fn tell(mut stream: Stream, text: &str) {
    let _ = stream.writer.write_all(text.as_bytes()).await;
    let _ = stream.writer.close().await;
    stream.reader.ignore();
}

/// One connection.
async fn forward(mut error: Stream, mut data: Stream, connect: Arc<dyn Connect>) {
    let port = data.port;
    match connect.connect(port).await {
        Ok(connection) => {
            carry(&mut data.reader, &mut data.writer, connection).await;
            let _ = error.writer.close().await;
            error.reader.ignore();
        }
        Err(failure) => {
            tell(error, &format!("error forwarding port {port}: {failure}")).await;
            let _ = data.writer.close().await;
        }
    }
}
