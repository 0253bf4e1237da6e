//! Minke's embedded Kubernetes API: for one machine, small, durable, and faithful to what clients need.
//!
//! Here:
//! - [`access`]: who asks, and what they may.
//! - [`admission`]: what a new Pod is given beside its defaults.
//! - [`apply`]: server-side apply, and who owns which fields.
//! - [`custom`]: kinds that definitions bring: schemas, defaults, rules, names.
//! - [`engine`]: the verbs over any kind: create, list, watch, update, patch, delete, and what a server does by itself.
//! - [`error`]: what went wrong, as clients read it.
//! - [`http`]: the front over HTTPS: discovery, negotiation, watches, limits.
//! - [`kinds`]: which kinds there are, as data.
//! - [`openapi`]: what kubectl reads before it writes, and what it explains.
//! - [`patch`]: JSON, merge and strategic merge patches.
//! - [`proto`]: protobuf bodies.
//! - [`scheduler`]: which node a Pod goes to.
//! - [`schema`]: what the types are.
//! - [`store`]: revisioned objects, durable and watched.
//! - [`strict`]: bodies to objects, as upstream's typed decoding has it.
//! - [`table`]: what `kubectl get` prints.
//!
//! Deliberately absent: webhooks, aggregation, quotas, more than one server, workload controllers. Who needs them uses the
//! real API server; nothing of Minke depends on this one.

pub mod access;
pub mod admission;
pub mod apply;
pub mod custom;
pub mod engine;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod kinds;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod scheduler;
pub mod schema;
pub mod store;
pub mod strict;
pub mod table;

pub use error::{ApiError, Cause, Details, Reason};
