//! Bytes to frames, however the bytes are cut.
//!
//! ```text
//! Head ──8 bytes: control──► whole control frame ──► Head
//!   └───8 bytes: data──► Data { left } ──piece by piece──► Head
//! ```
//! Memory is bounded: a control frame has at most [`MOST_BLOCK`] bytes, packed and unpacked, and data is handed on in
//! pieces as it comes.

use bytes::{Buf, Bytes, BytesMut};

use super::block;
use super::compress::Inflater;
use super::frame::{
    FLAG_FIN, FLAG_UNIDIRECTIONAL, Frame, FrameError, GOAWAY, HEADERS, Headers, MOST_BLOCK, MOST_DATA, NUMBER, PING,
    RST_STREAM, SETTINGS, SYN_REPLY, SYN_STREAM, Setting, VERSION, WINDOW_UPDATE,
};

const HEAD: usize = 8;

/// The rest of a data frame.
#[derive(Debug)]
struct Rest {
    stream: u32,
    fin: bool,
    left: usize,
}

/// One direction of a connection: headers depend on those before them.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    inflate: Inflater,
    rest: Option<Rest>,
    broken: Option<FrameError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// For a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: BytesMut::new(), inflate: Inflater::new(), rest: None, broken: None }
    }

    /// Where the next bytes go.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame; `None` when more bytes are needed. A data frame may come as several, of which only the last has
    /// `fin`. Ask until there is none before more bytes are read.
    ///
    /// # Errors
    /// The peer speaks something else. Every later call says the same.
    pub fn frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let result = self.next();
        if let Err(error) = result {
            self.broken = Some(error);
            self.buffer = BytesMut::new();
        }
        result
    }

    fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(rest) = &mut self.rest {
                let n = rest.left.min(self.buffer.len()).min(MOST_DATA);
                if n == 0 && rest.left > 0 {
                    return Ok(None);
                }
                // Copied, so that a small piece does not keep a large buffer.
                let data = Bytes::copy_from_slice(&self.buffer[..n]);
                self.buffer.advance(n);
                rest.left -= n;
                let over = rest.left == 0;
                let frame = Frame::Data { stream: rest.stream, fin: rest.fin && over, data };
                if over {
                    self.rest = None;
                }
                return Ok(Some(frame));
            }
            let Some(mut head) = self.buffer.get(..HEAD) else { return Ok(None) };
            let (first, second) = (head.get_u32(), head.get_u32());
            let flags = u8::try_from(second >> 24).unwrap_or_default();
            let length = usize::try_from(second & 0x00ff_ffff).unwrap_or(usize::MAX);
            if first & !NUMBER == 0 {
                self.buffer.advance(HEAD);
                self.rest = Some(Rest { stream: first, fin: flags & FLAG_FIN != 0, left: length });
                continue;
            }
            let version = u16::try_from(first >> 16 & 0x7fff).unwrap_or_default();
            if version != VERSION {
                return Err(FrameError::Version(version));
            }
            if length > MOST_BLOCK {
                return Err(FrameError::TooLarge);
            }
            if self.buffer.len() < HEAD + length {
                return Ok(None);
            }
            self.buffer.advance(HEAD);
            let body = self.buffer.split_to(length);
            let kind = u16::try_from(first & 0xffff).unwrap_or_default();
            if let Some(frame) = self.control(kind, flags, &body)? {
                return Ok(Some(frame));
            }
        }
    }

    /// A control frame; `None` for a kind that is not known, which is to be ignored.
    fn control(&mut self, kind: u16, flags: u8, mut body: &[u8]) -> Result<Option<Frame>, FrameError> {
        let malformed = FrameError::Malformed(kind);
        let fin = flags & FLAG_FIN != 0;
        let length = body.len();
        let exactly = |n: usize| if length == n { Ok(()) } else { Err(malformed) };
        let number = |body: &mut &[u8]| body.try_get_u32().map(|n| n & NUMBER).map_err(|_| malformed);
        let frame = match kind {
            SYN_STREAM => {
                let (stream, associated) = (number(&mut body)?, number(&mut body)?);
                let priority = body.try_get_u16().map_err(|_| malformed)?;
                Frame::SynStream {
                    stream,
                    associated,
                    priority: u8::try_from(priority >> 13).unwrap_or_default(),
                    fin,
                    unidirectional: flags & FLAG_UNIDIRECTIONAL != 0,
                    headers: self.headers(body)?,
                }
            }
            SYN_REPLY => Frame::SynReply { stream: number(&mut body)?, fin, headers: self.headers(body)? },
            HEADERS => Frame::Headers { stream: number(&mut body)?, fin, headers: self.headers(body)? },
            RST_STREAM => {
                exactly(8)?;
                Frame::RstStream { stream: number(&mut body)?, status: body.get_u32() }
            }
            GOAWAY => {
                exactly(8)?;
                Frame::GoAway { last: number(&mut body)?, status: body.get_u32() }
            }
            WINDOW_UPDATE => {
                exactly(8)?;
                Frame::WindowUpdate { stream: number(&mut body)?, delta: number(&mut body)? }
            }
            PING => {
                exactly(4)?;
                Frame::Ping(body.get_u32())
            }
            SETTINGS => {
                let count = body.try_get_u32().map_err(|_| malformed)?;
                let entries = body.chunks_exact(8);
                if !entries.remainder().is_empty() || u32::try_from(entries.len()) != Ok(count) {
                    return Err(malformed);
                }
                let entry = |mut bytes: &[u8]| {
                    let (first, value) = (bytes.get_u32(), bytes.get_u32());
                    Setting { flags: u8::try_from(first >> 24).unwrap_or_default(), id: first & 0x00ff_ffff, value }
                };
                Frame::Settings(entries.map(entry).collect())
            }
            _ => return Ok(None),
        };
        Ok(Some(frame))
    }

    fn headers(&mut self, packed: &[u8]) -> Result<Headers, FrameError> {
        block::decode(&self.inflate.unpack(packed)?)
    }
}
