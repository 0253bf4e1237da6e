//! What a Kubernetes API server fills in when an object is created, so that everything after it can rely on it.
//!
//! [`default_pod`] and [`default_template`] fill in values; [`forget_server_fields`] takes out what only a server
//! writes (a manifest may be a dump of a running Pod); [`identify`] gives a Pod namespace, name and uid. Filling in
//! is idempotent: a second time changes nothing.

mod container;
mod identity;
mod pod;
mod probe;
mod static_pod;
mod volume;

pub use identity::{forget_server_fields, generated_name, identify, stable_suffix, stable_uid};
pub use pod::{default_pod, default_pod_spec, default_template};
pub use static_pod::*;
