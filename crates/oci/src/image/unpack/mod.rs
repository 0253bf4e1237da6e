//! Layers from bytes to trees. Everything here treats the bytes as hostile.
//!
//! ```text
//! compressed bytes ─► pipe (a thread: digest of the blob, decompression) ─► chunks ─► stream (tar framing)
//!                                                     │                                   │ entries
//!                                                     └─ digest of the content             ▼
//!                                                                     apply (whiteouts, metadata) ─► tree (dirfds)
//! ```
//! Hostile content can at worst fail with [`UnpackError::Bad`]: paths are resolved by the kernel inside the tree's
//! root, `..` is refused, and sizes are bounded by a [`Budget`] before anything is written.
//!
//! A layer is unpacked by itself, without those below it, so that layers can be unpacked in any order, in parallel,
//! and shared by images. Those few that need the ones below get them at the end, in [`parents`].

mod apply;
mod budget;
mod decompress;
mod error;
mod parents;
mod pax;
mod pipe;
mod stream;
mod tree;

use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use budget::Budget;
pub use budget::Limits;
pub(crate) use decompress::{Compression, decompress};
pub(crate) use error::UnpackError;
pub(crate) use parents::Needs;
pub(crate) use pipe::ExpectedBlob;
pub(crate) use stream::{Kind as TarKind, Source as TarSource, Stream as TarStream};

use super::Digest;
use super::store::LayerMeta;

/// A layer in a scratch directory.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// Its facts.
    pub(crate) meta: LayerMeta,
    /// What it needs from the layers below.
    pub(crate) needs: Needs,
}

impl Unpacked {
    /// Takes what the layer needs from those below it, whose trees are given lowest first.
    pub(crate) fn complete(&mut self, tree: &Path, below: &[PathBuf], budget: &Budget) -> Result<(), UnpackError> {
        let extra = parents::complete(tree, &self.needs, below, budget)?;
        self.meta.size_bytes += extra.bytes;
        self.meta.inodes += extra.inodes;
        Ok(())
    }
}

/// Unpacks one layer into `root`, a new empty directory, and checks that `source` is the expected blob and its
/// content has the expected digest. Blocks; run it where that is fine.
///
/// After an error the contents of `root` are to be thrown away.
pub(crate) fn unpack(
    source: impl Read + Send,
    blob: Option<ExpectedBlob>,
    diff_id: &Digest,
    root: &Path,
    budget: &Budget,
) -> Result<Unpacked, UnpackError> {
    std::fs::create_dir(root).map_err(UnpackError::storage("create", root))?;
    pipe::run(source, blob, diff_id, budget, |chunks| apply::apply(chunks, root, budget))
}

/// Unpacks a gzip, zstd or plain tar of a layer, as a pull does once the bytes are there, and returns how many bytes
/// the content has. For benchmarks against other unpackers.
///
/// # Errors
/// What is wrong with the layer, or with the disk.
pub fn unpack_layer(source: impl Read + Send, diff_id: &Digest, root: &Path, limits: Limits) -> Result<u64, String> {
    let budget = Budget::new(limits);
    unpack(source, None, diff_id, root, &budget)
        .map(|unpacked| unpacked.meta.size_bytes)
        .map_err(|error| minke_core::runtime::error_chain(&error))
}
