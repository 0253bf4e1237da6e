//! The files of an archive or a directory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::image::manifest::MAX_CONFIG;
use crate::image::store::{Inner, Scratch};
use crate::image::unpack::{Budget, Compression, TarKind, TarSource, TarStream, UnpackError, decompress};

/// Most links that are followed from one name.
const MAX_LINKS: usize = 8;

/// Files by their names.
pub(super) enum Archive {
    /// A directory.
    Directory(PathBuf),
    /// An uncompressed tar, and where in it each file is.
    Tar { file: File, members: HashMap<Vec<u8>, Member> },
}

/// A file's bytes and how many they are.
type Contents<'a> = (Box<dyn Read + Send + 'a>, u64);

/// What a name in a tar is.
pub(super) enum Member {
    File {
        offset: u64,
        size: u64,
    },
    /// Another name.
    Link(Vec<u8>),
}

impl Archive {
    /// Opens a directory or an archive. A compressed archive is decompressed into the scratch directory.
    pub(super) fn open(store: &Inner, path: &Path) -> Result<(Self, Option<Scratch>), UnpackError> {
        let unreadable = |error: io::Error| UnpackError::Bad(format!("can't read it: {error}"));
        let meta = path.metadata().map_err(unreadable)?;
        if meta.is_dir() {
            return Ok((Self::Directory(path.to_owned()), None));
        }
        let mut file = File::open(path).map_err(unreadable)?;
        if !meta.is_file() {
            return Self::spool(store, file);
        }
        let mut start = [0; 4];
        let length = file.read_at(&mut start, 0).map_err(unreadable)?;
        if Compression::of(&start[..length]) != Compression::Plain {
            return Self::spool(store, file);
        }
        file.rewind().map_err(unreadable)?;
        Ok((Self::index(store, file)?, None))
    }

    /// Reads an archive that can be read only once, or is compressed, into the scratch directory.
    pub(super) fn spool(store: &Inner, source: impl Read + Send) -> Result<(Self, Option<Scratch>), UnpackError> {
        let scratch = store.scratch()?;
        let path = scratch.path().join("archive.tar");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(UnpackError::storage("create", &path))?;
        let limit = store.config.limits.bytes;
        let reader = decompress(source).map_err(UnpackError::Source)?;
        let copied = copy(reader.take(limit.saturating_add(1)), &mut file, &path)?;
        if copied > limit {
            return Err(UnpackError::Bad(format!("it is larger than {limit} bytes uncompressed")));
        }
        file.rewind().map_err(UnpackError::storage("read", &path))?;
        Ok((Self::index(store, file)?, Some(scratch)))
    }

    fn index(store: &Inner, file: File) -> Result<Self, UnpackError> {
        let mut reader = Counted { source: BufReader::with_capacity(1 << 16, &file), position: 0 };
        let budget = Budget::new(store.config.limits);
        let mut stream = TarStream::new(&mut reader, &budget);
        let mut members = HashMap::new();
        while let Some(entry) = stream.next()? {
            let member = match entry.kind {
                TarKind::File { size } => Member::File { offset: stream.source.position, size },
                TarKind::Symlink => {
                    let parent = entry.path.rsplitn(2, |&b| b == b'/').nth(1).unwrap_or_default();
                    Member::Link(normal(&[parent, b"/", &entry.link].concat()))
                }
                TarKind::Hardlink => Member::Link(normal(&entry.link)),
                TarKind::Dir | TarKind::Char { .. } | TarKind::Block { .. } | TarKind::Fifo => continue,
            };
            members.insert(normal(&entry.path), member);
        }
        Ok(Self::Tar { file, members })
    }

    /// A file's bytes and size; `None` when there is no such file.
    fn find(&self, name: &str) -> Result<Option<Contents<'_>>, UnpackError> {
        match self {
            Self::Directory(root) => match File::open(root.join(name)) {
                Ok(file) => {
                    let size = file.metadata().map_err(UnpackError::Source)?.len();
                    Ok(Some((Box::new(file), size)))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(UnpackError::Bad(format!("can't read {name}: {error}"))),
            },
            Self::Tar { file, members } => {
                let mut name = normal(name.as_bytes());
                for _ in 0..MAX_LINKS {
                    match members.get(&name) {
                        None => return Ok(None),
                        Some(Member::Link(target)) => name.clone_from(target),
                        Some(Member::File { offset, size }) => {
                            return Ok(Some((Box::new(Slice { file, offset: *offset, left: *size }), *size)));
                        }
                    }
                }
                Err(UnpackError::Bad("links in the archive lead nowhere".to_owned()))
            }
        }
    }

    /// A file that must be there.
    pub(super) fn read(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, UnpackError> {
        match self.find(name)? {
            Some((reader, _)) => Ok(reader),
            None => Err(UnpackError::Bad(format!("{name:?} is missing from it"))),
        }
    }

    /// A JSON file, whole.
    pub(super) fn read_small(&self, name: &str) -> Result<Option<Vec<u8>>, UnpackError> {
        let Some((reader, size)) = self.find(name)? else {
            return Ok(None);
        };
        if size > MAX_CONFIG {
            return Err(UnpackError::Bad(format!("{name} is larger than {MAX_CONFIG} bytes")));
        }
        let mut bytes = Vec::new();
        reader.take(MAX_CONFIG).read_to_end(&mut bytes).map_err(UnpackError::Source)?;
        Ok(Some(bytes))
    }
}

/// Copies, telling failures of either side apart.
fn copy(mut from: impl Read, to: &mut File, path: &Path) -> Result<u64, UnpackError> {
    use std::io::Write as _;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(UnpackError::Bad(format!("can't read or decompress it: {error}"))),
        };
        to.write_all(&buffer[..count]).map_err(UnpackError::storage("write", path))?;
        total += count as u64;
    }
}

/// A name without empty parts and dots; `..` takes the part before it away.
fn normal(name: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// A part of a file, read without moving its position: several are read at once.
struct Slice<'a> {
    file: &'a File,
    offset: u64,
    left: u64,
}

impl Read for Slice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let longest = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..longest], self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A reader that knows where it is, and skips by seeking.
struct Counted<'a> {
    source: BufReader<&'a File>,
    position: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.position += count as u64;
        self.source.consume(count);
    }
}

impl TarSource for Counted<'_> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.source.seek_relative(count.try_into().map_err(io::Error::other)?)?;
        self.position += count;
        Ok(())
    }
}
