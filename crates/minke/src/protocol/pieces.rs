//! A command's streams on a connection: frames of one byte that says what it is, and what it is.
//!
//! The agent never stops reading, so that it notices at once when a client goes, which ends the command. What keeps a
//! client from filling its memory is the [`WINDOW`]: so many bytes of input may be on their way that
//! [`Piece::Taken`] has not confirmed.

use std::io;

use bytes::{Buf, BytesMut};
use futures_util::StreamExt;
use minke_core::runtime::TerminalSize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::ChannelError;

/// Most bytes of input that the command has not taken yet.
pub(crate) const WINDOW: usize = 256 << 10;

/// One piece of a stream, or something about it. The numbers of the first five are those of Kubernetes' channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Input.
    Stdin(BytesMut),
    /// Output.
    Stdout(BytesMut),
    /// Error output.
    Stderr(BytesMut),
    /// It has ended, with this code; the last piece.
    Ended(u8),
    /// The terminal has another size.
    Resize(TerminalSize),
    /// No more input comes.
    StdinClosed,
    /// The command has taken so many bytes of input.
    Taken(u32),
    /// How it ended is not known; the last piece.
    Lost(String),
}

impl Piece {
    fn encode(&self) -> (u8, BytesMut) {
        let bytes = |b: &[u8]| BytesMut::from(b);
        match self {
            Self::Stdin(data) => (0, data.clone()),
            Self::Stdout(data) => (1, data.clone()),
            Self::Stderr(data) => (2, data.clone()),
            Self::Ended(code) => (3, bytes(&[*code])),
            Self::Resize(size) => (4, bytes(&[size.width.to_be_bytes(), size.height.to_be_bytes()].concat())),
            Self::StdinClosed => (5, BytesMut::new()),
            Self::Taken(count) => (6, bytes(&count.to_be_bytes())),
            Self::Lost(why) => (7, bytes(why.as_bytes())),
        }
    }

    fn decode(mut frame: BytesMut) -> Option<Self> {
        if frame.is_empty() {
            return None;
        }
        let kind = frame.get_u8();
        Some(match (kind, frame.len()) {
            (0, _) => Self::Stdin(frame),
            (1, _) => Self::Stdout(frame),
            (2, _) => Self::Stderr(frame),
            (3, 1) => Self::Ended(frame.get_u8()),
            (4, 4) => Self::Resize(TerminalSize { width: frame.get_u16(), height: frame.get_u16() }),
            (5, 0) => Self::StdinClosed,
            (6, 4) => Self::Taken(frame.get_u32()),
            (7, _) => Self::Lost(String::from_utf8_lossy(&frame).into_owned()),
            _ => return None,
        })
    }
}

/// Where pieces come from.
#[derive(Debug)]
pub(crate) struct PieceReader<'a>(&'a mut FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl<'a> PieceReader<'a> {
    pub(super) fn new(reader: &'a mut FramedRead<OwnedReadHalf, LengthDelimitedCodec>) -> Self {
        Self(reader)
    }

    /// The next piece. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Result<Piece, ChannelError> {
        let frame = self.0.next().await.ok_or(ChannelError::Closed)?.map_err(ChannelError::Io)?;
        Piece::decode(frame).ok_or_else(|| ChannelError::Io(io::ErrorKind::InvalidData.into()))
    }
}

/// Where pieces go.
#[derive(Debug)]
pub(crate) struct PieceWriter<'a>(&'a mut OwnedWriteHalf);

impl<'a> PieceWriter<'a> {
    pub(super) fn new(writer: &'a mut OwnedWriteHalf) -> Self {
        Self(writer)
    }

    /// Sends one piece. Not cancel-safe: a dropped call may leave half a frame.
    pub(crate) async fn send(&mut self, piece: &Piece) -> Result<(), ChannelError> {
        let (kind, data) = piece.encode();
        let length = u32::try_from(data.len() + 1).map_err(|_| ChannelError::TooLarge(data.len()))?;
        let frame = [&length.to_be_bytes()[..], &[kind], &data].concat();
        self.0.write_all(&frame).await.map_err(ChannelError::Io)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Channel;
    use super::*;

    #[tokio::test]
    async fn pieces_arrive_as_they_were_sent() {
        let (a, b) = tokio::net::UnixStream::pair().unwrap();
        let (mut a, mut b) = (Channel::new(a), Channel::new(b));
        let all = [
            Piece::Stdin(BytesMut::from(&b"in"[..])),
            Piece::Stdout(BytesMut::from(&b"\0\xff"[..])),
            Piece::Stderr(BytesMut::new()),
            Piece::Ended(255),
            Piece::Resize(TerminalSize { width: 132, height: 50 }),
            Piece::StdinClosed,
            Piece::Taken(70_000),
            Piece::Lost("why".to_owned()),
        ];
        for piece in &all {
            a.pieces().1.send(piece).await.unwrap();
            assert_eq!(b.pieces().0.receive().await.unwrap(), *piece);
        }
        drop(a);
        assert!(matches!(b.pieces().0.receive().await, Err(ChannelError::Closed)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_piece_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..32)) {
            if let Some(piece) = Piece::decode(BytesMut::from(&bytes[..])) {
                let (kind, data) = piece.encode();
                prop_assert_eq!(kind, bytes[0]);
                // Words that are no UTF-8 are the only thing that changes.
                prop_assert!(kind == 7 || data == bytes[1..]);
            }
        }
    }
}
