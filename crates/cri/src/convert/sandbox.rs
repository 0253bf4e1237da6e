//! Sandboxes.

use std::collections::HashMap;
use std::net::IpAddr;

use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    NamespaceMode, NamespaceOptions, Protocol, SandboxConfig, SandboxId, SandboxInfo, SandboxState, SandboxStatus,
    labels,
};

use super::namespaces::namespaces_of;
use super::resources::resources;
use super::security::{self, text};
use super::time::given;
use super::{ordered, own, unordered};
use crate::CgroupDriver;
use crate::api;
use crate::cgroup::parent_for;

/// For CRI.
pub(crate) fn config(config: &SandboxConfig, driver: CgroupDriver) -> api::PodSandboxConfig {
    let protocol = |protocol| match protocol {
        Protocol::Tcp => api::Protocol::Tcp,
        Protocol::Udp => api::Protocol::Udp,
        Protocol::Sctp => api::Protocol::Sctp,
    };
    let ports = config.port_mappings.iter().map(|port| api::PortMapping {
        protocol: protocol(port.protocol).into(),
        container_port: i32::from(port.container_port),
        host_port: i32::from(port.host_port),
        host_ip: port.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
    });
    // On the host's network the host's name is there already, and runc refuses to set one.
    let hostname = match config.namespaces.network {
        NamespaceMode::Node => String::new(),
        NamespaceMode::Pod | NamespaceMode::Container => config.hostname.clone(),
    };
    api::PodSandboxConfig {
        metadata: Some(api::PodSandboxMetadata {
            name: config.pod.name.to_string(),
            uid: config.pod.uid.to_string(),
            namespace: config.pod.namespace.to_string(),
            attempt: config.attempt,
        }),
        hostname,
        log_directory: text(&config.log_directory),
        dns_config: config.dns.as_ref().map(|dns| api::DnsConfig {
            servers: dns.servers.clone(),
            searches: dns.searches.clone(),
            options: dns.options.clone(),
        }),
        port_mappings: ports.collect(),
        labels: unordered(&config.labels),
        annotations: own::with(&config.annotations, &[(own::CGROUP_PARENT, &config.cgroup_parent)]),
        linux: Some(api::LinuxPodSandboxConfig {
            cgroup_parent: parent_for(&config.cgroup_parent, driver),
            security_context: Some(security::sandbox(config)),
            sysctls: unordered(&config.sysctls),
            overhead: None,
            resources: Some(resources(&config.resources)),
        }),
        windows: None,
    }
}

/// Whose sandbox it is: as the labels say, which the kubelet's tools go by as well, else as its metadata says. `None`: its
/// uid is none, so no Pod of ours.
pub(crate) fn pod_key(
    metadata: Option<&api::PodSandboxMetadata>,
    given_labels: &HashMap<String, String>,
) -> Option<PodKey> {
    let pick = |label: &str, field: fn(&api::PodSandboxMetadata) -> &String| {
        given_labels.get(label).or_else(|| metadata.map(field)).filter(|text| !text.is_empty()).cloned()
    };
    let uid = PodUid::new(pick(labels::POD_UID, |m| &m.uid)?).ok()?;
    let name = pick(labels::POD_NAME, |m| &m.name)?;
    let namespace = pick(labels::POD_NAMESPACE, |m| &m.namespace).unwrap_or_else(|| "default".to_owned());
    Some(PodKey::new(namespace, name, uid))
}

fn state(state: api::PodSandboxState) -> SandboxState {
    match state {
        api::PodSandboxState::SandboxReady => SandboxState::Ready,
        api::PodSandboxState::SandboxNotready => SandboxState::NotReady,
    }
}

/// As a list shows it. `None`: no Pod's.
pub(crate) fn info(sandbox: &api::PodSandbox) -> Option<SandboxInfo> {
    Some(SandboxInfo {
        id: SandboxId(sandbox.id.clone()),
        pod: pod_key(sandbox.metadata.as_ref(), &sandbox.labels)?,
        attempt: sandbox.metadata.as_ref().map_or(0, |m| m.attempt),
        state: state(sandbox.state()),
        created_at: given(sandbox.created_at),
    })
}

/// In full. `None`: no Pod's.
pub(crate) fn status(sandbox: api::PodSandboxStatus) -> Option<SandboxStatus> {
    let info = SandboxInfo {
        id: SandboxId(sandbox.id.clone()),
        pod: pod_key(sandbox.metadata.as_ref(), &sandbox.labels)?,
        attempt: sandbox.metadata.as_ref().map_or(0, |m| m.attempt),
        state: state(sandbox.state()),
        created_at: given(sandbox.created_at),
    };
    let options = sandbox.linux.as_ref().and_then(|l| l.namespaces.as_ref()).and_then(|n| n.options.as_ref());
    Some(SandboxStatus {
        info,
        ips: sandbox.network.map(addresses).unwrap_or_default(),
        namespaces: options.map_or_else(NamespaceOptions::default, namespaces_of),
        labels: ordered(sandbox.labels),
        annotations: own::without(sandbox.annotations),
    })
}

