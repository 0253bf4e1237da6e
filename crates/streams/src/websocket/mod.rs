//! WebSocket as Kubernetes speaks it: a few numbered channels over messages, or one stream of bytes.

mod bytes;
mod channel;
mod connection;

pub(crate) use bytes::ByteStream;
pub(crate) use channel::Codec;
pub(crate) use connection::{Channel, Opening};

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Largest message that is taken. Kubernetes' clients send 32 KiB.
const LARGEST: usize = 4 << 20;

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(LARGEST)
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST))
}
