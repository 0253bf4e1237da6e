//! Images of containers: present where the policy says so, pulled where needed, with back-off and upstream's words.
//!
//! [`ImageManager::ensure`] is the only door. Deciding (policy, back-off, credentials) is pure and stands in
//! [`PullPolicy`] and [`pull_credentials`]; the manager performs.

mod credentials;
mod manager;
mod name;
mod policy;

pub use credentials::*;
pub use manager::*;
pub use name::*;
pub use policy::*;
