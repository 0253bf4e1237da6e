//! Helpers of Minke's tests and demo that need no other tool on the machine: images made in memory
//! ([`ImageBuilder`], [`busybox_image`]), a registry on loopback with faults on demand ([`Registry`]), state
//! directories that clean up after themselves ([`TempState`]), real containerds out of Debian's packages
//! ([`containerd::Containerd`]), and a real kube-apiserver with etcd ([`kube::KubeApi`]).

mod archive;
mod busybox;
mod command;
pub mod containerd;
mod image;
pub mod kube;
mod layer;
pub mod registry;
mod state;

pub use busybox::{BUSYBOX, busybox_image};
pub use command::piped;
pub use image::{Blob, Compression, Image, ImageBuilder, ImageIndex, Platform};
pub use layer::{Entry, EntryKind, Layer};
pub use registry::Registry;
pub use state::TempState;
