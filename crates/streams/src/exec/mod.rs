//! Remote commands, served: exec and attach.
//!
//! ```text
//! upgraded ──► wire: the streams that were asked for (SPDY: opened by the client; WebSocket: channels)
//!                │ all there
//!                ▼
//!              start ──► session ──► carry, both ways ──► its end ──► status on the error stream ──► closed
//!                └─ failed ─────────────────────────────────────────────┘
//! the client goes, at any time ──► what was started is dropped
//! ```

mod carry;
mod resize;
mod status;
mod wire;

pub(crate) use resize::encode as encode_size;
pub(crate) use status::{End, parse as parse_status};

use minke_core::runtime::ExecSession;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::{Failure, Limits, ServeError};
use crate::negotiate::{ExecProtocol, ExecStreams};

/// Serves one exec or attach to its end on an upgraded connection.
///
/// `start` is awaited once all streams are there; its failure is told to the client. A client that goes, or is idle for
/// too long, drops `start` or its session at once, which ends a command and leaves an attached container alone. With a
/// terminal, start with any size: the client's own follows. Slow readers on either side slow the other one down.
/// Dropping the future closes everything.
///
/// # Errors
/// The session ended otherwise than by its own end. A command's failure is none: the client was told.
pub async fn serve_exec<IO, F>(
    io: IO,
    protocol: ExecProtocol,
    streams: ExecStreams,
    start: F,
    limits: Limits,
) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = Result<ExecSession, Failure>> + Send,
{
    let wire = wire::open(io, protocol, streams, limits).await?;
    carry::serve(wire, start).await
}

#[cfg(test)]
mod tests;
