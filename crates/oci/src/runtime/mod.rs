//! The Runtime port over shims, the image store and the Pod network.
//!
//! ```text
//! EmbeddedRuntime ── sandboxes ── shim::Client ── shim (one per Pod)
//!        │               └─ network::Network
//!        ├── containers ── image::ImageStore (leases)
//!        ├── events ◄── monitor: each shim's pushes; the end of a connection is the death of a shim
//!        └── recover: at open, everything on disk against everything that answers
//! ```
//! Every call that changes something runs in a task of its own to its end, whether or not its caller still waits.
//! One call at a time changes one sandbox or one container; what a container does is told by a watch channel.

mod attach;
mod config;
mod containers;
mod destroy;
mod embedded;
mod error;
mod events;
mod exec;
mod exec_streams;
mod files;
mod host;
mod images;
mod monitor;
mod record;
mod recover;
mod sandboxes;
mod state;
mod stats;
mod stop;
mod weights;

pub use config::EmbeddedConfig;
pub use embedded::EmbeddedRuntime;
pub use error::OpenError;
pub use record::images_in_use;
