//! Sizes of a terminal on the resize stream (pure): JSON objects, one after the other, cut anyhow.

use minke_core::runtime::TerminalSize;
use serde::{Deserialize, Serialize};

/// More than any size takes; a peer that sends this much without one sends something else.
const MOST: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Size {
    #[serde(rename = "Width", alias = "width")]
    width: u16,
    #[serde(rename = "Height", alias = "height")]
    height: u16,
}

/// Reads sizes.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    buffer: Vec<u8>,
}

/// What comes is no size; nothing after it is read either, as upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSize;

impl Sizes {
    /// Takes in bytes. The last whole size among them: earlier ones are over by now. A terminal without rows or columns
    /// is none.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Option<TerminalSize>, NoSize> {
        self.buffer.extend_from_slice(bytes);
        let mut sizes = serde_json::Deserializer::from_slice(&self.buffer).into_iter::<Size>();
        let mut last = None;
        let taken = loop {
            let before = sizes.byte_offset();
            match sizes.next() {
                Some(Ok(Size { width: 0, .. } | Size { height: 0, .. })) => {}
                Some(Ok(Size { width, height })) => last = Some(TerminalSize { width, height }),
                Some(Err(error)) if error.is_eof() => break before,
                Some(Err(_)) => return Err(NoSize),
                None => break sizes.byte_offset(),
            }
        };
        self.buffer.drain(..taken);
        if self.buffer.len() > MOST { Err(NoSize) } else { Ok(last) }
    }
}

/// A size as clients send it.
pub(crate) fn encode(size: TerminalSize) -> Vec<u8> {
    let mut text = serde_json::to_vec(&Size { width: size.width, height: size.height }).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_size_counts_and_an_empty_one_does_not() {
        let mut sizes = Sizes::default();
        let read = sizes.feed(b"{\"Width\":1,\"Height\":2}{\"Width\":3,\"Height\":4}\n{\"Width\":0,\"Height\":0}{\"Wi");
        assert_eq!(read, Ok(Some(TerminalSize { width: 3, height: 4 })));
        assert_eq!(sizes.feed(b"dth\":5,\"Height\":6"), Ok(None));
        assert_eq!(sizes.feed(b"}"), Ok(Some(TerminalSize { width: 5, height: 6 })));
        assert_eq!(sizes.feed(b"{\"width\":7,\"height\":8}"), Ok(Some(TerminalSize { width: 7, height: 8 })));
    }

    #[test]
    fn what_is_no_size_is_refused_and_endless_bytes_are_not_kept() {
        assert_eq!(Sizes::default().feed(b"[]"), Err(NoSize));
        assert_eq!(Sizes::default().feed(b"{\"Width\":70000,\"Height\":1}"), Err(NoSize));
        assert_eq!(Sizes::default().feed(&[&b" {\"Width\":1"[..], &[b' '; 2000]].concat()), Err(NoSize));
    }

    proptest! {
        #[test]
        fn sizes_come_back_however_they_are_cut(width in 1..u16::MAX, height in 1..u16::MAX, at in 0..30_usize) {
            let size = TerminalSize { width, height };
            let bytes = encode(size);
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            let mut sizes = Sizes::default();
            let first = sizes.feed(a).unwrap();
            let second = sizes.feed(b).unwrap();
            prop_assert_eq!(first.or(second), Some(size));
        }
    }
}
