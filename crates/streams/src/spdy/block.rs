//! A header block, unpacked: how many pairs, then each name and value with its length in front.

use bytes::{Buf, BufMut};

use super::frame::{FrameError, Headers};

/// Most pairs of one block. The bytes are bounded as well; this bounds what surrounds them.
const MOST_PAIRS: u32 = 256;

pub(super) fn encode(headers: &Headers) -> Vec<u8> {
    let mut block = Vec::new();
    let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
    block.put_u32(u32::try_from(headers.0.len()).unwrap_or(u32::MAX));
    for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
        block.put_u32(length(text));
        block.put_slice(text.as_bytes());
    }
    block
}

pub(super) fn decode(mut block: &[u8]) -> Result<Headers, FrameError> {
    let count = block.try_get_u32().map_err(|_| FrameError::Headers)?;
    if count > MOST_PAIRS {
        return Err(FrameError::TooLarge);
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for _ in 0..count {
        let mut name = text(&mut block)?;
        // Upstream's own framer lets upper-case letters pass.
        name.make_ascii_lowercase();
        if name.is_empty() || headers.iter().any(|(known, _)| *known == name) {
            return Err(FrameError::Headers);
        }
        headers.push((name, text(&mut block)?));
    }
    if block.is_empty() { Ok(Headers(headers)) } else { Err(FrameError::Headers) }
}

fn text(block: &mut &[u8]) -> Result<String, FrameError> {
    let length = block.try_get_u32().map_err(|_| FrameError::Headers)?;
    let (text, rest) =
        usize::try_from(length).ok().and_then(|n| block.split_at_checked(n)).ok_or(FrameError::Headers)?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| FrameError::Headers)
}
