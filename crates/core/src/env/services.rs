//! The variables that tell of services: where a cluster's API and the services of the Pod's own namespace are.
//!
//! Upstream source: `pkg/kubelet/envvars`, and `getServiceEnvVarMap` of the kubelet for which services count.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// The service that leads to the API, told to every Pod.
pub const API_SERVICE: (&str, &str) = ("default", "kubernetes");

/// The variables for a Pod of this namespace. `links`: its `enableServiceLinks`; without it only the API's service counts. A service
/// without an address of its own is not told.
#[must_use]
pub fn service_env<'a>(
    namespace: &str,
    links: bool,
    services: impl IntoIterator<Item = &'a Service>,
) -> BTreeMap<String, String> {
    let mut told: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let (Some(name), Some(_)) = (service.metadata.name.as_deref(), address(service)) else { continue };
        let theirs = service.metadata.namespace.as_deref().unwrap_or_default();
        if (theirs, name) == API_SERVICE {
            // One of the Pod's own namespace with that name counts more.
            told.entry(name).or_insert(service);
        } else if theirs == namespace && links {
            told.insert(name, service);
        }
    }
    let mut env = BTreeMap::new();
    for (name, service) in told {
        variables(name, service, &mut env);
    }
    env
}

fn address(service: &Service) -> Option<&str> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!address.is_empty() && address != "None").then_some(address)
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

fn variables(name: &str, service: &Service, env: &mut BTreeMap<String, String>) {
    let (Some(ip), Some(spec)) = (address(service), &service.spec) else { return };
    let ports: &[ServicePort] = spec.ports.as_deref().unwrap_or_default();
    let prefix = variable_name(name);
    env.insert(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
    let Some(first) = ports.first() else { return };
    env.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            env.insert(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string());
        }
    }
    // The links that Docker once made.
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    for (n, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if n == 0 {
            env.insert(format!("{prefix}_PORT"), url.clone());
        }
        let port_prefix = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        env.insert(port_prefix.clone(), url);
        env.insert(format!("{port_prefix}_PROTO"), protocol.to_lowercase());
        env.insert(format!("{port_prefix}_PORT"), port.port.to_string());
        env.insert(format!("{port_prefix}_ADDR"), ip.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(namespace: &str, name: &str, ip: &str, ports: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": ip, "ports": ports},
        }))
        .unwrap()
    }

    #[test]
    fn upstreams_names_and_values() {
        let ports =
            json!([{"name": "p-1", "port": 80, "protocol": "TCP"}, {"name": "q", "port": 53, "protocol": "UDP"}]);
        let env = service_env("ns", true, &[service("ns", "super-duper", "1.2.3.4", &ports)]);
        let expected = [
            ("SUPER_DUPER_PORT", "tcp://1.2.3.4:80"),
            ("SUPER_DUPER_PORT_53_UDP", "udp://1.2.3.4:53"),
            ("SUPER_DUPER_PORT_53_UDP_ADDR", "1.2.3.4"),
            ("SUPER_DUPER_PORT_53_UDP_PORT", "53"),
            ("SUPER_DUPER_PORT_53_UDP_PROTO", "udp"),
            ("SUPER_DUPER_PORT_80_TCP", "tcp://1.2.3.4:80"),
            ("SUPER_DUPER_PORT_80_TCP_ADDR", "1.2.3.4"),
            ("SUPER_DUPER_PORT_80_TCP_PORT", "80"),
            ("SUPER_DUPER_PORT_80_TCP_PROTO", "tcp"),
            ("SUPER_DUPER_SERVICE_HOST", "1.2.3.4"),
            ("SUPER_DUPER_SERVICE_PORT", "80"),
            ("SUPER_DUPER_SERVICE_PORT_P_1", "80"),
            ("SUPER_DUPER_SERVICE_PORT_Q", "53"),
        ];
        assert_eq!(env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
        let six = service_env("ns", true, &[service("ns", "six", "fd00::1", &json!([{"port": 80}]))]);
        assert_eq!(six["SIX_PORT"], "tcp://[fd00::1]:80");
        assert_eq!(six["SIX_PORT_80_TCP_ADDR"], "fd00::1");
    }

    #[test]
    fn those_of_the_namespace_and_the_apis_own_are_told() {
        let port = json!([{"port": 443}]);
        let services = [
            service("ns", "mine", "1.1.1.1", &port),
            service("ns", "headless", "None", &port),
            service("other", "theirs", "2.2.2.2", &port),
            service("default", "kubernetes", "10.0.0.1", &port),
            service("default", "else", "3.3.3.3", &port),
        ];
        let hosts = |namespace: &str, links: bool| {
            let env = service_env(namespace, links, &services);
            env.into_keys().filter(|name| name.ends_with("_SERVICE_HOST")).collect::<Vec<_>>()
        };
        assert_eq!(hosts("ns", true), ["KUBERNETES_SERVICE_HOST", "MINE_SERVICE_HOST"]);
        assert_eq!(hosts("ns", false), ["KUBERNETES_SERVICE_HOST"]);
        assert_eq!(hosts("default", true), ["ELSE_SERVICE_HOST", "KUBERNETES_SERVICE_HOST"]);
        for order in [[0, 1], [1, 0]] {
            let both =
                [service("ns", "kubernetes", "9.9.9.9", &port), service("default", "kubernetes", "10.0.0.1", &port)];
            let env = service_env("ns", true, order.map(|n| &both[n]));
            assert_eq!(env["KUBERNETES_SERVICE_HOST"], "9.9.9.9", "the nearer one, in any order");
        }
    }
}
