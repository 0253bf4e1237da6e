//! The reading half of the OCI distribution protocol.
//!
//! A [`Session`] is one repository seen with one login. Tokens live in it and nowhere else, so that what one Pod's
//! secret opened stays closed to the next Pod; only connections are shared.
//!
//! Written on the HTTP client rather than on `oci-client`: that one reads manifests of any size into memory, knows
//! no identity tokens, hides why a login failed, and gives `Retry-After` to nobody.

mod challenge;
mod docker_config;
mod error;
mod helper;
mod http;
mod session;

pub(crate) use docker_config::DockerConfigs;
pub(crate) use error::RegistryError;
pub(crate) use http::Http;
pub(crate) use session::Session;
