//! Which kernel parameters a Pod may set: those that are namespaced and can't harm its neighbours.

use k8s_openapi::api::core::v1::Pod;

use crate::spec::sysctl_name;

/// Upstream's safe set.
pub const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

/// The namespace that keeps a parameter to the Pod.
fn namespace_of(name: &str) -> Option<Namespace> {
    let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    if name == "kernel.sem" || ipc.iter().any(|prefix| name.starts_with(prefix)) {
        Some(Namespace::Ipc)
    } else if name.starts_with("net.") {
        Some(Namespace::Net)
    } else {
        None
    }
}

/// The first parameter that the Pod may not set, in upstream's words. `allowed` are names, or prefixes with a final
/// `*`, that the machine's owner allows beyond the safe set.
#[must_use]
pub fn forbidden_sysctl(pod: &Pod, allowed: &[String]) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let host_network = spec.host_network.unwrap_or(false);
    let host_ipc = spec.host_ipc.unwrap_or(false);
    let context = spec.security_context.as_ref()?;
    let forbidden = |name: &str| {
        let name = sysctl_name(name);
        let listed = allowed.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *entry == name,
        });
        match namespace_of(&name) {
            Some(Namespace::Ipc) if host_ipc => {
                Some(format!("forbidden sysctl: {name:?} not allowed with host ipc enabled"))
            }
            Some(Namespace::Net) if host_network => {
                Some(format!("forbidden sysctl: {name:?} not allowed with host net enabled"))
            }
            Some(_) if listed || SAFE_SYSCTLS.contains(&name.as_str()) => None,
            // Even an allowed one would change the machine when no namespace keeps it.
            Some(_) | None => Some(format!("forbidden sysctl: {name:?} not allowlisted")),
        }
    };
    context.sysctls.iter().flatten().find_map(|sysctl| forbidden(&sysctl.name))
}
