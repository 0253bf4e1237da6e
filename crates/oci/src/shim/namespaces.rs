//! The Pod's namespaces: made by the shim for itself, or by a pause process where the shim can't be inside.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use minke_core::runtime::{NamespaceMode, NamespaceOptions};
use rustix::thread::UnshareFlags;

/// A namespace or kernel parameter that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("can't {step}")]
pub(super) struct NamespaceError {
    pub(super) step: String,
    #[source]
    pub(super) source: io::Error,
}

pub(super) fn failed<E: Into<io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> NamespaceError {
    let step = step.into();
    move |source| NamespaceError { step, source: source.into() }
}

/// Which of network, UTS and IPC the Pod has to itself. A Pod on the host's network has the host's name, too.
fn shared_flags(options: &NamespaceOptions) -> UnshareFlags {
    let mut flags = UnshareFlags::empty();
    if options.network != NamespaceMode::Node {
        flags |= UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
    }
    if options.ipc != NamespaceMode::Node {
        flags |= UnshareFlags::NEWIPC;
    }
    flags
}

/// Enters new namespaces and sets name and kernel parameters in them.
pub(super) fn enter(
    options: &NamespaceOptions,
    hostname: &str,
    sysctls: &BTreeMap<String, String>,
) -> Result<(), NamespaceError> {
    let flags = shared_flags(options);
    if !flags.is_empty() {
        #[expect(unsafe_code, reason = "unshare(2) of more than namespaces could break Rust's assumptions")]
        // SAFETY: only namespaces are unshared, and this process has one thread.
        unsafe { rustix::thread::unshare_unsafe(flags) }
            .map_err(failed("make the Pod's network, UTS and IPC namespaces; it needs CAP_SYS_ADMIN"))?;
    }
    if flags.contains(UnshareFlags::NEWUTS) {
        rustix::system::sethostname(hostname.as_bytes()).map_err(failed(format!("set the host name {hostname:?}")))?;
    }
    for (name, value) in sysctls {
        let path = sysctl_path(name)
            .ok_or(io::ErrorKind::InvalidInput)
            .map_err(failed(format!("set the kernel parameter {name:?}: it is not a name")))?;
        fs::write(&path, value).map_err(failed(format!("set the kernel parameter {name} to {value:?}")))?;
    }
    Ok(())
}

/// `/proc/sys/…` of a parameter, written with dots or slashes; the first of the two that appears separates.
fn sysctl_path(name: &str) -> Option<PathBuf> {
    let separator = name.find(['.', '/']).map(|at| &name[at..=at])?;
    let mut path = PathBuf::from("/proc/sys");
    for part in name.split(separator) {
        // With slashes between, a dot belongs to the part, and the other way round.
        let part = if separator == "." { part.replace('/', ".") } else { part.to_owned() };
        if part.is_empty() || part == "." || part == ".." || part.contains('/') {
            return None;
        }
        path.push(part);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_of_parameters_stay_below_proc_sys() {
        assert_eq!(sysctl_path("net.ipv4.ip_forward").unwrap(), Path::new("/proc/sys/net/ipv4/ip_forward"));
        assert_eq!(
            sysctl_path("net/ipv4/conf/eth0.1/forwarding").unwrap(),
            Path::new("/proc/sys/net/ipv4/conf/eth0.1/forwarding")
        );
        assert_eq!(
            sysctl_path("net.ipv4.conf.eth0/1.forwarding").unwrap(),
            Path::new("/proc/sys/net/ipv4/conf/eth0.1/forwarding")
        );
        for bad in ["", "kernel", "net/../../etc/passwd", "net..x", ".net", "net./.x"] {
            let path = sysctl_path(bad);
            assert!(
                path.as_ref().is_none_or(|p| p.starts_with("/proc/sys") && !p.to_string_lossy().contains("..")),
                "{bad}: {path:?}"
            );
        }
    }

    #[test]
    fn host_network_keeps_the_hosts_name() {
        let host = NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() };
        assert_eq!(shared_flags(&host), UnshareFlags::NEWIPC);
    }
}
