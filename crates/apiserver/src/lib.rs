//! Minke's embedded Kubernetes API: for one machine, small, durable, and faithful to what clients need.
//!
//! Here:
//! - [`error`]: what went wrong, as clients read it.
//! - [`schema`]: what the types are.
//! - [`store`]: revisioned objects, durable and watched.
//!
//! Not here yet: the engine over it, the HTTP front, the kinds, patches, protobuf bodies, tables, OpenAPI,
//! access.
//!
//! Deliberately absent: webhooks, aggregation, quotas, more than one server, workload controllers. Who needs them uses the
//! real API server; nothing of Minke depends on this one.

pub mod error;
pub mod schema;
pub mod store;

pub use error::{ApiError, Cause, Details, Reason};
