//! Logs of containers on disk: rotation, and the last words of containers that ended.

mod message;
mod rotate;

pub use message::*;
pub use rotate::*;
