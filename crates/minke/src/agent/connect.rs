//! A client whose connection carries the bytes of a port.

use bytes::BytesMut;
use futures_util::AsyncReadExt;
use minke_core::identity::PodUid;
use minke_kubelet::Kubelet;
use tokio::sync::mpsc;

use super::input;
use crate::protocol::{Channel, ChannelError, Piece, Reply};

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
    let input = input::carry(reader, Some(Box::pin(to_port)), None, taken);
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
