//! How much a container wrote.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::SnapshotError;

/// Disk use of a container's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

/// A walk ends here: a container with more files than this is known to have at least so many, and does not keep the
/// disk busy. It is far beyond what any limit on bytes allows.
const MOST_INODES: u64 = 4_000_000;

/// Adds up what is in the upper directory of a container's own directory. Files that come and go meanwhile may or
/// may not count.
///
/// # Errors
/// When a directory can't be read.
pub fn usage(directory: &Path) -> Result<Usage, SnapshotError> {
    let mut usage = Usage::default();
    let mut links = HashSet::new();
    let mut pending = vec![directory.join("upper")];
    while let Some(dir) = pending.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(SnapshotError::io("list", &dir)(error)),
        };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.nlink() > 1 && !meta.is_dir() && !links.insert(meta.ino()) {
                continue;
            }
            usage.inodes += 1;
            if usage.inodes >= MOST_INODES {
                return Ok(usage);
            }
            usage.bytes += meta.blocks() * 512;
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(usage)
}
