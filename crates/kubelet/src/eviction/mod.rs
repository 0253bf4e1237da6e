//! Eviction: a Pod goes when the machine runs out of memory, disk or process ids, so that the others can stay; and a
//! Pod that exceeds its own limits on ephemeral storage goes in any case.
//!
//! ```text
//!   gauge: what is left ─┐
//!                        ├─► state (pure): thresholds, conditions ─► manager (task): reclaim, measure, evict
//!   runtime: what Pods   │        rank: whom first
//!   use ─────────────────┘        limits: who exceeds its own
//! ```
//! [`state`] decides, `manager` performs. Conditions of the machine ([`crate::admission::Pressure`]) are told to
//! admission, which refuses Pods under them, and to people (`minke top`, `minke ps`).

mod candidate;
mod disk;
mod gauge;
mod limits;
mod manager;
mod message;
mod metrics;
mod rank;
mod signal;
pub mod state;
mod threshold;

pub use candidate::{Candidate, ContainerUsed, Space, Used, VolumeUsed};
pub use gauge::{Gauge, NoGauge, PodDisk};
pub use limits::{Limit, exceeded, has_limits};
pub use message::eviction_message;
pub use rank::rank;
pub use signal::{Level, Observations, Signal, UnknownSignal};
pub use threshold::{EvictionConfig, Threshold, ThresholdError, ThresholdValue, parse_value};

pub(crate) use gauge::MachineGauge;
pub(crate) use manager::{Evictor, NodeState, run};
pub(crate) use metrics::RoomMetrics;