fn addresses(network: api::PodSandboxNetworkStatus) -> Vec<IpAddr> {
    let all = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|ip| ip.ip));
    all.filter_map(|ip| ip.parse().ok()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use minke_core::runtime::{DnsConfig, LinuxResources, PortMapping, SeccompProfile};

    use super::*;

    pub(crate) fn example() -> SandboxConfig {
        let pod = PodKey::new("ns", "web", PodUid::new("u-1").unwrap());
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        SandboxConfig {
            pod,
            attempt: 2,
            hostname: "web".to_owned(),
            log_directory: PathBuf::from("/var/log/pods/ns_web_u-1"),
            dns: Some(DnsConfig { servers: vec!["1.1.1.1".to_owned()], ..Default::default() }),
            port_mappings: vec![PortMapping {
                protocol: Protocol::Udp,
                container_port: 53,
                host_port: 5353,
                host_ip: Some("127.0.0.1".parse().unwrap()),
            }],
            labels: BTreeMap::from([
                label(labels::POD_NAME, "web"),
                label(labels::POD_NAMESPACE, "ns"),
                label(labels::POD_UID, "u-1"),
                label("app", "web"),
            ]),
            annotations: BTreeMap::from([label("a", "b")]),
            cgroup_parent: "/minke/burstable/podu-1".to_owned(),
            resources: LinuxResources::default(),
            sysctls: BTreeMap::from([label("net.core.somaxconn", "99")]),
            namespaces: NamespaceOptions { network: NamespaceMode::Node, ..Default::default() },
            privileged: true,
            seccomp: SeccompProfile::RuntimeDefault,
            runtime_handler: String::new(),
        }
    }

    #[test]
    fn a_sandbox_is_asked_for_as_the_kubelet_asks() {
        let there = config(&example(), CgroupDriver::Cgroupfs);
        let metadata = there.metadata.unwrap();
        assert_eq!((metadata.namespace.as_str(), metadata.name.as_str()), ("ns", "web"));
        assert_eq!((metadata.uid.as_str(), metadata.attempt), ("u-1", 2));
        assert_eq!(there.labels["io.kubernetes.pod.uid"], "u-1");
        assert_eq!(there.dns_config.unwrap().servers, ["1.1.1.1"]);
        let port = &there.port_mappings[0];
        assert_eq!((port.protocol(), port.container_port, port.host_port), (api::Protocol::Udp, 53, 5353));
        assert_eq!(port.host_ip, "127.0.0.1");
        let linux = there.linux.unwrap();
        assert_eq!(linux.cgroup_parent, "/minke/burstable/podu-1");
        assert_eq!(linux.sysctls["net.core.somaxconn"], "99");
        let security = linux.security_context.unwrap();
        assert!(security.privileged);
        assert_eq!(security.namespace_options.unwrap().network(), api::NamespaceMode::Node);
    }

    #[test]
    fn a_host_name_is_for_pods_with_a_network_of_their_own() {
        assert_eq!(config(&example(), CgroupDriver::Cgroupfs).hostname, "");
        let own = SandboxConfig { namespaces: NamespaceOptions::default(), ..example() };
        assert_eq!(config(&own, CgroupDriver::Cgroupfs).hostname, "web");
    }

    #[test]
    fn systemd_gets_a_slice() {
        let there = config(&example(), CgroupDriver::Systemd).linux.unwrap();
        assert_eq!(there.cgroup_parent, "/minke.slice/minke-burstable.slice/minke-burstable-podu_1.slice");
    }

    #[test]
    fn what_was_configured_comes_back() {
        let wanted = example();
        let there = config(&wanted, CgroupDriver::Cgroupfs);
        let security = there.linux.unwrap().security_context.unwrap();
        let answer = api::PodSandboxStatus {
            id: "s1".to_owned(),
            metadata: there.metadata,
            state: api::PodSandboxState::SandboxReady.into(),
            created_at: 5_000_000_000,
            network: Some(api::PodSandboxNetworkStatus {
                ip: "10.0.0.2".to_owned(),
                additional_ips: vec![api::PodIp { ip: "fd00::2".to_owned() }],
            }),
            linux: Some(api::LinuxPodSandboxStatus {
                namespaces: Some(api::Namespace { options: security.namespace_options }),
            }),
            labels: there.labels,
            annotations: there.annotations,
            runtime_handler: String::new(),
        };
        let status = status(answer).unwrap();
        assert_eq!((&status.info.pod, status.info.attempt), (&wanted.pod, 2));
        assert_eq!(status.info.created_at.as_second(), 5);
        assert_eq!(status.ips, ["10.0.0.2".parse::<IpAddr>().unwrap(), "fd00::2".parse().unwrap()]);
        assert_eq!((status.labels, status.annotations), (wanted.labels, wanted.annotations));
        assert_eq!(status.namespaces, wanted.namespaces);
    }

    #[test]
    fn another_programs_sandbox_has_its_pod_from_the_metadata_or_none() {
        let metadata = api::PodSandboxMetadata { name: "n".into(), uid: "u".into(), ..Default::default() };
        let sandbox = api::PodSandbox { id: "s".into(), metadata: Some(metadata), ..Default::default() };
        assert_eq!(info(&sandbox).unwrap().pod, PodKey::new("default", "n", PodUid::new("u").unwrap()));
        assert_eq!(info(&api::PodSandbox::default()), None);
        let hostile = api::PodSandboxMetadata { name: "n".into(), uid: "../x".into(), ..Default::default() };
        assert_eq!(info(&api::PodSandbox { metadata: Some(hostile), ..Default::default() }), None);
    }

    #[test]
    fn a_host_network_pod_has_no_address() {
        let empty = api::PodSandboxNetworkStatus::default();
        assert_eq!(addresses(empty), Vec::<IpAddr>::new());
    }
}
