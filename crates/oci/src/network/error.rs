//! Why the network of a sandbox could not be made or unmade.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use minke_core::runtime::{Operation, Protocol, RuntimeError, SandboxId};

use super::cni::CniError;
use super::nat::NatError;

/// A failed call on the Pod network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A file of the network's state can't be read or written.
    #[error("{action} {}", path.display())]
    State {
        /// "reading", "writing", …
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file of the network's state holds something else than it should.
    #[error("{} is damaged; remove it when no pod runs", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// Another process holds a lock for too long.
    #[error("another process has held {} for {} s", path.display(), after.as_secs())]
    Locked {
        /// Which lock.
        path: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// The thread that does the work is gone or could not be started.
    #[error("the network thread does not run")]
    Stopped {
        /// The cause, where the thread never started.
        #[source]
        source: Option<io::Error>,
    },
    /// A sandbox id that could leave a directory.
    #[error(
        "{0:?} can't be a sandbox id: it must be 1 to 128 letters, digits, '-', '_' or '.', and not start with '.'"
    )]
    BadSandboxId(String),
    /// A bridge name that the kernel would refuse.
    #[error("{0:?} can't be a bridge name: it must be 1 to 15 letters, digits, '-' or '_'")]
    BadBridgeName(String),
    /// The namespace can't be opened or entered.
    #[error("{action} network namespace {}", path.display())]
    Namespace {
        /// "opening", "entering", …
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The namespace is the machine's own. Attaching it would break the machine's network.
    #[error("{} is the machine's own network namespace, which needs no attaching", .0.display())]
    HostNamespace(PathBuf),
    /// Links, addresses or routes: the kernel refused.
    #[error("{action}{}", hint(source))]
    Netlink {
        /// What was tried.
        action: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Masquerade and host ports: the kernel refused.
    #[error("setting up address translation")]
    Nat {
        /// The cause.
        #[source]
        source: NatError,
    },
    /// A kernel parameter can't be set.
    #[error("setting {key}={value}; set it on the machine, or make /proc/sys writable")]
    Sysctl {
        /// The parameter as `sysctl` names it.
        key: String,
        /// The value it should have.
        value: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Both families are off, or the only one left is not in the kernel.
    #[error("no address family is left: IPv4 is off, and IPv6 is off or missing in this kernel")]
    NoFamily,
    /// A configured subnet overlaps a route of the machine.
    #[error("subnet {subnet} overlaps {route}; choose another subnet for pods")]
    SubnetInUse {
        /// The configured subnet.
        subnet: String,
        /// The route and its interface.
        route: String,
    },
    /// No subnet of the default pool is free.
    #[error("every default subnet for pods overlaps a route of this machine; configure one")]
    NoFreeSubnet,
    /// The bridge name belongs to something else.
    #[error(
        "an interface named {0} exists already and is not a bridge of this state directory; configure another bridge name"
    )]
    BridgeTaken(String),
    /// All addresses are in use.
    #[error("no address is left in {subnet}: {used} are in use; remove pods or configure a larger subnet")]
    Exhausted {
        /// The subnet.
        subnet: String,
        /// How many are in use.
        used: usize,
    },
    /// Another Pod has the host port.
    #[error("host port {port}/{} on {} is taken by sandbox {by}", protocol_name(*.protocol), address(*.ip))]
    PortTaken {
        /// Transport protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// The address asked for, `None` is every address.
        ip: Option<IpAddr>,
        /// Who has it.
        by: SandboxId,
    },
    /// A process of the machine listens on the host port.
    #[error("host port {port}/{} on {} is taken by a process of this machine", protocol_name(*.protocol), address(*.ip))]
    PortBusy {
        /// Transport protocol.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// The address asked for, `None` is every address.
        ip: Option<IpAddr>,
    },
    /// CNI plugins.
    #[error("cni network {network}")]
    Cni {
        /// Name in the conflist.
        network: String,
        /// The cause.
        #[source]
        source: CniError,
    },
    /// Several sandboxes could not be cleaned up; the first cause is the source.
    #[error("{count} sandboxes could not be cleaned up, the first is {first}")]
    Recovery {
        /// How many.
        count: usize,
        /// The first.
        first: SandboxId,
        /// Its cause.
        #[source]
        source: Box<NetworkError>,
    },
}

impl NetworkError {
    /// As the Runtime port has it: what the machine refuses and what can't work are told apart from the rest.
    #[must_use]
    pub fn into_runtime(self, operation: Operation) -> RuntimeError {
        let text = minke_core::runtime::error_chain(&self);
        match self {
            Self::PortTaken { .. }
            | Self::PortBusy { .. }
            | Self::SubnetInUse { .. }
            | Self::NoFreeSubnet
            | Self::NoFamily
            | Self::BadBridgeName(_)
            | Self::BadSandboxId(_)
            | Self::HostNamespace(_)
            | Self::BridgeTaken(_) => RuntimeError::Invalid { operation, message: text },
            Self::Netlink { ref source, .. } | Self::Sysctl { ref source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                RuntimeError::NotPermitted { operation, message: text }
            }
            other @ (Self::State { .. }
            | Self::Damaged { .. }
            | Self::Locked { .. }
            | Self::Stopped { .. }
            | Self::Namespace { .. }
            | Self::Netlink { .. }
            | Self::Nat { .. }
            | Self::Sysctl { .. }
            | Self::Exhausted { .. }
            | Self::Cni { .. }
            | Self::Recovery { .. }) => RuntimeError::failed(operation, other),
        }
    }

    pub(super) fn state(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::State { action, path: path.into(), source: source.into() }
    }
}

/// What to do about the errors of netlink that people can do something about.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (needs CAP_NET_ADMIN: run as root, or use hostNetwork)",
        io::ErrorKind::Unsupported => " (this kernel lacks bridges or veth pairs: use hostNetwork)",
        _ => "",
    }
}

pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

fn address(ip: Option<IpAddr>) -> String {
    ip.map_or_else(|| "every address".to_owned(), |ip| ip.to_string())
}
