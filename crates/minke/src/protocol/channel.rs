//! Bounded frames of JSON over a unix socket.

use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::pieces::{PieceReader, PieceWriter};

/// A frame may hold this many bytes: several files at their own limit.
const LARGEST_FRAME: usize = 64 << 20;

/// A frame that can't be exchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The connection broke, or a frame announces more than [`LARGEST_FRAME`].
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// What came is not what this side understands. The connection can go on.
    #[error("a message can't be understood")]
    Malformed(#[source] serde_json::Error),
    /// What should be sent is too large.
    #[error("a message of {0} bytes is over the limit of {LARGEST_FRAME}; run the manifests in several parts")]
    TooLarge(usize),
    /// The other side closed the connection.
    #[error("the connection was closed")]
    Closed,
}

impl ChannelError {
    /// Whether the peer may simply be gone, so that another one can be asked.
    pub(crate) fn is_disconnect(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed)
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    reader: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    writer: OwnedWriteHalf,
}

impl Channel {
    /// Speaks over this stream.
    pub(crate) fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let codec = LengthDelimitedCodec::builder().max_frame_length(LARGEST_FRAME).new_codec();
        Self { reader: FramedRead::new(reader, codec), writer }
    }

    /// Sends one message. Not cancel-safe: a dropped call may leave half a frame.
    pub(crate) async fn send<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), ChannelError> {
        self.writer.write_all(&encode(message)?).await.map_err(ChannelError::Io)
    }

    /// Sends one message and meanwhile takes in what comes: two sides that both only wrote would wait for each
    /// other for ever once their buffers are full. Not cancel-safe.
    pub(crate) async fn send_and_receive<T, R>(
        &mut self,
        message: &T,
        received: &mut VecDeque<R>,
    ) -> Result<(), ChannelError>
    where
        T: Serialize + Sync,
        R: DeserializeOwned,
    {
        let frame = encode(message)?;
        let sending = self.writer.write_all(&frame);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                sent = &mut sending => return sent.map_err(ChannelError::Io),
                frame = self.reader.next() => received.push_back(decode(frame)?),
            }
        }
    }

    /// Both directions on their own, for streams.
    pub(crate) fn pieces(&mut self) -> (PieceReader<'_>, PieceWriter<'_>) {
        (PieceReader::new(&mut self.reader), PieceWriter::new(&mut self.writer))
    }

    /// The next message. Cancel-safe.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        decode(self.reader.next().await)
    }
}

/// A frame: the length goes in front of the document in one buffer, so that it is one write.
fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, ChannelError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(ChannelError::Malformed)?;
    let length = frame.len() - 4;
    let header = u32::try_from(length).ok().filter(|_| length <= LARGEST_FRAME);
    frame[..4].copy_from_slice(&header.ok_or(ChannelError::TooLarge(length))?.to_be_bytes());
    Ok(frame)
}

fn decode<T: DeserializeOwned>(frame: Option<io::Result<BytesMut>>) -> Result<T, ChannelError> {
    let frame = frame.ok_or(ChannelError::Closed)?.map_err(ChannelError::Io)?;
    serde_json::from_slice(&frame).map_err(ChannelError::Malformed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minke_core::identity::PodUid;
    use proptest::prelude::*;
    use tokio_util::codec::Decoder;

    use super::super::{Reply, Request};
    use super::*;

    fn pair() -> (Channel, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        (Channel::new(a), b)
    }

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order() {
        let (mut a, b) = pair();
        let mut b = Channel::new(b);
        let long = "x".repeat(1 << 20);
        let send = async {
            a.send(&Reply::Error(long.clone())).await.unwrap();
            a.send(&Reply::Done).await.unwrap();
        };
        let receive = async {
            assert!(matches!(b.receive().await.unwrap(), Reply::Error(text) if text.len() == 1 << 20));
            assert!(matches!(b.receive().await.unwrap(), Reply::Done));
        };
        tokio::join!(send, receive);
        drop(a);
        assert!(matches!(b.receive::<Reply>().await, Err(ChannelError::Closed)));
    }

    #[tokio::test]
    async fn a_frame_that_announces_too_much_is_refused_before_it_is_read() {
        let (mut a, mut b) = pair();
        b.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        assert!(matches!(a.receive::<Request>().await, Err(ChannelError::Io(_))));
    }

    #[tokio::test]
    async fn malformed_json_is_an_error_and_the_next_frame_is_read() {
        let (mut a, mut b) = pair();
        for frame in [&b"{\"Nope\":1}"[..], b"\xff\xff", b"\"List\""] {
            b.write_all(&(frame.len() as u32).to_be_bytes()).await.unwrap();
            b.write_all(frame).await.unwrap();
        }
        assert!(matches!(a.receive::<Request>().await, Err(ChannelError::Malformed(_))));
        assert!(matches!(a.receive::<Request>().await, Err(ChannelError::Malformed(_))));
        assert!(matches!(a.receive::<Request>().await, Ok(Request::List)));
    }

    #[tokio::test]
    async fn two_sides_that_send_at_once_do_not_wait_for_each_other() {
        let (mut a, b) = pair();
        let mut b = Channel::new(b);
        let long = Reply::Error("x".repeat(4 << 20));
        let (mut at_a, mut at_b): (VecDeque<Reply>, VecDeque<Reply>) = Default::default();
        let both = async { tokio::join!(a.send_and_receive(&long, &mut at_a), b.send_and_receive(&long, &mut at_b)) };
        let (sent_a, sent_b) = tokio::time::timeout(std::time::Duration::from_secs(20), both).await.unwrap();
        assert!(sent_a.is_ok() && sent_b.is_ok());
        for (side, early) in [(&mut a, at_a), (&mut b, at_b)] {
            let got = match early.into_iter().next() {
                Some(reply) => reply,
                None => side.receive().await.unwrap(),
            };
            assert!(matches!(got, Reply::Error(text) if text.len() == 4 << 20));
        }
    }

    #[tokio::test]
    async fn half_a_frame_and_then_the_end_is_an_error() {
        let (mut a, mut b) = pair();
        b.write_all(&[0, 0, 0, 9, b'"']).await.unwrap();
        drop(b);
        assert!(a.receive::<Request>().await.is_err());
    }

    /// Requests as they are on the wire.
    fn requests() -> Vec<Vec<u8>> {
        let requests = [
            Request::List,
            Request::Watch { uids: Some(vec![PodUid::new("u").unwrap()]) },
            Request::Apply { pods: vec![Arc::default()], objects: Arc::default() },
            Request::Stop { uid: PodUid::new("u").unwrap(), grace_ms: Some(5), remove: true },
        ];
        requests.iter().map(|request| encode(request).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(decode::<Request>(Some(Ok(BytesMut::from(&bytes[..])))));
            drop(LengthDelimitedCodec::builder().max_frame_length(LARGEST_FRAME).new_codec().decode(&mut BytesMut::from(&bytes[..])));
        }

        #[test]
        fn a_damaged_request_is_a_request_or_an_error(
            which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8, cut: bool,
        ) {
            let requests = requests();
            let mut frame = which.get(&requests).clone();
            let at = at.index(frame.len());
            if cut { frame.truncate(at) } else { frame[at] = byte }
            let mut codec = LengthDelimitedCodec::builder().max_frame_length(LARGEST_FRAME).new_codec();
            if let Ok(Some(content)) = codec.decode(&mut BytesMut::from(&frame[..])) {
                drop(decode::<Request>(Some(Ok(content))));
            }
        }
    }
}
