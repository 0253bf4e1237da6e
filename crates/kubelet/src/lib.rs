//! Minke's kubelet core: takes Pods that someone wants and sees them through, over any [`minke_core::runtime::Runtime`].

pub mod admission;
mod api;
pub mod cache;
pub mod checkpoint;
pub mod eviction;
pub mod host;
pub mod housekeeping;
pub mod images;
mod kubelet;
pub mod logs;
pub mod metrics;
mod moment;
pub mod pleg;
mod pod_set;
pub mod probes;
pub mod provider;
pub mod runonce;
pub mod source;
pub mod spec;
mod static_pods;
pub mod sync;
pub mod timeline;
pub mod volumes;
pub mod worker;

pub use api::*;
pub use kubelet::{Admit, AdmitAll, ExecError, Kubelet, Ports, StartError, Subscription, streams_of};
pub use static_pods::{StaticPods, StaticSource};
