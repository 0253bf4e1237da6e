//! Who asks, and what they may: deny by default.
//!
//! A client is whom its certificate names (signed by the server's own [`Authority`]), or whose bearer token is known
//! ([`Tokens`]) or signed by the server's own [`Issuer`] for a service account; anyone else is nobody and reads only whether the server is well. [`allows`] is fixed: administrators may
//! everything, nodes what a kubelet needs, controllers and schedulers their tables, everyone who is known discovery and to ask who
//! they are.

mod authority;
mod authorize;
pub(crate) mod bootstrap;
mod claims;
mod issuer;
mod name;
mod private;
mod request;
mod restrict;
mod roles;
mod tokens;

pub use authority::{AccessError, Authority, Identified};
pub use authorize::{Attempt, allows, allows_path, forbidden, forbidden_path, rules};
pub use claims::{Bound, Claims, TokenError};
pub use issuer::{ISSUER, Issuer};
pub(crate) use name::identity_of;
#[cfg(test)]
pub(crate) use request::tests::request as certificate_request;
pub use request::{CertificateRequest, RequestError};
pub use restrict::{creates, refers, touches};
pub use tokens::Tokens;

/// Those who may everything.
pub const ADMINISTRATORS: &str = "system:masters";
/// Those who become nodes.
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// Nodes.
pub const NODES: &str = "system:nodes";
/// Those who make and end Pods for others.
pub const CONTROLLERS: &str = "minke:controllers";
/// Those who watch over servers.
pub const MONITORS: &str = "system:monitoring";
/// Everyone who is known.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name: a certificate's common name.
    pub user: String,
    /// What tells two of one name apart; empty where nobody says.
    pub uid: String,
    /// The groups: a certificate's organisations.
    pub groups: Vec<String>,
    /// What else is known of them, in upstream's keys.
    pub extra: Vec<(String, String)>,
}

impl Identity {
    /// The node that this is, if it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let node = self.user.strip_prefix("system:node:")?;
        self.groups.iter().any(|group| group == NODES).then_some(node).filter(|node| !node.is_empty())
    }

    /// The same, as one who is known.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
