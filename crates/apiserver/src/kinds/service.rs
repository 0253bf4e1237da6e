//! Services: stored with an address of their own. Nothing routes to them here.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::plain::label_name;
use super::strategy::{invalid, typed_with};
use crate::error::Cause;

/// Addresses of Services: what kubeadm gives them.
const RANGE: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);
const HEADLESS: &str = "None";
const AFFINITY_SECONDS: i32 = 10_800;
/// Tries of a random address before the range is searched from its beginning.
const GUESSES: usize = 32;

fn is_external(spec: &Value) -> bool {
    spec["type"] == "ExternalName"
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub(super) fn complete(value: Value) -> Result<Value, serde_json::Error> {
    typed_with::<Service>(value, |service| {
        let spec = service.spec.get_or_insert_default();
        let kind = spec.type_.get_or_insert_with(|| "ClusterIP".to_owned()).clone();
        let affinity = spec.session_affinity.get_or_insert_with(|| "None".to_owned()).clone();
        match affinity.as_str() {
            "ClientIP" => {
                let config = spec.session_affinity_config.get_or_insert_default().client_ip.get_or_insert_default();
                config.timeout_seconds.get_or_insert(AFFINITY_SECONDS);
            }
            _ => spec.session_affinity_config = None,
        }
        for port in spec.ports.iter_mut().flatten() {
            port.protocol.get_or_insert_with(|| "TCP".to_owned());
            let unset = match &port.target_port {
                None | Some(IntOrString::Int(0)) => true,
                Some(IntOrString::String(name)) => name.is_empty(),
                Some(IntOrString::Int(_)) => false,
            };
            if unset {
                port.target_port = Some(IntOrString::Int(port.port));
            }
        }
        if kind != "ExternalName" {
            spec.internal_traffic_policy.get_or_insert_with(|| "Cluster".to_owned());
            spec.ip_families.get_or_insert_with(|| vec!["IPv4".to_owned()]);
            spec.ip_family_policy.get_or_insert_with(|| "SingleStack".to_owned());
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            spec.external_traffic_policy.get_or_insert_with(|| "Cluster".to_owned());
        }
        if kind == "LoadBalancer" {
            spec.allocate_load_balancer_node_ports.get_or_insert(true);
        }
        // Two names for one thing: who says one says both.
        let first = spec.cluster_ips.as_ref().and_then(|all| all.first()).cloned();
        match (spec.cluster_ip.clone().filter(|ip| !ip.is_empty()), first) {
            (Some(ip), None) => spec.cluster_ips = Some(vec![ip]),
            (None, Some(ip)) => spec.cluster_ip = Some(ip),
            (Some(_), Some(_)) | (None, None) => {}
        }
    })
}

/// A new Service has no status that anyone could have given it.
pub(super) fn create(value: &mut Value) {
    value["status"] = json!({"loadBalancer": {}});
}

fn in_range(ip: Ipv4Addr) -> bool {
    let (network, length) = RANGE;
    let mask = u32::MAX << (32 - length);
    let bits = ip.to_bits();
    // Neither the network's own address nor its broadcast.
    bits & mask == network.to_bits() && bits & !mask != 0 && bits & !mask != !mask
}

/// The address of the Service by which Pods of a cluster reach its API: the first of the range.
pub(crate) fn first_address() -> Ipv4Addr {
    Ipv4Addr::from_bits(RANGE.0.to_bits() + 1)
}

/// Gives a Service what it asks for: an address that nobody else has, or the one that it had. `guess` is a random number.
///
/// # Errors
/// The one that it wants is taken or not of the range, or none is left.
pub(crate) fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    taken: &HashSet<String>,
    guess: impl Fn() -> u32,
) -> Result<(), Cause> {
    let spec = &mut service["spec"];
    if is_external(spec) {
        if let Some(map) = spec.as_object_mut() {
            map.remove("clusterIP");
            map.remove("clusterIPs");
        }
        return Ok(());
    }
    let had = old.map(|old| text(&old["spec"], "clusterIP").to_owned()).filter(|ip| !ip.is_empty());
    let wanted = Some(text(spec, "clusterIP").to_owned()).filter(|ip| !ip.is_empty());
    let failed = |ip: &str, why: &str| {
        let why = format!("failed to allocate IP {ip}: {why}");
        invalid("spec.clusterIPs", &json!([ip]), &why)
    };
    let (network, length) = RANGE;
    let address = match (wanted, had) {
        (Some(ip), _) if ip == HEADLESS => ip,
        // Its own: what it had, also where it is not said again.
        (Some(ip), Some(had)) if ip == had => ip,
        (None, Some(had)) => had,
        (Some(ip), _) => {
            let parsed = ip.parse::<Ipv4Addr>().ok();
            if !parsed.is_some_and(in_range) {
                let why = format!(
                    "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {network}/{length}"
                );
                return Err(failed(&ip, &why));
            }
            if taken.contains(&ip) {
                return Err(failed(&ip, "provided IP is already allocated"));
            }
            ip
        }
        (None, None) => {
            let size = u32::MAX >> length;
            let random = (0..GUESSES).map(|_| guess() % size);
            let mut all = random.chain(0..=size).map(|offset| Ipv4Addr::from_bits(network.to_bits() + offset));
            // The first one is the API's own.
            let free = all.find(|ip| in_range(*ip) && *ip != first_address() && !taken.contains(&ip.to_string()));
            free.ok_or_else(|| failed("", "range is full"))?.to_string()
        }
    };
    spec["clusterIP"] = address.clone().into();
    spec["clusterIPs"] = json!([address]);
    Ok(())
}

