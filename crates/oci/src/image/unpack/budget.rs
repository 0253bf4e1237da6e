//! How much an image may take, so that a small download can't fill the disk.

use std::sync::atomic::{AtomicU64, Ordering};

use super::UnpackError;

/// Caps on one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all layers, uncompressed, metadata of the archives included.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Bytes of one path.
    pub path: usize,
}

impl Default for Limits {
    /// Far beyond honest images: 128 GiB, four million files.
    fn default() -> Self {
        Self { bytes: 128 << 30, entries: 4_000_000, path: 4000 }
    }
}

/// What is left of the [`Limits`] while the layers of one image are unpacked, possibly at the same time.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl Budget {
    /// A budget with nothing spent.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: AtomicU64::new(limits.bytes), entries: AtomicU64::new(limits.entries) }
    }

    /// Spends bytes.
    pub(super) fn bytes(&self, count: u64) -> Result<(), UnpackError> {
        let limit = self.limits.bytes;
        spend(&self.bytes, count)
            .ok_or_else(|| UnpackError::Bad(format!("the image is larger than {limit} bytes uncompressed")))
    }

    /// Spends one entry with this path.
    pub(super) fn entry(&self, path: &[u8]) -> Result<(), UnpackError> {
        let Limits { entries, path: longest, .. } = self.limits;
        if path.len() > longest {
            return Err(UnpackError::Bad(format!("a path is longer than {longest} bytes")));
        }
        spend(&self.entries, 1).ok_or_else(|| UnpackError::Bad(format!("the image has more than {entries} files")))
    }
}

fn spend(left: &AtomicU64, count: u64) -> Option<()> {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).is_ok().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_beyond_the_limits() {
        let budget = Budget::new(Limits { bytes: 10, entries: 1, path: 3 });
        assert!(budget.bytes(11).is_err());
        assert!(budget.bytes(10).is_ok());
        assert!(budget.bytes(1).is_err());
        assert!(budget.entry(b"long").unwrap_err().to_string().contains("longer than 3"));
        assert!(budget.entry(b"abc").is_ok());
        assert!(budget.entry(b"abc").unwrap_err().to_string().contains("more than 1 files"));
    }
}
