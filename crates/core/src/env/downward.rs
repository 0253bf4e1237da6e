//! The downward API: fields of the Pod and resources of its containers, as text.
//!
//! Upstream sources: `pkg/fieldpath`, `pkg/api/v1/resource/helpers.go`.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::containers::container_named;
use crate::resources::{Amount, ResourceList, container_limits, container_requests};

/// What is known about a Pod and its machine besides the Pod's spec.
#[derive(Debug, Clone, Copy)]
pub struct DownwardFacts<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its addresses, primary first; empty with the host's network, or while there are none.
    pub pod_ips: &'a [IpAddr],
    /// Addresses of the machine, primary first.
    pub host_ips: &'a [IpAddr],
    /// Name of the machine, for Pods that name none.
    pub node_name: &'a str,
    /// What the machine has for Pods; stands in for limits that a container does not set.
    pub allocatable: &'a ResourceList,
}

/// A reference of the downward API that can't be resolved. The words are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownwardError {
    /// There is no such field, or it can't be used here.
    #[error("unsupported fieldPath: {0}")]
    UnsupportedField(String),
    /// There is no such resource.
    #[error("unsupported container resource : {0}")]
    UnsupportedResource(String),
    /// The Pod has no such container.
    #[error("container {0} not found")]
    NoContainer(String),
    /// The divisor is no quantity, or zero.
    #[error("invalid divisor {divisor:?} for resource {resource}")]
    InvalidDivisor {
        /// The resource.
        resource: String,
        /// The divisor.
        divisor: String,
    },
}

impl DownwardFacts<'_> {
    /// Addresses that the Pod is reached by: its own, or the host's with the host's network.
    fn addresses(&self) -> &[IpAddr] {
        let host_network = self.pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
        if self.pod_ips.is_empty() && host_network { self.host_ips } else { self.pod_ips }
    }

    /// A field for an environment variable.
    ///
    /// # Errors
    /// The field does not exist or can't be used in an environment.
    pub fn env_field(&self, path: &str) -> Result<String, DownwardError> {
        match path {
            // Whole maps make sense in files only.
            "metadata.labels" | "metadata.annotations" => Err(DownwardError::UnsupportedField(path.to_owned())),
            "spec.nodeName" => Ok(self.node_name().to_owned()),
            "spec.serviceAccountName" => {
                Ok(self.pod.spec.as_ref().and_then(|s| s.service_account_name.clone()).unwrap_or_default())
            }
            "status.hostIP" => Ok(first(self.host_ips)),
            "status.hostIPs" => Ok(joined(self.host_ips)),
            "status.podIP" => Ok(first(self.addresses())),
            "status.podIPs" => Ok(joined(self.addresses())),
            _ => self.metadata(path),
        }
    }

    /// A field for a file of a volume.
    ///
    /// # Errors
    /// The field does not exist or can't be used in a file.
    pub fn file_field(&self, path: &str) -> Result<String, DownwardError> {
        let metadata = &self.pod.metadata;
        match path {
            "metadata.labels" => Ok(format_map(metadata.labels.as_ref())),
            "metadata.annotations" => Ok(format_map(metadata.annotations.as_ref())),
            _ => self.metadata(path),
        }
    }

    fn metadata(&self, path: &str) -> Result<String, DownwardError> {
        let metadata = &self.pod.metadata;
        let unsupported = || DownwardError::UnsupportedField(path.to_owned());
        if let Some((map, key)) = path.split_once("['").and_then(|(map, rest)| Some((map, rest.strip_suffix("']")?))) {
            let map = match map {
                "metadata.labels" => metadata.labels.as_ref(),
                "metadata.annotations" => metadata.annotations.as_ref(),
                _ => return Err(unsupported()),
            };
            return Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default());
        }
        match path {
            "metadata.name" => Ok(metadata.name.clone().unwrap_or_default()),
            "metadata.namespace" => Ok(metadata.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            "metadata.uid" => Ok(metadata.uid.clone().unwrap_or_default()),
            _ => Err(unsupported()),
        }
    }

    fn node_name(&self) -> &str {
        self.pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty()).unwrap_or(self.node_name)
    }

    /// A resource of a container, divided by the selector's divisor and rounded up. `own` is the container that asks;
    /// the selector may name another.
    ///
    /// # Errors
    /// No such container or resource, or the divisor can't be used.
    pub fn resource(&self, selector: &ResourceFieldSelector, own: Option<&Container>) -> Result<String, DownwardError> {
        let name = selector.container_name.as_deref().filter(|n| !n.is_empty());
        let container = match name {
            None => own.ok_or_else(|| DownwardError::NoContainer(String::new()))?,
            Some(name) => container_named(self.pod, name).ok_or_else(|| DownwardError::NoContainer(name.to_owned()))?,
        };
        let amount = self.amount(&selector.resource, container)?;
        let divisor = match selector.divisor.as_ref().map(|d| (d, Amount::of(d))) {
            None => Amount::from_units(1),
            // The API server writes an unset divisor as "0".
            Some((_, Ok(Amount::ZERO))) => Amount::from_units(1),
            Some((_, Ok(divisor))) => divisor,
            Some((text, Err(_))) => {
                let (resource, divisor) = (selector.resource.clone(), text.0.clone());
                return Err(DownwardError::InvalidDivisor { resource, divisor });
            }
        };
        Ok(amount.divided_by(divisor).unwrap_or_default().to_string())
    }

    fn amount(&self, resource: &str, container: &Container) -> Result<Amount, DownwardError> {
        let unsupported = || DownwardError::UnsupportedResource(resource.to_owned());
        let (kind, name) = resource.split_once('.').ok_or_else(unsupported)?;
        let known = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if !known && !name.starts_with("hugepages-") {
            return Err(unsupported());
        }
        let of = |list: &ResourceList| list.get(name).copied().filter(|amount| *amount > Amount::ZERO);
        match kind {
            "limits" => {
                let allocatable = || of(self.allocatable).filter(|_| known);
                Ok(of(&container_limits(container)).or_else(allocatable).unwrap_or_default())
            }
            "requests" => Ok(of(&container_requests(container)).unwrap_or_default()),
            _ => Err(unsupported()),
        }
    }
}

fn first(ips: &[IpAddr]) -> String {
    ips.first().map(ToString::to_string).unwrap_or_default()
}

fn joined(ips: &[IpAddr]) -> String {
    ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// One `key="value"` a line, sorted by key, values quoted as Go does.
fn format_map(map: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={}", go_quoted(value));
    map.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
