//! Messages of numbered channels (pure): the first byte says which, the rest is what is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

/// A channel's number in a message that closes another one, since version 5.
const CLOSE: u8 = 255;

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Codec {
    /// As text, in base64, the channel as a digit.
    pub(crate) base64: bool,
    /// One side can tell the other that a channel has ended (version 5).
    pub(crate) closes: bool,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Bytes of a channel, maybe none.
    Data(u8, Bytes),
    /// A channel has ended.
    End(u8),
    /// The other side says good-bye.
    Close,
    /// Nothing that matters: a ping, an empty message, a message that can't be read. Upstream ignores those as well.
    Nothing,
}

impl Codec {
    pub(crate) fn decode(self, message: Message) -> Word {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            Message::Close(_) => return Word::Close,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Word::Nothing,
        };
        let Some((&first, rest)) = bytes.split_first() else { return Word::Nothing };
        if self.base64 {
            return match (first.checked_sub(b'0'), STANDARD.decode(rest)) {
                (Some(channel), Ok(data)) => Word::Data(channel, data.into()),
                (None, _) | (_, Err(_)) => Word::Nothing,
            };
        }
        match rest {
            [channel] if self.closes && first == CLOSE => Word::End(*channel),
            _ => Word::Data(first, bytes.slice(1..)),
        }
    }

    pub(crate) fn encode(self, channel: u8, data: &[u8]) -> Message {
        if self.base64 {
            let mut text = String::from(char::from(b'0'.saturating_add(channel)));
            STANDARD.encode_string(data, &mut text);
            return Message::text(text);
        }
        let mut bytes = BytesMut::with_capacity(1 + data.len());
        bytes.put_u8(channel);
        bytes.put_slice(data);
        Message::binary(bytes.freeze())
    }

    /// Tells the end of a channel; `None` where that can't be told.
    pub(crate) fn end(self, channel: u8) -> Option<Message> {
        self.closes.then(|| Message::binary(vec![CLOSE, channel]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Codec = Codec { base64: false, closes: false };
    const V5: Codec = Codec { base64: false, closes: true };
    const BASE64: Codec = Codec { base64: true, closes: false };

    #[test]
    fn the_end_of_a_channel_is_told_since_version_5() {
        assert_eq!(V5.decode(Message::binary(vec![255, 0])), Word::End(0));
        assert_eq!(V5.decode(V5.end(3).unwrap()), Word::End(3));
        assert_eq!(PLAIN.end(0), None);
        assert_eq!(PLAIN.decode(Message::binary(vec![255, 0])), Word::Data(255, Bytes::from_static(&[0])));
    }

    #[test]
    fn what_says_nothing_is_ignored() {
        for message in [Message::binary(Vec::new()), Message::Ping(Bytes::new())] {
            assert_eq!(PLAIN.decode(message), Word::Nothing);
        }
        assert_eq!(BASE64.decode(Message::text("0%")), Word::Nothing);
        assert_eq!(BASE64.decode(Message::text("\u{1}AAAA")), Word::Nothing);
        assert_eq!(PLAIN.decode(Message::Close(None)), Word::Close);
        assert_eq!(PLAIN.decode(Message::binary(vec![0])), Word::Data(0, Bytes::new()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(data in prop::collection::vec(any::<u8>(), 0..50), channel in 0..9_u8) {
            for codec in [PLAIN, V5, BASE64] {
                let word = codec.decode(codec.encode(channel, &data));
                prop_assert_eq!(word, Word::Data(channel, data.clone().into()));
            }
        }

        #[test]
        fn any_message_is_understood_or_ignored(data in prop::collection::vec(any::<u8>(), 0..50)) {
            for codec in [PLAIN, V5, BASE64] {
                let _ = codec.decode(Message::binary(data.clone()));
            }
        }
    }
}
