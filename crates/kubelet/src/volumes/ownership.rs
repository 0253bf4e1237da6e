//! Who owns the files of a volume: root of the Pod's user namespace, and the Pod's `fsGroup`.
//!
//! With `fsGroup`, everything belongs to that group, is readable (and in writable volumes writable) by it, and
//! directories pass the group on. Links are never followed.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid};

use super::VolumeFailure;
use super::error::os;

/// When existing files are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangePolicy {
    /// Each time.
    Always,
    /// Only when the volume's own directory is not right.
    OnRootMismatch,
}

/// Who owns the files of a Pod's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Host id of the Pod's root: 0, or the first of its range.
    pub root: u32,
    /// Host id of `fsGroup`.
    pub fs_group: Option<u32>,
    /// `fsGroupChangePolicy`.
    pub change: ChangePolicy,
}

const READ_ONLY: u32 = 0o440;
const READ_WRITE: u32 = 0o660;
const DIRECTORY: u32 = 0o2110;

impl Ownership {
    /// Gives a volume its owner. `read_only`: the group may not write.
    ///
    /// # Errors
    /// The machine refuses, with the file that it refuses.
    pub fn apply(&self, volume: &Path, read_only: bool) -> Result<(), VolumeFailure> {
        if self.root == 0 && self.fs_group.is_none() {
            return Ok(());
        }
        if self.change == ChangePolicy::OnRootMismatch && self.fits(volume, read_only)? {
            return Ok(());
        }
        self.apply_below(volume, read_only)
    }

    fn fits(&self, path: &Path, read_only: bool) -> Result<bool, VolumeFailure> {
        let stat = stat(path)?;
        let Some(gid) = self.fs_group else { return Ok(stat.st_uid == self.root) };
        let wanted = if read_only { READ_ONLY } else { READ_WRITE } | DIRECTORY;
        Ok(stat.st_gid == gid && stat.st_mode & wanted == wanted)
    }

    /// Depth first, the volume's own directory last: a crash leaves it not fitting, so that all is done again.
    fn apply_below(&self, path: &Path, read_only: bool) -> Result<(), VolumeFailure> {
        let stat = stat(path)?;
        let is = FileType::from_raw_mode(stat.st_mode);
        if is == FileType::Directory {
            let entries = std::fs::read_dir(path).map_err(VolumeFailure::io("list", path))?;
            for entry in entries {
                let entry = entry.map_err(VolumeFailure::io("list", path))?;
                self.apply_below(&entry.path(), read_only)?;
            }
        }
        // What belongs to some user of the Pod keeps its user.
        let uid = (stat.st_uid < self.root || (self.root > 0 && stat.st_uid == 0)).then_some(self.root);
        let gid = self.fs_group.or(uid);
        let (owner, group) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| VolumeFailure::io("change the owner of", path)(os(e)))?;
        if self.fs_group.is_none() || is == FileType::Symlink {
            return Ok(());
        }
        let group_bits = if read_only { READ_ONLY } else { READ_WRITE };
        let mode = stat.st_mode & 0o7777 | group_bits | if is == FileType::Directory { DIRECTORY } else { 0 };
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
            .map_err(|e| VolumeFailure::io("change the mode of", path)(os(e)))
    }
}

fn stat(path: &Path) -> Result<rustix::fs::Stat, VolumeFailure> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| VolumeFailure::io("look at", path)(os(e)))
}
