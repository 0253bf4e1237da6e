//! Frames of SPDY/3.1.

use bytes::Bytes;

/// Most bytes of a control frame, and of a header block once it is unpacked. Kubernetes' are below 1 KiB.
pub const MOST_BLOCK: usize = 64 << 10;
/// Most bytes of one [`Frame::Data`]: a longer frame of the peer comes in pieces, a longer one of ours is refused.
pub const MOST_DATA: usize = 32 << 10;

/// Name and value pairs. Names are lower-case; [`Headers::get`] does not mind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value of this name; one that was sent several times at once comes as its first.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.split('\0').next().unwrap_or_default())
    }

    /// The same with one more pair.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_ascii_lowercase(), value.into()));
        self
    }
}

/// One entry of a SETTINGS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Flags.
    pub flags: u8,
    /// Which setting, of 24 bits.
    pub id: u32,
    /// Its value.
    pub value: u32,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A stream begins.
    SynStream {
        /// Its number: odd from a client, even from a server.
        stream: u32,
        /// The stream that it belongs to, or 0.
        associated: u32,
        /// 0 (first) to 7.
        priority: u8,
        /// Its sender sends nothing on it.
        fin: bool,
        /// Its receiver sends nothing on it.
        unidirectional: bool,
        /// What it is for.
        headers: Headers,
    },
    /// A stream is accepted.
    SynReply {
        /// Which.
        stream: u32,
        /// The sender sends nothing on it.
        fin: bool,
        /// More about it.
        headers: Headers,
    },
    /// A stream is over at once, in both directions.
    RstStream {
        /// Which.
        stream: u32,
        /// Why, as SPDY numbers it.
        status: u32,
    },
    /// What the sender would like; ignored.
    Settings(Vec<Setting>),
    /// Is anybody there? Sent back as it came.
    Ping(u32),
    /// No more streams are accepted.
    GoAway {
        /// The last that was.
        last: u32,
        /// 0: all is well; 1: a breach of protocol; 2: the sender failed.
        status: u32,
    },
    /// More headers of a stream.
    Headers {
        /// Which.
        stream: u32,
        /// The sender sends nothing more on it.
        fin: bool,
        /// The headers.
        headers: Headers,
    },
    /// Flow control; ignored, as Kubernetes' peers do.
    WindowUpdate {
        /// Which stream; 0 for the connection.
        stream: u32,
        /// How many bytes more.
        delta: u32,
    },
    /// Bytes of a stream.
    Data {
        /// Which.
        stream: u32,
        /// The sender sends nothing more on it.
        fin: bool,
        /// The bytes.
        data: Bytes,
    },
}

/// Bytes that are no SPDY/3.1, or more than is accepted. The connection is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another version of SPDY, or no SPDY at all.
    #[error("a SPDY control frame of version {0} instead of 3")]
    Version(u16),
    /// A control frame or header block of more than [`MOST_BLOCK`] bytes, or data beyond [`MOST_DATA`] to be sent.
    #[error("a SPDY frame that is too large")]
    TooLarge,
    /// A control frame of a wrong length, or a number out of its range.
    #[error("a SPDY frame of type {0} that is malformed")]
    Malformed(u16),
    /// A header block that can't be unpacked.
    #[error("SPDY headers that can't be unpacked")]
    Compression,
    /// A header block that is none, has a name twice, or is no UTF-8.
    #[error("SPDY headers that are malformed")]
    Headers,
}

pub(super) const SYN_STREAM: u16 = 1;
pub(super) const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const SETTINGS: u16 = 4;
pub(super) const PING: u16 = 6;
pub(super) const GOAWAY: u16 = 7;
pub(super) const HEADERS: u16 = 8;
pub(super) const WINDOW_UPDATE: u16 = 9;

pub(super) const VERSION: u16 = 3;
pub(super) const FLAG_FIN: u8 = 1;
pub(super) const FLAG_UNIDIRECTIONAL: u8 = 2;
/// Numbers of streams and windows have 31 bits.
pub(super) const NUMBER: u32 = 0x7fff_ffff;
