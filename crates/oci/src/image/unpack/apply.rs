//! What each entry of a layer does to the tree.

use std::path::Path;

use rustix::fs::{FileType, Timestamps};

use super::error::shown;
use super::parents::Needs;
use super::stream::{Entry, Kind, Source, Stream};
use super::tree::{self, SafePath, Tree};
use super::{Budget, UnpackError, Unpacked};
use crate::image::store::{LayerMeta, RootAttributes};

/// Prefix of the names that delete something.
const WHITEOUT: &[u8] = b".wh.";
/// Prefix of the names that mean something to the image format or its ancestors, and nothing to the tree.
const SPECIAL: &[u8] = b".wh..wh.";
/// Name that hides a directory's content below.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// File systems give out disk space in blocks of this size.
const BLOCK: u64 = 4096;

/// Reads a layer's archive into a tree.
pub(super) fn apply(source: &mut impl Source, root: &Path, budget: &Budget) -> Result<Unpacked, UnpackError> {
    let mut tree = Tree::open(root)?;
    let mut stream = Stream::new(source, budget);
    let mut state = State::default();
    while let Some(entry) = stream.next()? {
        state.entry(&mut tree, &mut stream, &entry)?;
    }
    // A link may stand before its target.
    let mut links = Vec::new();
    for (path, target) in state.links {
        if !tree.hardlink(&path, &target)? {
            links.push((path, target));
        }
    }
    for (path, times) in &state.times {
        tree.touch(path, times)?;
    }
    let inodes = state.inodes + tree.implicit.len() as u64;
    let size_bytes = state.bytes + tree.implicit.len() as u64 * BLOCK;
    Ok(Unpacked {
        meta: LayerMeta { size_bytes, inodes, root: state.root, opaque: state.opaque, boot_id: String::new() },
        needs: Needs { directories: tree.implicit, links },
    })
}

#[derive(Default)]
struct State {
    /// Hard links whose target was not there yet.
    links: Vec<(SafePath, SafePath)>,
    /// Directories' times, set when nothing is made in them any more.
    times: Vec<(SafePath, Timestamps)>,
    root: Option<RootAttributes>,
    opaque: bool,
    bytes: u64,
    inodes: u64,
}

impl State {
    fn entry<R: Source>(
        &mut self,
        tree: &mut Tree,
        stream: &mut Stream<'_, R>,
        entry: &Entry,
    ) -> Result<(), UnpackError> {
        let path = SafePath::new(&entry.path)?;
        if let Some((parent, name)) = path.split()
            && let Some(deleted) = name.strip_prefix(WHITEOUT)
        {
            return match (name, deleted) {
                (OPAQUE, _) => {
                    self.opaque |= parent.split().is_none();
                    tree.opaque(&parent)
                }
                (name, _) if name.starts_with(SPECIAL) => Ok(()),
                (_, b"" | b"." | b"..") => {
                    Err(UnpackError::Bad(format!("{}: a whiteout of nothing", shown(path.bytes()))))
                }
                (_, deleted) => {
                    self.inodes += 1;
                    tree.whiteout(&parent, deleted)
                }
            };
        }
        self.inodes += 1;
        match entry.kind {
            Kind::File { size } => {
                self.bytes += size.next_multiple_of(BLOCK);
                tree.file(&path, entry, |file| stream.copy(|bytes| tree::write(file, bytes, &path)))
            }
            Kind::Dir => {
                self.bytes += BLOCK;
                if path.split().is_none() {
                    self.root = Some(RootAttributes { mode: entry.mode, uid: entry.uid, gid: entry.gid });
                }
                tree.directory(&path, entry)?;
                self.times.push((path, tree::times(entry)));
                Ok(())
            }
            Kind::Symlink => tree.symlink(&path, entry),
            Kind::Hardlink => {
                let target = SafePath::new(&entry.link)?;
                if !tree.hardlink(&path, &target)? {
                    self.links.push((path, target));
                }
                Ok(())
            }
            Kind::Char { major, minor } => {
                tree.node(&path, entry, FileType::CharacterDevice, rustix::fs::makedev(major, minor))
            }
            Kind::Block { major, minor } => {
                tree.node(&path, entry, FileType::BlockDevice, rustix::fs::makedev(major, minor))
            }
            Kind::Fifo => tree.node(&path, entry, FileType::Fifo, 0),
        }
    }
}
