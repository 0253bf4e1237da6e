//! GitHub: github.com, `*.ghe.com` and enterprise servers.
//!
//! [`auth`] gives the token, [`client`] makes the calls, [`scope`] knows the addresses, [`cache`] keeps what the forge says has
//! not changed.

pub mod auth;
mod cache;
mod client;
#[cfg(test)]
mod fake;
mod scope;

pub use auth::{AppKey, Credential};
pub use client::{Account, GitHub, GitHubSettings};
pub use scope::{BadScope, Scope};

#[cfg(test)]
pub(crate) use auth::tests::KEY as TEST_KEY;
