//! The Node object: registered, kept true, and alive by its lease.
//!
//! ```text
//!  NodeSource ──describes──► Ping ──► NodeMachine ──► get, create, patch ──► API
//!                                        ▲ uid of the object                 ▲
//!                            LeaseMachine ┴──► get, create, replace ─────────┘
//! ```
//! Three pure machines and one task that performs: [`ping`] says whether whoever knows the node answers, [`machine`] keeps the
//! object, [`lease`] holds the name. The lease comes first: of two agents with one name the second one touches nothing.
//! Every call is a task of its own, so that a slow status write delays no renewal and a provider that hangs delays nothing.

pub mod api;
mod conditions;
mod config;
mod handle;
pub mod lease;
pub mod machine;
mod object;
mod patch;
pub mod ping;
pub mod rbac;
mod run;
pub mod shutdown;
#[cfg(test)]
mod tests;

pub use conditions::{Described, conditions};
pub use config::NodeConfig;
pub use handle::{NodeError, NodeHandle};
pub use lease::NameTaken;
pub use object::desired_node;
pub use patch::{NodePatch, node_patch};
pub use run::NodeController;
