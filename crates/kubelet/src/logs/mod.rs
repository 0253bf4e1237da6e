//! Logs of containers on disk: rotation, the last words of containers that ended, and reading them.
//!
//! Reading: finding the files ([`files`]), their lines ([`mod@line`]), over rotation and restarts ([`reader`]), waiting for more
//! ([`tail`]), and choosing a part ([`window`]). The shims write logs and the agent rotates them; a reader only reads, so logs
//! can be read without any agent.

pub mod files;
pub mod line;
mod message;
pub mod reader;
mod rotate;
pub mod tail;
pub mod window;

pub use message::*;
pub use rotate::*;
