//! How the Pod network is set up on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::subnet::{Ipv4Subnet, Ipv6Subnet};

/// Where the addresses of one family come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressPool<S> {
    /// A subnet that no route of this machine overlaps, chosen once and kept while Pods use it.
    #[default]
    Auto,
    /// This subnet. One that overlaps a route of the machine is refused.
    Subnet(S),
    /// No addresses of this family.
    Off,
}

/// When and how CNI plugins are used instead of the built-in bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CniConfig {
    /// Directory of `*.conflist`, `*.conf` and `*.json`; the first by name counts.
    pub conf_dir: PathBuf,
    /// Directories of plugin binaries, searched in this order.
    pub bin_dirs: Vec<PathBuf>,
    /// How long one plugin may take before it is killed.
    pub timeout: Duration,
}

impl Default for CniConfig {
    fn default() -> Self {
        Self {
            conf_dir: PathBuf::from("/etc/cni/net.d"),
            bin_dirs: ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"].map(PathBuf::from).to_vec(),
            timeout: Duration::from_secs(60),
        }
    }
}

/// Settings of the Pod network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The runtime's state directory; everything here is kept in its `network` subdirectory.
    pub state: PathBuf,
    /// Name of the bridge and of the nft table, at most 15 bytes. `None`: `minke0`, or a name made from the state
    /// directory when another instance on this machine has that one.
    pub bridge: Option<String>,
    /// IPv4 addresses.
    pub ipv4: AddressPool<Ipv4Subnet>,
    /// IPv6 addresses. Without IPv6 in the kernel this is as good as [`AddressPool::Off`], with a warning.
    pub ipv6: AddressPool<Ipv6Subnet>,
    /// MTU of the Pods' interfaces in bytes. `None`: that of the default route's interface.
    pub mtu: Option<u32>,
    /// `None`: always the built-in bridge.
    pub cni: Option<CniConfig>,
    /// Held (`flock`) while what the instances of one machine share is changed: the choice of subnets and bridge names,
    /// and kernel parameters. What was changed is recorded beside it; both belong where a restart of the machine
    /// clears them.
    pub machine_lock: PathBuf,
    /// What goes wrong in a test.
    #[cfg(test)]
    pub(super) fault: super::fault::Fault,
}

impl NetworkConfig {
    /// The defaults for a state directory.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            bridge: None,
            ipv4: AddressPool::Auto,
            ipv6: AddressPool::Auto,
            mtu: None,
            cni: Some(CniConfig::default()),
            machine_lock: PathBuf::from("/run/minke-network.lock"),
            #[cfg(test)]
            fault: super::fault::Fault::None,
        }
    }

    /// The directory that holds everything of the network.
    pub(super) fn directory(&self) -> PathBuf {
        self.state.join("network")
    }

    /// Kernel parameters that were changed for the instances of this machine, with their former values.
    pub(super) fn machine_record(&self) -> PathBuf {
        self.machine_lock.with_extension("sysctls.json")
    }
}

/// The directories below [`NetworkConfig::directory`].
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// One symbolic link for each address in use: `10.88.0.7 -> <sandbox id>`.
    pub(super) fn addresses(&self) -> PathBuf {
        self.root.join("ipam")
    }

    /// One symbolic link for each host port in use: `tcp-8080-any -> <sandbox id>`.
    pub(super) fn ports(&self) -> PathBuf {
        self.root.join("ports")
    }

    /// One JSON file for each attached sandbox.
    pub(super) fn records(&self) -> PathBuf {
        self.root.join("sandboxes")
    }

    /// Guards the three directories above against another process.
    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Bridge name and subnets that this state directory uses.
    pub(super) fn instance(&self) -> PathBuf {
        self.root.join("instance.json")
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
