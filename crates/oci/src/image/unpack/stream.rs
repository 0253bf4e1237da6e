//! Tar framing: from blocks of 512 bytes to entries with their long names and extended headers.
//!
//! Own framing rather than that of the `tar` crate (whose header codec is used), because that one reads long names
//! and extended headers of any size into memory.

use std::io::{self, BufRead, Read as _};

use super::error::shown;
use super::pax::Pax;
use super::{Budget, UnpackError};

/// Size of a block.
const BLOCK: usize = 512;
/// Longest long name or extended header that is read. Extended attributes of 64 KiB fit.
const MAX_EXTENSION: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File { size: u64 },
    Dir,
    Symlink,
    Hardlink,
    Char { major: u32, minor: u32 },
    Block { major: u32, minor: u32 },
    Fifo,
}

/// One entry, with everything that came before it applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As it stands in the archive.
    pub(crate) path: Vec<u8>,
    /// Target of a link, as it stands in the archive.
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where an archive comes from.
pub(crate) trait Source: BufRead {
    /// Passes over bytes. One that can seek need not notice that they are missing.
    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let available = self.fill_buf()?.len();
            if available == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let step = available.min(usize::try_from(count).unwrap_or(usize::MAX));
            self.consume(step);
            count -= step as u64;
        }
        Ok(())
    }
}

/// An archive that is being read.
pub(crate) struct Stream<'a, R> {
    pub(crate) source: &'a mut R,
    budget: &'a Budget,
    /// Bytes of the current entry that are still to be read, and the padding after them.
    left: u64,
    padding: u64,
}

impl<'a, R: Source> Stream<'a, R> {
    pub(crate) fn new(source: &'a mut R, budget: &'a Budget) -> Self {
        Self { source, budget, left: 0, padding: 0 }
    }

