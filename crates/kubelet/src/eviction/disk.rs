//! How much directories hold. Blocking; call it on a blocking thread.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::candidate::Space;

/// Nothing is walked more often.
const LEAST_AGE: Duration = Duration::from_secs(5);
/// A walk may take one part in so many of the time.
const SHARE: u32 = 20;
/// A walk ends here: what holds more is known to hold at least so much.
const MOST_INODES: u64 = 4_000_000;
/// What was not asked for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
struct Measured {
    space: Space,
    at: Instant,
    next: Instant,
}

/// What walks of directories found; a directory whose walk takes long is walked less often.
#[derive(Debug, Default)]
pub(super) struct Directories {
    known: Mutex<HashMap<PathBuf, Measured>>,
}

impl Directories {
    /// How much a directory holds, itself left out; nothing when it is not there.
    pub(super) fn space(&self, path: &Path) -> Space {
        let now = Instant::now();
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(path).filter(|known| now < known.next) {
            return known.space;
        }
        let space = walk(path);
        let at = Instant::now();
        let measured = Measured { space, at, next: at + LEAST_AGE.max((at - now) * SHARE) };
        let mut known = lock();
        known.retain(|_, m| at - m.at < FORGOTTEN);
        known.insert(path.to_owned(), measured);
        space
    }
}

/// Never leaves the file system of `path` and never follows a link: a volume may hold mounts and links of others.
fn walk(path: &Path) -> Space {
    let mut space = Space::default();
    let Ok(root) = fs::symlink_metadata(path) else { return space };
    let mut links = HashSet::new();
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != root.dev() || (meta.nlink() > 1 && !meta.is_dir() && !links.insert(meta.ino())) {
                continue;
            }
            space = space + Space { bytes: meta.blocks() * 512, inodes: 1 };
            if space.inodes >= MOST_INODES {
                return space;
            }
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_two_names_counts_once_and_a_link_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a");
        fs::write(&file, vec![1; 50_000]).unwrap();
        fs::hard_link(&file, root.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/usr", root.path().join("usr")).unwrap();
        let space = walk(root.path());
        assert!(space.bytes >= 50_000 && space.bytes < 100_000, "{space:?}");
        assert_eq!(space.inodes, 2);
        assert_eq!(walk(&root.path().join("nowhere")), Space::default());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_just_walked_is_not_walked_again() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::default();
        assert_eq!(directories.space(root.path()).inodes, 0);
        fs::write(root.path().join("a"), "x").unwrap();
        assert_eq!(directories.space(root.path()).inodes, 0);
        tokio::time::advance(LEAST_AGE).await;
        assert_eq!(directories.space(root.path()).inodes, 1);
    }
}
