//! The Runtime port with no daemon: images, snapshots, a shim process for each Pod, network, logs.
//!
//! [`EmbeddedRuntime`] is the whole of it. A program that opens one must begin its `main` with [`reexec`], as the
//! shims are the program itself, started again.

mod cgroup;
mod create;
pub mod image;
mod layout;
mod log;
pub mod network;
mod open_files;
mod runtime;
mod seccomp;
mod shim;
pub mod snapshot;

pub use open_files::raise_open_files;
pub use runtime::{EmbeddedConfig, EmbeddedRuntime, OpenError, images_in_use};

/// Becomes a shim when this process was started as one, and returns its exit code when it is done; `None` in any
/// other process. To be called first in `main`, before any thread exists.
#[must_use]
pub fn reexec() -> Option<std::process::ExitCode> {
    shim::reexec()
}
