//! The kubelet's HTTP API over any provider: what the API server asks a node for.
//!
//! ```text
//! serve: connections, TLS ──► handle: what (route: pure) ─► who, may they (auth) ─► provider, or facts of the node
//!                                    │                                                     │
//!                                    └──── upgrade ──► streams: a task a session ◄─────────┘
//! ```
//!
//! Routes, statuses and texts are upstream's. Not here: `/run` (it runs commands by a plain request), files of the machine's logs,
//! profiling and flags, which upstream can switch off and which here are never on; `/metrics/cadvisor`, whose labels only
//! cAdvisor knows; checkpoints.

mod answer;
mod auth;
mod handle;
mod health;
mod logs;
mod metrics;
mod query;
mod rates;
mod resource;
mod route;
mod serve;
mod source;
mod streams;
mod summary;
mod tls;

pub use auth::{Access, KubeReviews, ReviewError, Reviews, User};
pub use serve::{Limits, ListenError, NodeApi, NodeServer};
pub use source::{Check, Held, NoFacts, NodeDisk, NodeFacts, NodeMemory, NodeUsage, PodSource};
pub use tls::{ServingCertificate, TlsError, server_config, server_config_without_certificate};
