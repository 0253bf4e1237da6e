//! Control groups as data: which hierarchies a machine has, and which files hold a limit. Pure; runtimes read and write.

mod class;
mod hierarchies;
mod limits;

pub use class::{LEAST_SHARES, class_of, together};
pub use hierarchies::{Controller, Hierarchies};
pub use limits::{NoController, Write, limits, shares, weight};
