//! The API over HTTP: a thin front over the engine.
//!
//! ```text
//! serve: connections, TLS, limits ──► handle: who (access) ─► may they (permit) ─► what (route, query, accept: pure) ─► Engine ─► form: bytes
//! ```
//!
//! On hyper, without a framework: paths have six shapes and a kind is data, so a router would be a table of the same rows
//! again; watches and upgrades want the connection's own body anyway. It brings no dependency that is not there.

pub(crate) mod accept;
mod body;
mod discovery;
mod documents;
pub(crate) mod form;
mod handle;
mod impersonate;
mod metrics;
mod permit;
mod pods;
pub(crate) mod query;
mod review;
pub(crate) mod route;
mod serve;
mod strict;
mod usage;
mod write;

pub use pods::NodeClient;
pub use serve::{Limits, ServeError, Server};
