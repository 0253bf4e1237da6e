//! The controller: sets, Pods, claims and forges in the world, each set's engine between them.
//!
//! ```text
//!  cluster ──sets, Pods, claims──► run: who is told what ──► task: one a set ──► book (pure): engine, claims, writes
//!  webhook ──jobs──► router (pure) ───┘      ▲                                       │ effects
//!  forge ◄──lists: one a scope ──────────────┘          perform: a task an effect ◄──┘
//!    ▲                                                     │
//!    └──registrations, removals────────────────────────────┴──► cluster: Pods, states, claims, Secrets, status
//! ```
//! Nothing waits for anything else: each call is a task of its own, and its answer is one more thing that is heard. A call to
//! the forge that hangs holds nobody up. All that is heard while a set decides is decided on in its next pass.
//!
//! Nothing is kept but in the cluster and at the forge: who starts anew lists both. What is in flight when a controller dies is
//! found out by the next one: a Pod by its name, a registration without a Pod by its own.
//!
//! [`Cluster`] is the port, [`KubeCluster`] the one over a Kubernetes client; [`Forges`] gives each set its
//! [`Forge`](crate::forge::Forge).

mod book;
mod cluster;
mod facts;
mod failures;
mod forges;
mod groups;
mod judges;
mod kube;
mod messages;
mod metrics;
mod objects;
mod perform;
mod run;
mod stages;
mod task;
mod writes;

pub use self::kube::KubeCluster;
pub use book::Book;
pub use cluster::{Cluster, ClusterError, News, NewsStream, Notice, ReadSet};
pub use facts::{facts, seen};
pub use forges::{Forges, GitHubForges, credential};
pub use messages::{Effect, Heard, PodToMake};
pub use metrics::Metrics;
pub use objects::{
    ANNOTATION_CONFIGURATION, ANNOTATION_RUNNER, FINALIZER, LABEL_BATCH, LABEL_SESSION, configuration_key,
};
pub use run::Controller;
pub use stages::Stage;
pub use writes::Write;
