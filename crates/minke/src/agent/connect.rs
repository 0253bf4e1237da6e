//! A client whose connection carries the bytes of a port.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use futures_util::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use minke_core::identity::PodUid;
use minke_kubelet::Kubelet;
use tokio::sync::mpsc;

use crate::protocol::{Channel, ChannelError, Piece, PieceReader, Reply, WINDOW};

/// Read at once from the port.
const CHUNK: usize = 32 << 10;

/// Connects and carries until the port has nothing more to say, or the client goes, which closes the connection.
pub(super) async fn serve(
    channel: &mut Channel,
    kubelet: &Kubelet,
    uid: &PodUid,
    port: u16,
) -> Result<(), ChannelError> {
    let connected = tokio::select! {
        connected = kubelet.connect(uid, port) => connected,
        // A client that goes before wants none; one that talks out of turn is not one of ours.
        _ = channel.receive::<serde_json::Value>() => return Ok(()),
    };
    let connection = match connected {
        Ok(connection) => connection,
        Err(error) => return channel.send(&super::exec::refusal(&error)).await,
    };
    channel.send(&Reply::Done).await?;
    let (mut from_port, to_port) = connection.split();
    let (reader, mut writer) = channel.pieces();
    let (taken, mut confirm) = mpsc::unbounded_channel();
    let input = input(reader, Box::pin(to_port), taken);
    let output = async {
        let mut buffer = vec![0; CHUNK];
        let mut confirming = true;
        loop {
            let piece = tokio::select! {
                read = from_port.read(&mut buffer) => match read {
                    Ok(0) => Piece::Ended(0),
                    Ok(n) => Piece::Stdout(BytesMut::from(&buffer[..n])),
                    Err(error) => Piece::Lost(error.to_string()),
                },
                count = confirm.recv(), if confirming => match count {
                    Some(count) => Piece::Taken(count),
                    None => {
                        confirming = false;
                        continue;
                    }
                },
            };
            let last = matches!(piece, Piece::Ended(_) | Piece::Lost(_));
            writer.send(&piece).await?;
            if last {
                return Ok(());
            }
        }
    };
    tokio::select! {
        done = output => done,
        gone = input => gone,
    }
}

/// Takes what the client sends, which is never more than its window. Returns when the client is gone.
async fn input(
    mut reader: PieceReader<'_>,
    mut port: Pin<Box<dyn AsyncWrite + Send>>,
    taken: mpsc::UnboundedSender<u32>,
) -> Result<(), ChannelError> {
    let wrong = || ChannelError::Io(std::io::ErrorKind::InvalidData.into());
    let (sender, mut waiting) = mpsc::unbounded_channel::<BytesMut>();
    let on_its_way = AtomicUsize::new(0);
    let writing = async {
        let mut open = true;
        while let Some(data) = waiting.recv().await {
            // A port that takes no more may still have something to say; what is sent to it is dropped.
            open = open && port.write_all(&data).await.is_ok() && port.flush().await.is_ok();
            on_its_way.fetch_sub(data.len(), Ordering::Relaxed);
            let _ = taken.send(u32::try_from(data.len()).unwrap_or(u32::MAX));
        }
        let _ = port.close().await;
        std::future::pending::<()>().await;
    };
    let reading = async {
        let mut sender = Some(sender);
        loop {
            match reader.receive().await? {
                Piece::Stdin(data) => {
                    let Some(to) = &sender else { return Err(wrong()) };
                    let before = on_its_way.fetch_add(data.len(), Ordering::Relaxed);
                    if before + data.len() > WINDOW {
                        return Err(wrong());
                    }
                    let _ = to.send(data);
                }
                Piece::StdinClosed => sender = None,
                Piece::Stdout(_)
                | Piece::Stderr(_)
                | Piece::Ended(_)
                | Piece::Resize(_)
                | Piece::Taken(_)
                | Piece::Lost(_) => return Err(wrong()),
            }
        }
    };
    tokio::select! {
        gone = reading => gone,
        () = writing => Ok(()),
    }
}
