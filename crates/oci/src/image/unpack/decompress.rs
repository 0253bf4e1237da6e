//! Which compression a blob has, by its first bytes. Media types are not believed: registries hold gzip layers
//! that are declared plain and the other way round.

use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Compression of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// None.
    Plain,
    /// gzip, possibly of several members.
    Gzip,
    /// zstd, possibly of several frames.
    Zstd,
}

/// Largest window of a zstd frame that is accepted, as a power of two: 128 MiB, what the zstd tool takes unasked.
const MAX_WINDOW_LOG: u32 = 27;

impl Compression {
    /// Recognises it.
    pub(crate) fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Reads what was compressed. `source` starts with the bytes by which it was recognised.
    fn reader<'a>(self, source: impl BufRead + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Plain => Box::new(source),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                Box::new(decoder)
            }
        })
    }
}

/// Reads what was compressed in whatever way.
pub(crate) fn decompress<'a>(mut source: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut start = Vec::with_capacity(4);
    (&mut source).take(4).read_to_end(&mut start)?;
    let compression = Compression::of(&start);
    compression.reader(Cursor::new(start).chain(BufReader::with_capacity(1 << 16, source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_are_recognised_and_undone() {
        let text = b"some text, some text, some text".to_vec();
        let gzip = {
            let mut out = Vec::new();
            flate2::bufread::GzEncoder::new(&text[..], flate2::Compression::fast()).read_to_end(&mut out).unwrap();
            out
        };
        let twice = [gzip.clone(), gzip.clone()].concat();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for (bytes, expected, content) in [
            (text.clone(), Compression::Plain, text.clone()),
            (gzip, Compression::Gzip, text.clone()),
            (twice, Compression::Gzip, [text.clone(), text.clone()].concat()),
            (zstd, Compression::Zstd, text),
            (Vec::new(), Compression::Plain, Vec::new()),
        ] {
            assert_eq!(Compression::of(&bytes), expected);
            let mut out = Vec::new();
            decompress(&bytes[..]).unwrap().read_to_end(&mut out).unwrap();
            assert_eq!(out, content);
        }
    }
}
