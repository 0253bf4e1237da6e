//! From a Pod to what a runtime is asked for: [`sandbox_config`] and [`container_config`], both pure.
//!
//! What comes from outside is handed in: [`NodeSettings`] says what the machine is like, volumes and pod files come as
//! mounts, images as their status, the environment resolved. Text of errors is upstream's where upstream has one.

mod container;
mod dns;
mod error;
mod hash;
mod host_dns;
mod hostname;
mod node;
mod sandbox;
mod security;
mod user_namespace;

pub use container::*;
pub use dns::*;
pub use error::*;
pub use hash::*;
pub use host_dns::*;
pub use hostname::*;
pub use node::*;
pub use sandbox::*;
pub use security::*;
pub use user_namespace::*;

#[cfg(test)]
mod tests;
