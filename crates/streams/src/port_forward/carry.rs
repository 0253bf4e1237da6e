//! Bytes in both directions between a client's stream and a connection to a port.

use std::pin::Pin;

use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use minke_core::provider::Duplex;

/// Read at once.
const CHUNK: usize = 32 << 10;

/// Carries both directions until both have ended, or one broke. The end of one is passed on, and the other goes on.
pub(super) async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    connection: Pin<Box<dyn Duplex>>,
) {
    let (mut read, mut write) = connection.split();
    let inwards = copy(from, &mut write);
    let outwards = copy(&mut read, to);
    // One that broke takes the other one with it: the other end is gone.
    let _ = tokio::try_join!(inwards, outwards);
}

/// The same where the client can't end its direction alone: it is over when the port's side is.
pub(super) async fn carry_out(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    connection: Pin<Box<dyn Duplex>>,
) {
    let (mut read, mut write) = connection.split();
    let inwards = async {
        if copy(from, &mut write).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let outwards = copy(&mut read, to);
    futures_util::pin_mut!(inwards, outwards);
    let _ = futures_util::future::select(inwards, outwards).await;
}

async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = from.read(&mut buffer).await?;
        if n == 0 {
            return to.close().await;
        }
        to.write_all(&buffer[..n]).await?;
        to.flush().await?;
    }
}
