//! The rules that a Kubernetes API server holds objects to, with its field paths and its kinds of error.
//!
//! Everything is a pure function from a defaulted object to the list of rules that it breaks, all of them, in the
//! order of the object's fields. Entry points: [`validate_pod`], [`validate_job`], [`validate_deployment`],
//! [`validate_config_map`], [`validate_secret`]. [`unsupported`] is apart from them: it names what is right for a
//! cluster and can't be honoured by one machine.
//!
//! One file a concept: `names` (spellings), `metadata`, `pod` (the Pod as a whole), `containers`, `ports`, `env`,
//! `volumes` and `projected`, `mounts`, `resources`, `security`, `probes`, `dns`, `scheduling`.

mod configuration;
mod containers;
mod dns;
mod env;
mod error;
mod metadata;
mod mounts;
mod names;
mod path;
mod pod;
mod ports;
mod probes;
mod projected;
mod resources;
mod scheduling;
mod security;
mod support;
#[cfg(test)]
mod tests;
mod volume_kinds;
mod volumes;
mod workloads;

pub use configuration::{validate_config_map, validate_secret};
pub use error::{Reason, ValidationError};
pub use names::object_name;
pub use path::{FieldPath, Segment};
pub use pod::{validate_pod, validate_pod_template};
pub use support::unsupported;
pub(crate) use volume_kinds::sources;
pub use workloads::{validate_deployment, validate_job};
