//! What is asked of the network and what it answers.

use std::net::IpAddr;
use std::path::PathBuf;

use minke_core::identity::PodKey;
use minke_core::runtime::{PortMapping, SandboxId};

/// One sandbox that wants a network.
#[derive(Debug, Clone)]
pub struct AttachRequest {
    /// Whose network; names everything that is made for it.
    pub sandbox: SandboxId,
    /// The Pod, for CNI plugins and messages.
    pub pod: PodKey,
    /// Its network namespace, for example `/proc/<pid>/ns/net`. The process must live until attach returns.
    pub netns: PathBuf,
    /// Host ports.
    pub ports: Vec<PortMapping>,
}

/// The network of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Addresses, primary first.
    pub ips: Vec<IpAddr>,
    /// The primary address's gateway; `None` where a CNI plugin names none.
    pub gateway: Option<IpAddr>,
}
