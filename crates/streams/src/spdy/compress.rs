//! Header blocks are one zlib stream a direction, over all frames of a connection.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::DICTIONARY;
use super::frame::{FrameError, MOST_BLOCK};

/// Room that is made at a time.
const STEP: usize = 1 << 10;

/// Unpacks.
#[derive(Debug)]
pub(super) struct Inflater(Decompress);

impl Inflater {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// A block as it was. One that grows beyond [`MOST_BLOCK`] is refused before it has taken the memory.
    pub(super) fn unpack(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut block = Vec::new();
        let mut knows = false;
        loop {
            block.reserve(STEP);
            let before = (self.0.total_in(), block.len());
            let status = self.0.decompress_vec(packed, &mut block, FlushDecompress::Sync);
            let taken = usize::try_from(self.0.total_in() - before.0).map_err(|_| FrameError::Compression)?;
            packed = packed.get(taken..).ok_or(FrameError::Compression)?;
            match status {
                Ok(Status::Ok | Status::BufError | Status::StreamEnd) => {}
                Err(error) if error.needs_dictionary().is_some() && !knows => {
                    knows = true;
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| FrameError::Compression)?;
                    continue;
                }
                Err(_) => return Err(FrameError::Compression),
            }
            if block.len() > MOST_BLOCK {
                return Err(FrameError::TooLarge);
            }
            if packed.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
            if taken == 0 && block.len() == before.1 {
                return Err(FrameError::Compression);
            }
        }
    }
}

/// Packs.
#[derive(Debug)]
pub(super) struct Deflater(Compress);

impl Deflater {
    pub(super) fn new() -> Result<Self, FrameError> {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&DICTIONARY).map_err(|_| FrameError::Compression)?;
        Ok(Self(compress))
    }

    pub(super) fn pack(&mut self, mut block: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut packed = Vec::new();
        loop {
            packed.reserve(STEP);
            let before = self.0.total_in();
            self.0.compress_vec(block, &mut packed, FlushCompress::Sync).map_err(|_| FrameError::Compression)?;
            let taken = usize::try_from(self.0.total_in() - before).map_err(|_| FrameError::Compression)?;
            block = block.get(taken..).ok_or(FrameError::Compression)?;
            // With room left, everything was flushed.
            if block.is_empty() && packed.len() < packed.capacity() {
                return Ok(packed);
            }
        }
    }
}
