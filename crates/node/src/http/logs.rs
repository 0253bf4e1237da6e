//! Output of a container as the body of an answer: passed on as it comes, never gathered.

use bytes::Bytes;
use futures_util::AsyncReadExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use minke_core::provider::ByteStream;

use super::answer::Body;

/// Most bytes in memory of one reader.
const CHUNK: usize = 32 << 10;

/// The bytes of `stream` until its end. A failure breaks the body off.
pub(crate) fn body(stream: ByteStream) -> Body {
    let frames = futures_util::stream::unfold(Some((stream, vec![0; CHUNK])), |state| async {
        let (mut stream, mut buffer) = state?;
        match stream.read(&mut buffer).await {
            Ok(0) => None,
            Ok(length) => {
                let bytes = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
                Some((Ok(Frame::data(bytes)), Some((stream, buffer))))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use futures_util::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn all_bytes_arrive_in_order() {
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let sent = body(Box::pin(Cursor::new(bytes.clone()))).collect().await.unwrap().to_bytes();
        assert!(sent == bytes);
        assert!(body(Box::pin(futures_util::io::empty())).collect().await.unwrap().to_bytes().is_empty());
    }

    #[tokio::test]
    async fn a_failure_is_no_end() {
        struct Fails;
        impl futures_util::AsyncRead for Fails {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                _: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::task::Poll::Ready(Err(std::io::Error::other("disk on fire")))
            }
        }
        assert!(body(Box::pin(Fails)).collect().await.is_err());
    }
}
