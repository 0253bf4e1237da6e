//! Minke's pod watcher: tells at once why a Pod will never work, on any cluster.
//!
//! ```text
//! Cluster (port) ──list, watch, get──► machine (pure, one a scope) ──judge──► Report of each subscriber
//!      ▲                                   │ actions                             │
//!      └────────────── watcher (one task a scope: performs, decides nothing) ────┘
//! ```
//!
//! [`machine`] decides: when to list, watch and poll, what is stale, what a deletion is. [`Watcher`] performs it over the
//! [`Cluster`] port, which [`KubeCluster`] fills with a client. Judging itself is [`minke_core::judgement`]. [`compat`] has the
//! semantics of GitLab Runner's watcher for those who move over.
//!
//! A complete use:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use minke_watch::{KubeCluster, Scope, Settings, Target, Watcher};
//!
//! let client = kube::Client::try_default().await?;
//! let scope = Scope::namespace("ci");
//! let watcher = Watcher::start(Arc::new(KubeCluster::new(client)), scope, Settings::default());
//! let mut pod = watcher.subscribe(Target::named("ci", "job-1"), 1);
//! loop {
//!     let report = pod.changed().await;
//!     match report.verdict {
//!         Some(verdict) if verdict.is_final() => break println!("{verdict:?}"),
//!         Some(_) | None => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod cluster;
pub mod compat;
pub mod machine;
mod metrics;
mod watcher;

pub use cluster::{Access, ApiFault, Cluster, KubeCluster, WatchItem, WatchStream};
pub use machine::{Counters, Observer, Report, Scope, Settings, Target, Whereabouts};
pub use metrics::Metrics;
pub use watcher::{Change, Everything, Subscription, Watcher};