fn unsupported(field: &str, value: &str, known: &[&str]) -> Cause {
    let message = format!("Unsupported value: {value:?}: supported values: \"{}\"", known.join("\", \""));
    Cause::new("FieldValueNotSupported", message, field)
}

pub(super) fn validate(service: &Value) -> Vec<Cause> {
    let mut found = label_name(service);
    let name = service.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if found.is_empty() && name.starts_with(|c: char| c.is_ascii_digit()) {
        let why = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                   character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                   validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        found.push(invalid("metadata.name", &name.into(), why));
    }
    let spec = &service["spec"];
    for (field, known) in [
        ("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"][..]),
        ("sessionAffinity", &["ClientIP", "None"]),
    ] {
        if !known.contains(&text(spec, field)) {
            found.push(unsupported(&format!("spec.{field}"), text(spec, field), known));
        }
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let headless = text(spec, "clusterIP") == HEADLESS;
    if is_external(spec) {
        if text(spec, "externalName").is_empty() {
            let message = "Required value";
            found.push(Cause::new("FieldValueRequired", message, "spec.externalName"));
        }
    } else if ports.is_empty() && !headless {
        found.push(Cause::new("FieldValueRequired", "Required value", "spec.ports"));
    }
    if headless && matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {} services", text(spec, "type"));
        found.push(invalid("spec.clusterIPs[0]", &HEADLESS.into(), &why));
    }
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() && ports.len() > 1 {
            found.push(Cause::new("FieldValueRequired", "Required value", format!("{at}.name")));
        } else if !name.is_empty() && !names.insert(name) {
            found.push(Cause::new("FieldValueDuplicate", format!("Duplicate value: {name:?}"), format!("{at}.name")));
        }
        let number = |value: &Value, field: &str, least: i64, found: &mut Vec<Cause>| {
            if let Some(number) = value[field].as_i64()
                && !(least..=65_535).contains(&number)
            {
                let why = "must be between 1 and 65535, inclusive";
                found.push(invalid(&format!("{at}.{field}"), &number.into(), why));
            }
        };
        number(port, "port", 1, &mut found);
        number(port, "targetPort", 1, &mut found);
        number(port, "nodePort", 0, &mut found);
        let protocol = text(port, "protocol");
        if !["TCP", "UDP", "SCTP"].contains(&protocol) {
            found.push(unsupported(&format!("{at}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        }
        if !numbers.insert((protocol, port["port"].as_i64())) {
            let message = format!("Duplicate value: {}", json!({"port": port["port"], "protocol": protocol}));
            found.push(Cause::new("FieldValueDuplicate", message, at));
        }
    }
    found
}

/// An address stays, as long as the Service has one.
pub(super) fn update(new: &Value, old: &Value) -> Vec<Cause> {
    let (new, old) = (&new["spec"], &old["spec"]);
    let same = text(new, "clusterIP") == text(old, "clusterIP");
    if same || is_external(new) || is_external(old) {
        return Vec::new();
    }
    let why = "may not change once set";
    vec![invalid("spec.clusterIPs[0]", &new["clusterIP"], why)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        let mut service = json!({"metadata": {"name": "s"}});
        service["spec"] = spec;
        complete(service).unwrap()
    }

    fn web() -> Value {
        service(json!({"ports": [{"port": 80}]}))
    }

    #[test]
    fn defaults_are_upstreams() {
        let spec = &web()["spec"];
        assert_eq!((&spec["type"], &spec["sessionAffinity"]), (&json!("ClusterIP"), &json!("None")));
        assert_eq!(spec["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
        assert_eq!(spec["internalTrafficPolicy"], "Cluster");
        let sticky = service(json!({"sessionAffinity": "ClientIP", "ports": [{"port": 1}]}));
        assert_eq!(sticky["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10_800);
        let external = service(json!({"type": "ExternalName", "externalName": "e.example.com"}));
        assert!(external["spec"]["ipFamilies"].is_null());
        assert_eq!(validate(&external), []);
    }

    #[test]
    fn addresses_are_of_the_range_and_nobody_elses() {
        let mut taken = HashSet::new();
        for _ in 0..200 {
            let mut one = web();
            // Always the same guess: then the range is searched.
            allocate(&mut one, None, &taken, || 7).unwrap();
            let ip = one["spec"]["clusterIP"].as_str().unwrap().to_owned();
            assert!(in_range(ip.parse().unwrap()) && ip != "10.96.0.1");
            assert_eq!(one["spec"]["clusterIPs"], json!([ip]));
            assert!(taken.insert(ip));
        }
        let wants = |ip: &str| {
            let mut one = service(json!({"clusterIP": ip, "ports": [{"port": 80}]}));
            allocate(&mut one, None, &taken, || 7).map(|()| one["spec"]["clusterIP"].clone())
        };
        assert_eq!(wants("10.96.200.1"), Ok(json!("10.96.200.1")));
        assert_eq!(wants("None"), Ok(json!("None")));
        assert!(wants("10.96.0.7").unwrap_err().message.contains("provided IP is already allocated"));
        for bad in ["10.112.0.1", "10.96.0.0", "10.111.255.255", "nonsense", "::1"] {
            let error = wants(bad).unwrap_err().message;
            assert!(error.contains("The range of valid IPs is 10.96.0.0/12"), "{error}");
        }
    }

    #[test]
    fn an_address_stays_and_need_not_be_said_again() {
        let mut old = web();
        allocate(&mut old, None, &HashSet::new(), || 9).unwrap();
        let mut new = web();
        allocate(&mut new, Some(&old), &HashSet::new(), || 10).unwrap();
        assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
        assert_eq!(update(&new, &old), []);
        new["spec"]["clusterIP"] = "10.96.9.9".into();
        assert_eq!(update(&new, &old)[0].field, "spec.clusterIPs[0]");
        let external = service(json!({"type": "ExternalName", "externalName": "e"}));
        assert_eq!(update(&external, &old), []);
    }

    #[test]
    fn broken_rules_are_told_by_field() {
        let broken =
            |spec: Value| -> Vec<String> { validate(&service(spec)).into_iter().map(|cause| cause.field).collect() };
        assert_eq!(broken(json!({})), ["spec.ports"]);
        assert_eq!(broken(json!({"clusterIP": "None"})), [""; 0]);
        assert_eq!(broken(json!({"type": "Odd", "ports": [{"port": 1}]})), ["spec.type"]);
        assert_eq!(broken(json!({"ports": [{"port": 0}]})), ["spec.ports[0].port", "spec.ports[0].targetPort"]);
        assert_eq!(broken(json!({"ports": [{"port": 1, "protocol": "ICMP"}]})), ["spec.ports[0].protocol"]);
        let two = json!({"ports": [{"port": 1}, {"port": 2}]});
        assert_eq!(broken(two), ["spec.ports[0].name", "spec.ports[1].name"]);
        let same = json!({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]});
        assert_eq!(broken(same), ["spec.ports[1].name", "spec.ports[1]"]);
        assert_eq!(broken(json!({"type": "ExternalName"})), ["spec.externalName"]);
        assert_eq!(
            broken(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]})),
            ["spec.clusterIPs[0]"]
        );
        let digits = json!({"metadata": {"name": "1a"}, "spec": web()["spec"]});
        assert_eq!(validate(&digits)[0].field, "metadata.name");
    }
}
