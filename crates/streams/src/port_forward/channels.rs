//! Port-forward over WebSocket channels: for each port of the request a data channel and an error channel, which both
//! begin with the port's number. The end of one direction can't be told: a connection is over when the port's side is.

use std::sync::Arc;

use futures_util::AsyncWriteExt;
use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Connect;
use super::carry::carry_out;
use crate::error::{Limits, ServeError};
use crate::websocket::{Channel, Codec, Opening};

pub(super) async fn serve<IO>(
    io: IO,
    base64: bool,
    ports: &[u16],
    connect: Arc<dyn Connect>,
    limits: Limits,
) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut opening = Opening::new();
    let numbers = (0..=u8::MAX).step_by(2);
    let pairs: Vec<_> = ports
        .iter()
        .zip(numbers)
        .map(|(port, number)| (*port, opening.channel(number), opening.channel(number + 1)))
        .collect();
    let connection = opening.run(io, Role::Server, Codec { base64, closes: false }, limits.idle);
    let all = join_all(pairs.into_iter().map(|(port, data, error)| forward(port, data, error, connect.clone())));
    tokio::select! {
        _ = all => connection.close().await.served(),
        ended = connection.ended() => ended.served(),
    }
}

async fn forward(port: u16, mut data: Channel, mut error: Channel, connect: Arc<dyn Connect>) {
    for channel in [&mut data, &mut error] {
        if channel.writer.write_all(&port.to_le_bytes()).await.is_err() {
            return;
        }
    }
    match connect.connect(port).await {
        Ok(connection) => carry_out(&mut data.reader, &mut data.writer, connection).await,
        Err(failure) => {
            let text = format!("error forwarding port {port}: {failure}");
            let _ = error.writer.write_all(text.as_bytes()).await;
        }
    }
}
