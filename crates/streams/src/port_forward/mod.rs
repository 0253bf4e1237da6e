//! Port-forward, served: connections to ports of a Pod, many at once.
//!
//! ```text
//! SPDY (also through a WebSocket tunnel): the client opens an error and a data stream for each connection
//!   stream ──► pairs (pure): whole? ──► connect ──► carry, both ways ──► both streams closed
//!                 └─ half, too late, twice ──► told on the error stream
//! WebSocket channels: two for each port of the request, one connection a port
//! ```

mod carry;
mod channels;
mod pairs;
mod spdy;

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use minke_core::provider::Duplex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::error::{Failure, Limits, ServeError};
use crate::negotiate::PortForwardProtocol;
use crate::websocket::ByteStream;

/// Connects to ports of a Pod.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// A connection to this port. Dropping the call gives it up, dropping the connection closes it.
    async fn connect(&self, port: u16) -> Result<Pin<Box<dyn Duplex>>, Failure>;
}

/// Serves all connections of one port-forward on an upgraded connection, until the client goes or nothing goes over it
/// for [`Limits::idle`]. `ports` are those of the request (see [`crate::negotiate::ports`]). A connection that can't be
/// had is told to the client and ends none of the others. Dropping the future closes everything.
///
/// # Errors
/// It ended otherwise than by the client's going, which is its usual end.
pub async fn serve_port_forward<IO>(
    io: IO,
    protocol: PortForwardProtocol,
    ports: &[u16],
    connect: Arc<dyn Connect>,
    limits: Limits,
) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let served = match protocol {
        PortForwardProtocol::Spdy => spdy::serve(io, connect, limits).await,
        PortForwardProtocol::Tunnel => {
            let io = ByteStream::new(io, Role::Server).await;
            spdy::serve(io, connect, limits).await
        }
        PortForwardProtocol::WebSocket { base64 } => channels::serve(io, base64, ports, connect, limits).await,
    };
    match served {
        Err(ServeError::Gone) => Ok(()),
        served => served,
    }
}

#[cfg(test)]
mod tests;
