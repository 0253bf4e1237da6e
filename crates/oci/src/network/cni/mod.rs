//! CNI: the plugins of the machine instead of the built-in bridge (CNI specification 0.3.1 to 1.1.0).
//!
//! ```text
//! conflist.rs  which chain the machine has set up      (files → Chain)
//! invoke.rs    one plugin, one command                 (process, time limit, errors in words)
//! chain.rs     ADD in order, DEL in reverse            (pure: what each plugin is given)
//! result.rs    what the chain answers                  (JSON → addresses)
//! ```
//! The chain is kept with the sandbox's record as it was at ADD, so DEL gives the plugins the same configuration even
//! when the files have changed since, and after a crash in the middle of ADD.

mod chain;
mod conflist;
mod invoke;
mod result;

pub(super) use chain::{Call, CniAttachment, add, del};
pub(super) use conflist::{Chain, find};
pub use invoke::CniError;
