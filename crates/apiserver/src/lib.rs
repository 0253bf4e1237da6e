//! Minke's embedded Kubernetes API: for one machine, small, durable, and faithful to what clients need.
//!
//! Here:
//! - [`apply`]: server-side apply, and who owns which fields.
//! - [`error`]: what went wrong, as clients read it.
//! - [`openapi`]: what kubectl reads before it writes, and what it explains.
//! - [`patch`]: JSON, merge and strategic merge patches.
//! - [`proto`]: protobuf bodies.
//! - [`schema`]: what the types are.
//! - [`store`]: revisioned objects, durable and watched.
//! - [`strict`]: bodies to objects, as upstream's typed decoding has it.
//! - [`table`]: what `kubectl get` prints.
//!
//! Not here yet: the engine over it, the HTTP front, the kinds,
//! access.
//!
//! Deliberately absent: webhooks, aggregation, quotas, more than one server, workload controllers. Who needs them uses the
//! real API server; nothing of Minke depends on this one.

pub mod apply;
pub mod error;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod schema;
pub mod store;
pub mod strict;
pub mod table;

pub use error::{ApiError, Cause, Details, Reason};
