//! The sandbox of a Pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use minke_core::containers::all_containers;
use minke_core::identity::PodKey;
use minke_core::placement::protocol;
use minke_core::qos::qos_class;
use minke_core::resources::pod_resources;
use minke_core::runtime::{IdMapping, NamespaceMode, NamespaceOptions, PortMapping, SandboxConfig, labels};

use super::{NodeSettings, SpecError, pod_dns, pod_names, pod_seccomp};

/// What a sandbox is made from.
#[derive(Debug, Clone, Copy)]
pub struct SandboxInput<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its identity.
    pub key: &'a PodKey,
    /// Number of this sandbox.
    pub attempt: u32,
    /// The machine.
    pub node: &'a NodeSettings,
    /// Range of a Pod with `hostUsers: false`.
    pub user_namespace: Option<IdMapping>,
}

/// A sandbox, and what people should hear about it.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSpec {
    /// For the runtime.
    pub config: SandboxConfig,
    /// Texts of `DNSConfigForming` warning events.
    pub dns_warnings: Vec<String>,
}

/// Describes the sandbox of a Pod.
///
/// # Errors
/// The spec asks for what can't be.
pub fn sandbox_config(input: &SandboxInput<'_>) -> Result<SandboxSpec, SpecError> {
    let SandboxInput { pod, key, attempt, node, user_namespace } = *input;
    let spec = pod.spec.as_ref();
    if let Some(class) = spec.and_then(|s| s.runtime_class_name.as_deref()).filter(|c| !c.is_empty()) {
        return Err(SpecError::NoRuntimeClass(class.to_owned()));
    }
    let names = pod_names(pod, &node.name, &node.cluster_domain)?;
    let dns = pod_dns(pod, &node.host_dns);
    let config = SandboxConfig {
        pod: key.clone(),
        attempt,
        hostname: names.hostname,
        log_directory: node.log_directory.join(key.log_directory()),
        dns: dns.config,
        port_mappings: port_mappings(pod)?,
        labels: sandbox_labels(pod, key),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        cgroup_parent: pod_cgroup(pod, key, &node.cgroup_root),
        resources: pod_resources(pod, &node.limits),
        sysctls: sysctls(pod),
        namespaces: namespaces(pod, user_namespace),
        privileged: all_containers(pod).any(|c| is_privileged(c.security_context.as_ref())),
        seccomp: pod_seccomp(pod, &node.state_directory)?,
        runtime_handler: String::new(),
    };
    Ok(SandboxSpec { config, dns_warnings: dns.warnings })
}

/// The cgroup of a Pod: `<root>/{burstable|besteffort}/pod<uid>`, or `<root>/pod<uid>` for Guaranteed Pods.
#[must_use]
pub fn pod_cgroup(pod: &Pod, key: &PodKey, root: &str) -> String {
    let root = root.trim_end_matches('/');
    match qos_class(pod).cgroup_directory() {
        Some(class) => format!("{root}/{class}/pod{}", key.uid),
        None => format!("{root}/pod{}", key.uid),
    }
}

/// Which namespaces the Pod has to itself.
#[must_use]
pub fn namespaces(pod: &Pod, user: Option<IdMapping>) -> NamespaceOptions {
    let spec = pod.spec.as_ref();
    let host = |field: Option<bool>| if field.unwrap_or(false) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let shared = spec.and_then(|s| s.share_process_namespace).unwrap_or(false);
    let pid = match (host(spec.and_then(|s| s.host_pid)), shared) {
        (NamespaceMode::Node, _) => NamespaceMode::Node,
        (NamespaceMode::Pod | NamespaceMode::Container, true) => NamespaceMode::Pod,
        (NamespaceMode::Pod | NamespaceMode::Container, false) => NamespaceMode::Container,
    };
    NamespaceOptions {
        network: host(spec.and_then(|s| s.host_network)),
        pid,
        ipc: host(spec.and_then(|s| s.host_ipc)),
        user: user.filter(|_| wants_user_namespace(pod)),
    }
}

/// Whether the Pod asks for a user namespace of its own.
#[must_use]
pub fn wants_user_namespace(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.host_users) == Some(false)
}

pub(super) fn is_privileged(context: Option<&k8s_openapi::api::core::v1::SecurityContext>) -> bool {
    context.and_then(|c| c.privileged).unwrap_or(false)
}

fn sandbox_labels(pod: &Pod, key: &PodKey) -> BTreeMap<String, String> {
    let mut all = pod.metadata.labels.clone().unwrap_or_default();
    all.insert(labels::POD_NAME.to_owned(), key.name.to_string());
    all.insert(labels::POD_NAMESPACE.to_owned(), key.namespace.to_string());
    all.insert(labels::POD_UID.to_owned(), key.uid.to_string());
    all
}

/// Host ports of all containers; none with the host's network, where a port is simply bound.
fn port_mappings(pod: &Pod) -> Result<Vec<PortMapping>, SpecError> {
    if pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let mut mappings = Vec::new();
    for port in all_containers(pod).flat_map(|c| c.ports.iter().flatten()) {
        if let Some(mapping) = port_mapping(port)?
            && !mappings.contains(&mapping)
        {
            mappings.push(mapping);
        }
    }
    Ok(mappings)
}

fn port_mapping(port: &ContainerPort) -> Result<Option<PortMapping>, SpecError> {
    let host_port = port.host_port.unwrap_or(0);
    if host_port == 0 {
        return Ok(None);
    }
    let number =
        |field, value: i32| u16::try_from(value).ok().filter(|n| *n > 0).ok_or(SpecError::BadPort { field, value });
    let host_ip = match port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
        Some(text) => Some(text.parse().map_err(|_| SpecError::BadHostIp(text.to_owned()))?),
        None => None,
    };
    Ok(Some(PortMapping {
        protocol: protocol(port.protocol.as_deref()),
        container_port: number("containerPort", port.container_port)?,
        host_port: number("hostPort", host_port)?,
        host_ip,
    }))
}

fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let listed = context.iter().flat_map(|c| c.sysctls.iter().flatten());
    listed.map(|s| (sysctl_name(&s.name), s.value.clone())).collect()
}

/// `net/ipv4/ip_forward` and `net.ipv4.ip_forward` are the same. With slashes as separators, dots belong to names
/// (of network interfaces), and become slashes.
#[must_use]
pub fn sysctl_name(name: &str) -> String {
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    if first == Some(b'/') {
        name.chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect()
    } else {
        name.to_owned()
    }
}