    /// The next entry; what was not read of the one before is skipped. `None` at the end of the archive.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, UnpackError> {
        self.skip(self.left.saturating_add(self.padding))?;
        (self.left, self.padding) = (0, 0);
        let (mut long_path, mut long_link, mut pax) = (None, None, Pax::default());
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match header.entry_type().as_byte() {
                b'L' => long_path = Some(until_zero(self.extension(&header)?)),
                b'K' => long_link = Some(until_zero(self.extension(&header)?)),
                b'x' => pax = Pax::parse(&self.extension(&header)?)?,
                // Defaults for the whole archive: comments in practice, ignored by other unpackers too.
                b'g' => drop(self.extension(&header)?),
                _ => return self.entry(&header, long_path, long_link, pax).map(Some),
            }
        }
    }

    /// Hands out the current entry's bytes, piece by piece.
    pub(crate) fn copy(&mut self, mut sink: impl FnMut(&[u8]) -> Result<(), UnpackError>) -> Result<(), UnpackError> {
        while self.left > 0 {
            let available = self.source.fill_buf().map_err(UnpackError::from_io)?;
            if available.is_empty() {
                return Err(UnpackError::from_io(io::ErrorKind::UnexpectedEof.into()));
            }
            let count = available.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            sink(&available[..count])?;
            self.source.consume(count);
            self.left -= count as u64;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        header: &tar::Header,
        long_path: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
        pax: Pax,
    ) -> Result<Entry, UnpackError> {
        let path = pax.path.or(long_path).unwrap_or_else(|| header.path_bytes().into_owned());
        self.budget.entry(&path)?;
        let malformed = |what: &str| UnpackError::Bad(format!("{}: malformed {what}", shown(&path)));
        let size = match pax.size {
            Some(size) => size,
            None => header.entry_size().map_err(|_| malformed("size"))?,
        };
        let device = || -> Result<(u32, u32), UnpackError> {
            match (header.device_major(), header.device_minor()) {
                (Ok(major), Ok(minor)) => Ok((major.unwrap_or(0), minor.unwrap_or(0))),
                _ => Err(malformed("device number")),
            }
        };
        let kind = match header.entry_type().as_byte() {
            // Archives of the seventies mark directories by a slash only.
            b'0' | 0 if path.ends_with(b"/") => Kind::Dir,
            b'0' | 0 | b'7' => Kind::File { size },
            b'1' => Kind::Hardlink,
            b'2' => Kind::Symlink,
            b'3' => device().map(|(major, minor)| Kind::Char { major, minor })?,
            b'4' => device().map(|(major, minor)| Kind::Block { major, minor })?,
            b'5' => Kind::Dir,
            b'6' => Kind::Fifo,
            b'S' => {
                return Err(UnpackError::Bad(format!("{}: sparse files are not supported in layers", shown(&path))));
            }
            other => {
                return Err(UnpackError::Bad(format!("{}: unknown entry type {:?}", shown(&path), char::from(other))));
            }
        };
        // Only files have data; what other kinds say about their size is ignored, as other unpackers do.
        if matches!(header.entry_type().as_byte(), 0 | b'0' | b'7') {
            self.left = size;
            self.padding = size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| malformed("size"))? - size;
        }
        let id = |record: Option<u64>, field: io::Result<u64>, what: &str| {
            record
                .or(field.ok())
                .and_then(|id| u32::try_from(id).ok())
                .filter(|id| *id != u32::MAX)
                .ok_or_else(|| malformed(what))
        };
        Ok(Entry {
            uid: id(pax.uid, header.uid(), "owner")?,
            gid: id(pax.gid, header.gid(), "group")?,
            mode: header.mode().map_err(|_| malformed("mode"))? & 0o7777,
            mtime: match pax.mtime {
                Some(time) => time,
                None => (header.mtime().map_err(|_| malformed("time"))?.cast_signed(), 0),
            },
            link: pax.link.or(long_link).or_else(|| header.link_name_bytes().map(Into::into)).unwrap_or_default(),
            xattrs: pax.xattrs,
            kind,
            path,
        })
    }

    /// The next header; `None` at the end: a block of zeros, or the end of the bytes between two entries.
    fn header(&mut self) -> Result<Option<tar::Header>, UnpackError> {
        if self.source.fill_buf().map_err(UnpackError::from_io)?.is_empty() {
            return Ok(None);
        }
        let mut header = tar::Header::new_old();
        self.source.read_exact(header.as_mut_bytes()).map_err(UnpackError::from_io)?;
        let bytes = header.as_bytes();
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        // The checksum counts its own field as spaces.
        let sum: u32 =
            bytes.iter().enumerate().map(|(i, &b)| if (148..156).contains(&i) { 32 } else { b.into() }).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(UnpackError::Bad("not a tar archive, or a damaged one: wrong checksum in a header".to_owned()));
        }
        Ok(Some(header))
    }

    /// The data of a long name or an extended header.
    fn extension(&mut self, header: &tar::Header) -> Result<Vec<u8>, UnpackError> {
        let size = header.entry_size().ok().filter(|size| *size <= MAX_EXTENSION);
        let size = size.ok_or_else(|| UnpackError::Bad("a long name or extended header is too long".to_owned()))?;
        let mut data = Vec::new();
        self.source.by_ref().take(size).read_to_end(&mut data).map_err(UnpackError::from_io)?;
        if data.len() as u64 != size {
            return Err(UnpackError::from_io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.skip(size.next_multiple_of(BLOCK as u64) - size)?;
        Ok(data)
    }

    fn skip(&mut self, count: u64) -> Result<(), UnpackError> {
        self.source.skip(count).map_err(UnpackError::from_io)
    }
}

/// Long names end with a zero byte.
fn until_zero(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use minke_testkit::{Entry as Item, EntryKind, Layer};
    use proptest::prelude::*;

    use super::*;
    use crate::image::unpack::Limits;

    impl Source for &[u8] {}

    fn read(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, UnpackError> {
        let budget = Budget::new(Limits::default());
        let mut source = bytes;
        let mut stream = Stream::new(&mut source, &budget);
        let mut entries = Vec::new();
        while let Some(entry) = stream.next()? {
            let mut data = Vec::new();
            stream.copy(|bytes| {
                data.extend_from_slice(bytes);
                Ok(())
            })?;
            entries.push((entry, data));
        }
        Ok(entries)
    }

    #[test]
    fn entries_with_long_names_and_attributes_are_read() {
        let long = "x/".repeat(300);
        let layer = Layer::new()
            .entry(
                Item::new(&long, EntryKind::File(vec![7; 1000]), 0o6755).owner(1, 2).mtime(9).xattr("user.k", b"v\n"),
            )
            .symlink("s", "t".repeat(200))
            .entry(Item::new("c", EntryKind::Char { major: 1, minor: 3 }, 0o666));
        let entries = read(&layer.tar()).unwrap();
        assert_eq!(entries[0].0.path, long.as_bytes());
        assert_eq!(entries[0].0.kind, Kind::Dir, "a trailing slash makes a directory; its bytes are passed over");
        assert_eq!((entries[0].0.uid, entries[0].0.gid, entries[0].0.mode), (1, 2, 0o6755));
        assert_eq!(entries[0].0.mtime, (9, 0));
        assert_eq!(entries[0].0.xattrs, [(b"user.k".to_vec(), b"v\n".to_vec())]);
        assert_eq!(entries[1].0.link.len(), 200);
        assert_eq!(entries[2].0.kind, Kind::Char { major: 1, minor: 3 });
    }

    #[test]
    fn unread_data_is_skipped() {
        let tar = Layer::new().file("a", 0o644, vec![1; 513]).file("b", 0o644, b"").tar();
        let budget = Budget::new(Limits::default());
        let mut source = &tar[..];
        let mut stream = Stream::new(&mut source, &budget);
        assert_eq!(stream.next().unwrap().unwrap().path, b"a");
        assert_eq!(stream.next().unwrap().unwrap().path, b"b");
        assert_eq!(stream.next().unwrap(), None);
    }

    #[test]
    fn damage_is_noticed() {
        let tar = Layer::new().file("a", 0o644, vec![1; 600]).tar();
        for cut in [1, 511, 513, 1024, 1500] {
            assert!(read(&tar[..cut]).is_err(), "cut at {cut}");
        }
        let mut flipped = tar;
        flipped[3] ^= 1;
        assert!(read(&flipped).unwrap_err().to_string().contains("checksum"));
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn giant_extensions_are_not_read_into_memory() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::new(b'L'));
        header.set_size(1 << 40);
        header.set_cksum();
        assert!(read(header.as_bytes()).unwrap_err().to_string().contains("too long"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..2048), valid in any::<bool>()) {
            if valid && bytes.len() >= BLOCK {
                // A right checksum lets the bytes through to the rest of the parser.
                let mut header = tar::Header::from_byte_slice(&bytes[..BLOCK]).clone();
                header.set_cksum();
                bytes[..BLOCK].copy_from_slice(header.as_bytes());
            }
            let _ = read(&bytes);
        }
    }
}
