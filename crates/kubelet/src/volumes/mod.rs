//! Volumes of a Pod, and the files that Kubernetes gives every container.
//!
//! [`plan()`] says what is to be made (pure); [`set_up()`] makes it below the Pod's directory; [`container_mounts`] says
//! what of it a container sees, and where; [`tear_down()`] undoes it all. Everything is idempotent, so a set-up or
//! teardown that was cut off is simply done again. The functions that do I/O block: call them on a blocking thread.
//!
//! ```text
//! <pod directory>/volumes/kubernetes.io~<kind>/<volume>        what volumes hold
//!                /volume-subpaths/<volume>/<container>/<n>     one bind mount each
//!                /containers/<container>/<attempt>             termination messages
//!                /etc-hosts
//! ```

mod atomic_writer;
mod empty_dir;
mod error;
mod host_path;
mod mount_table;
mod mounts;
mod ownership;
mod payload;
mod plan;
mod pod_files;
mod set_up;
mod subpath;
mod tear_down;

pub use atomic_writer::{FileContent, Payload, write_atomically};
pub use error::{VolumeError, VolumeFailure};
pub use mounts::{MountInput, container_mounts};
pub use ownership::{ChangePolicy, Ownership};
pub use plan::*;
pub use pod_files::*;
pub use set_up::{set_up, volume_directory};
pub use tear_down::tear_down;

#[cfg(test)]
mod tests;
