//! Two threads for each layer: one reads, checks the blob's digest and decompresses; the other checks the content's
//! digest, reads the archive and writes the tree. Decompression, the dearest part, thus overlaps with writing.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::decompress::decompress;
use super::{Budget, UnpackError, Unpacked};
use crate::image::{Digest, Hasher};

/// Bytes of one chunk between the threads.
const CHUNK: usize = 256 * 1024;
/// Chunks that wait between the threads.
const CHUNKS: usize = 4;

/// What a manifest says of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedBlob {
    /// Its digest.
    pub(crate) digest: Digest,
    /// Its size in bytes.
    pub(crate) size: u64,
}

/// A reader that checks at the end that what it read is the expected blob, and never reads more.
struct Verified<R> {
    source: R,
    expected: ExpectedBlob,
    hasher: Option<Hasher>,
    left: u64,
}

impl<R: Read> Verified<R> {
    fn new(source: R, expected: ExpectedBlob) -> Self {
        let (hasher, left) = (Some(expected.digest.hasher()), expected.size);
        Self { source, expected, hasher, left }
    }

    /// Checks what can be checked only now.
    fn at_end(&mut self) -> io::Result<usize> {
        let Some(hasher) = self.hasher.take() else {
            return Ok(0);
        };
        let mismatch = |found: String| {
            UnpackError::Digest { expected: format!("{} of {} bytes", self.expected.digest, self.expected.size), found }
                .into_io()
        };
        if self.left > 0 {
            return Err(mismatch(format!("{} bytes", self.expected.size - self.left)));
        }
        if self.source.read(&mut [0])? > 0 {
            return Err(mismatch("more bytes".to_owned()));
        }
        let found = hasher.finish();
        if found == self.expected.digest { Ok(0) } else { Err(mismatch(found.to_string())) }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let longest = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = if longest == 0 { 0 } else { self.source.read(&mut buffer[..longest])? };
        if count == 0 {
            return self.at_end();
        }
        self.left -= count as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}

/// Runs `consume` on the content of `source`; checks the digests of both.
pub(super) fn run(
    source: impl Read + Send,
    blob: Option<ExpectedBlob>,
    diff_id: &Digest,
    budget: &Budget,
    consume: impl FnOnce(&mut Chunks<'_>) -> Result<Unpacked, UnpackError>,
) -> Result<Unpacked, UnpackError> {
    let (full, chunks) = sync_channel(CHUNKS);
    let (empty, spare) = channel();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("unpack".to_owned()).stack_size(256 * 1024);
        thread
            .spawn_scoped(scope, move || match blob {
                Some(blob) => decompress_into(Source(Verified::new(source, blob)), &full, &spare),
                None => decompress_into(Source(source), &full, &spare),
            })
            .map_err(UnpackError::Source)?;
        let mut chunks = Chunks {
            chunks,
            empty,
            current: Vec::new(),
            position: 0,
            ended: false,
            hasher: Some(diff_id.hasher()),
            budget,
        };
        let consumed = match consume(&mut chunks) {
            // Nothing that may follow makes room on the disk.
            Err(error @ (UnpackError::Storage { .. } | UnpackError::Store(_))) => return Err(error),
            consumed => consumed,
        };
        // Whatever follows the archive still belongs to what the digests cover. A wrong digest explains a malformed
        // archive better than the archive does, so it is looked for even if that failed.
        match (consumed, chunks.drain()) {
            (_, Err(error @ UnpackError::Digest { .. })) => Err(error),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(found)) if found != *diff_id => Err(UnpackError::Digest {
                expected: format!("uncompressed content {diff_id}"),
                found: found.to_string(),
            }),
            (Ok(unpacked), Ok(_)) => Ok(unpacked),
        }
    })
}

type Chunk = io::Result<Vec<u8>>;

/// The first thread. It ends when the source does, at the first error, or when the other thread is gone.
fn decompress_into<R: Read + Send>(source: R, full: &SyncSender<Chunk>, spare: &Receiver<Vec<u8>>) {
    let send_all = || -> io::Result<()> {
        let mut reader = decompress(source).map_err(describe)?;
        loop {
            let mut chunk = spare.try_recv().unwrap_or_default();
            chunk.resize(CHUNK, 0);
            let mut length = 0;
            while length < CHUNK {
                match reader.read(&mut chunk[length..]) {
                    Ok(0) => break,
                    Ok(count) => length += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(describe(error)),
                }
            }
            chunk.truncate(length);
            if length == 0 || full.send(Ok(chunk)).is_err() {
                return Ok(());
            }
        }
    };
    if let Err(error) = send_all() {
        let _ = full.send(Err(error));
    }
}

/// Marks errors of the source, so that those of a decoder can be told from them.
struct Source<R>(R);

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ if error.get_ref().is_some_and(|inner| inner.is::<UnpackError>()) => error,
            _ => UnpackError::Source(error).into_io(),
        })
    }
}

/// An error that is not the source's is the decoder's.
fn describe(error: io::Error) -> io::Error {
    if error.get_ref().is_some_and(|inner| inner.is::<UnpackError>()) {
        return error;
    }
    UnpackError::Bad(format!("can't decompress the layer: {error}")).into_io()
}

/// The content of a layer, as it comes from the other thread, counted and hashed.
pub(super) struct Chunks<'a> {
    chunks: Receiver<Chunk>,
    empty: Sender<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
    ended: bool,
    hasher: Option<Hasher>,
    budget: &'a Budget,
}

impl Chunks<'_> {
    /// Reads on to the end; the digest of everything.
    fn drain(&mut self) -> Result<Digest, UnpackError> {
        loop {
            let length = self.fill_buf().map_err(UnpackError::from_io)?.len();
            if length == 0 {
                break;
            }
            self.consume(length);
        }
        match self.hasher.take() {
            Some(hasher) => Ok(hasher.finish()),
            None => Err(UnpackError::Bad("the layer was read twice".to_owned())),
        }
    }
}

impl BufRead for Chunks<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.position == self.current.len() && !self.ended {
            match self.chunks.recv() {
                Ok(Ok(chunk)) => {
                    self.budget.bytes(chunk.len() as u64).map_err(UnpackError::into_io)?;
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&chunk);
                    }
                    let used = std::mem::replace(&mut self.current, chunk);
                    let _ = self.empty.send(used);
                    self.position = 0;
                }
                Ok(Err(error)) => {
                    self.ended = true;
                    self.hasher = None;
                    return Err(error);
                }
                Err(_) => self.ended = true,
            }
        }
        Ok(&self.current[self.position..])
    }

    fn consume(&mut self, count: usize) {
        self.position = (self.position + count).min(self.current.len());
    }
}

impl super::stream::Source for Chunks<'_> {}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}
