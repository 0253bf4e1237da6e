//! Frames to bytes.

use bytes::{BufMut, BytesMut};

use super::block;
use super::compress::Deflater;
use super::frame::{
    FLAG_FIN, FLAG_UNIDIRECTIONAL, Frame, FrameError, GOAWAY, HEADERS, Headers, MOST_BLOCK, MOST_DATA, NUMBER, PING,
    RST_STREAM, SETTINGS, SYN_REPLY, SYN_STREAM, VERSION, WINDOW_UPDATE,
};

/// One direction of a connection: headers depend on those before them.
#[derive(Debug)]
pub struct Encoder {
    deflate: Deflater,
}

impl Encoder {
    /// For a new connection.
    ///
    /// # Errors
    /// The compressor can't be made.
    pub fn new() -> Result<Self, FrameError> {
        Ok(Self { deflate: Deflater::new()? })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// Nothing was appended: the frame is too large, or a number is out of its range. After an error of headers the
    /// encoder is of no more use.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), FrameError> {
        match frame {
            Frame::SynStream { stream, associated, priority, fin, unidirectional, headers } => {
                let mut body = BytesMut::new();
                body.put_u32(number(*stream, SYN_STREAM)?);
                body.put_u32(number(*associated, SYN_STREAM)?);
                if *priority > 7 {
                    return Err(FrameError::Malformed(SYN_STREAM));
                }
                body.put_u8(priority << 5);
                body.put_u8(0);
                self.block(headers, &mut body)?;
                let flags = if *fin { FLAG_FIN } else { 0 } | if *unidirectional { FLAG_UNIDIRECTIONAL } else { 0 };
                control(SYN_STREAM, flags, &body, out)
            }
            Frame::SynReply { stream, fin, headers } => self.headers(SYN_REPLY, *stream, *fin, headers, out),
            Frame::Headers { stream, fin, headers } => self.headers(HEADERS, *stream, *fin, headers, out),
            Frame::RstStream { stream, status } => pair(RST_STREAM, number(*stream, RST_STREAM)?, *status, out),
            Frame::GoAway { last, status } => pair(GOAWAY, number(*last, GOAWAY)?, *status, out),
            Frame::WindowUpdate { stream, delta } => {
                let (stream, delta) = (number(*stream, WINDOW_UPDATE)?, number(*delta, WINDOW_UPDATE)?);
                pair(WINDOW_UPDATE, stream, delta, out)
            }
            Frame::Ping(id) => control(PING, 0, &id.to_be_bytes(), out),
            Frame::Settings(entries) => {
                let mut body = BytesMut::new();
                body.put_u32(u32::try_from(entries.len()).map_err(|_| FrameError::TooLarge)?);
                for entry in entries {
                    if entry.id >= 1 << 24 {
                        return Err(FrameError::Malformed(SETTINGS));
                    }
                    body.put_u32(u32::from(entry.flags) << 24 | entry.id);
                    body.put_u32(entry.value);
                }
                control(SETTINGS, 0, &body, out)
            }
            Frame::Data { stream, fin, data } => {
                if data.len() > MOST_DATA {
                    return Err(FrameError::TooLarge);
                }
                out.reserve(8 + data.len());
                out.put_u32(number(*stream, 0)?);
                out.put_u32(u32::from(*fin) << 24 | u32::try_from(data.len()).map_err(|_| FrameError::TooLarge)?);
                out.put_slice(data);
                Ok(())
            }
        }
    }

    fn headers(
        &mut self,
        kind: u16,
        stream: u32,
        fin: bool,
        headers: &Headers,
        out: &mut BytesMut,
    ) -> Result<(), FrameError> {
        let mut body = BytesMut::new();
        body.put_u32(number(stream, kind)?);
        self.block(headers, &mut body)?;
        control(kind, if fin { FLAG_FIN } else { 0 }, &body, out)
    }

    fn block(&mut self, headers: &Headers, body: &mut BytesMut) -> Result<(), FrameError> {
        let block = block::encode(headers);
        if block.len() > MOST_BLOCK / 2 {
            return Err(FrameError::TooLarge);
        }
        body.put_slice(&self.deflate.pack(&block)?);
        Ok(())
    }
}

fn number(number: u32, kind: u16) -> Result<u32, FrameError> {
    if number <= NUMBER { Ok(number) } else { Err(FrameError::Malformed(kind)) }
}

fn pair(kind: u16, first: u32, second: u32, out: &mut BytesMut) -> Result<(), FrameError> {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&first.to_be_bytes());
    body[4..].copy_from_slice(&second.to_be_bytes());
    control(kind, 0, &body, out)
}

fn control(kind: u16, flags: u8, body: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MOST_BLOCK).ok_or(FrameError::TooLarge)?;
    out.reserve(8 + body.len());
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | length);
    out.put_slice(body);
    Ok(())
}
