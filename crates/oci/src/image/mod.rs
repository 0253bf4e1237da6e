//! Images: fetched from registries or archives, verified, unpacked once and kept until removed.
//!
//! The way of a pull, and who hands over to whom:
//! ```text
//! pull (one flight per image and credentials) ── registry (login, manifest, blobs)
//!   │ manifest, configuration (digests checked)
//!   ▼
//! each layer, several at once:  download ──bytes──► unpack (digest of the blob, decompression, digest of the
//!   │                                               content, tree)
//!   ▼                                                   │ finished tree in a scratch directory
//! store: layer published by rename ◄────────────────────┘
//!   │ all layers there, file system synced
//!   ▼
//! store: image published, then its names
//! ```
//! [`import`](ImageStore::import) goes the same way with an archive in the registry's place.
//!
//! Compressed blobs are not kept: a layer is needed unpacked, a second pull needs only the manifest, and the disk
//! is better used otherwise. What is lost is pushing an image unchanged, which Minke does not do.

mod config;
mod digest;
mod error;
mod import;
mod ingest;
mod manifest;
mod pull;
mod reference;
mod registry;
mod store;
mod unpack;

pub use config::ImageConfig;
pub use digest::{Digest, Hasher, InvalidDigest};
pub use error::StoreError;
pub use import::{ImportSource, Imported};
pub use pull::PullConfig;
pub use reference::Reference;
pub use store::{ImageStore, Keep, Lease, Pruned, RootAttributes, StoreConfig};
pub use unpack::{Limits, unpack_layer};
