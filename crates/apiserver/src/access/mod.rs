//! Who asks, and what they may: deny by default.
//!
//! A client is whom its certificate names (signed by the server's own [`Authority`]), or whose bearer token is known
//! ([`Tokens`]); anyone else is nobody and reads only whether the server is well. [`allows`] is fixed: administrators may
//! everything, nodes what a kubelet needs, everyone who is known discovery and nothing else.

mod authority;
mod authorize;
mod name;
mod private;
mod tokens;

pub use authority::{AccessError, Authority, Identified};
pub use authorize::{Attempt, allows, forbidden};
pub(crate) use name::identity_of;
pub use tokens::Tokens;

/// Those who may everything.
pub const ADMINISTRATORS: &str = "system:masters";
/// Nodes.
pub const NODES: &str = "system:nodes";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name: a certificate's common name.
    pub user: String,
    /// The groups: a certificate's organisations.
    pub groups: Vec<String>,
}
