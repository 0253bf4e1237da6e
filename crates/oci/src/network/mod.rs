//! The Pod network: a built-in bridge, or CNI plugins where the machine has them set up.
//!
//! ```text
//! Network (service.rs) ──► network thread (worker.rs): one call at a time for each sandbox
//!    ├─ addresses and host ports   ipam.rs, ports.rs over claims.rs (symbolic links under a lock)
//!    ├─ what was made, on disk     record.rs
//!    ├─ the machine's side         host.rs: instance.rs (choice), links.rs (rtnetlink), nat.rs (nlink), sysctl.rs
//!    ├─ the Pod's side             pod.rs inside netns.rs
//!    ├─ removing links             reaper.rs
//!    └─ plugins                    cni/
//! ```
//! A Pod has one interface, `eth0`, on a bridge of this state directory; it reaches other Pods directly, everything
//! else through the machine with the machine's address, and is reached through host ports. A Pod of the machine's own
//! network never comes here.

mod claims;
mod cni;
mod config;
mod dial;
mod error;
mod fault;
mod host;
mod instance;
mod ipam;
mod links;
mod lock;
mod nat;
mod netns;
mod pod;
mod ports;
mod reaper;
mod record;
mod request;
mod service;
mod subnet;
mod sysctl;
#[cfg(test)]
mod tests;
mod translation;
mod worker;

pub use cni::CniError;
pub use config::{AddressPool, CniConfig, NetworkConfig};
pub(crate) use dial::dial;
pub use error::NetworkError;
pub use nat::NatError;
pub use request::{AttachRequest, Attachment};
pub use service::Network;
pub use subnet::{InvalidSubnet, Ipv4Subnet, Ipv6Subnet};
