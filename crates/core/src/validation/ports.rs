//! Ports of containers.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::error::Errors;
use super::names::{ip_address, port_name};
use super::path::FieldPath;
use super::pod::one_of;

const RANGE: &str = "must be between 1 and 65535, inclusive";

pub(crate) fn is_port(number: i32) -> bool {
    (1..=65535).contains(&number)
}

pub(crate) fn ports(errors: &mut Errors, container: &Container, host_network: bool, path: &FieldPath) {
    let mut names = HashSet::new();
    for (i, port) in container.ports.iter().flatten().enumerate() {
        let path = path.index(i);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            if let Some(problem) = port_name(name) {
                errors.invalid(&path.field("name"), name, problem);
            } else if !names.insert(name) {
                errors.duplicate(&path.field("name"), name);
            }
        }
        port_number(errors, port.container_port, &path.field("containerPort"));
        let host_port = port.host_port.unwrap_or(0);
        if host_port != 0 && !is_port(host_port) {
            errors.invalid(&path.field("hostPort"), host_port, RANGE);
        }
        if host_network && host_port != 0 && host_port != port.container_port {
            let at = path.field("containerPort");
            errors.invalid(&at, port.container_port, "must match `hostPort` when `hostNetwork` is true");
        }
        one_of(errors, port.protocol.as_deref(), &["TCP", "UDP", "SCTP"], &path.field("protocol"));
        if let Some(ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty())
            && let Some(problem) = ip_address(ip)
        {
            errors.invalid(&path.field("hostIP"), ip, problem);
        }
    }
}

/// A port that must be given.
pub(crate) fn port_number(errors: &mut Errors, number: i32, path: &FieldPath) {
    if number == 0 {
        errors.required(path, "");
    } else if !is_port(number) {
        errors.invalid(path, number, RANGE);
    }
}

/// Two containers that run at the same time can't have one port of the host.
pub(crate) fn host_port_conflicts(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    let mut taken = HashSet::new();
    let mut claim = |errors: &mut Errors, port: &ContainerPort, path: &FieldPath| {
        let Some(number) = port.host_port.filter(|number| *number != 0) else { return };
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let key = format!("{protocol}/{}/{number}", port.host_ip.as_deref().unwrap_or(""));
        if !taken.insert(key.clone()) {
            errors.duplicate(&path.field("hostPort"), key);
        }
    };
    let sidecars =
        spec.init_containers.iter().flatten().enumerate().map(|(i, container)| ("initContainers", i, container));
    let sidecars = sidecars.filter(|(_, _, container)| container.restart_policy.as_deref() == Some("Always"));
    let main = spec.containers.iter().enumerate().map(|(i, container)| ("containers", i, container));
    for (list, i, container) in sidecars.chain(main) {
        for (j, port) in container.ports.iter().flatten().enumerate() {
            claim(errors, port, &path.field(list).index(i).field("ports").index(j));
        }
    }
}
