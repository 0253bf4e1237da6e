//! Where a Pod may run: what it asks of a node's labels and name, which taints it stands, which ports of the host it
//! wants.
//!
//! Both who chooses a node and the node itself ask these, so that they agree.

mod affinity;
mod ports;
mod taints;

pub use affinity::{node_affinity_fits, term_fits};
pub use ports::{HostPort, host_ports, protocol};
pub use taints::tolerates;
