//! The predicates, in upstream's order. The first that fails is the reason.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};
use minke_core::resources::{Amount, pod_requests};

use super::{HostPort, Machine, forbidden_sysctl, host_ports};

/// Why a Pod may not run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Rejection {
    /// `OutOfcpu`, `OutOfmemory`, `OutOfpods`, `NodePorts`, `AlreadyExists`, `SysctlForbidden`, …
    pub reason: String,
    /// For people, in upstream's words where it has some. Begins `Pod was rejected: ` in the status.
    pub message: String,
}

impl Rejection {
    fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }

    /// The message of the Pod's status.
    #[must_use]
    pub fn status_message(&self) -> String {
        format!("Pod was rejected: {}", self.message)
    }
}

/// What a Pod is admitted to.
#[derive(Debug, Clone, Copy)]
pub struct Admitting<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Pods that run or will: not terminated, and not terminal unless still terminating.
    pub active: &'a [&'a Pod],
    /// Ports of the host that programs other than our Pods have. Only ports that the Pod wants need be looked at.
    pub taken_ports: &'a [HostPort],
    /// Sysctls allowed beyond the safe set.
    pub allowed_sysctls: &'a [String],
}

/// Whether this Pod may run.
///
/// # Errors
/// The first reason why not.
pub fn admit(pod: &Pod, to: &Admitting<'_>) -> Result<(), Rejection> {
    name_is_free(pod, to.active)?;
    if let Some(message) = forbidden_sysctl(pod, to.allowed_sysctls) {
        return Err(Rejection::new("SysctlForbidden", message));
    }
    os(pod)?;
    resources(pod, to)?;
    node_name(pod, to.machine)?;
    node_affinity(pod, to.machine)?;
    ports(pod, to)?;
    app_armor(pod)
}

/// Two Pods of one name can't live at a time; the same Pod (uid) again is no conflict.
fn name_is_free(pod: &Pod, active: &[&Pod]) -> Result<(), Rejection> {
    let namespace = |pod: &Pod| pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let twin = active.iter().find(|other| {
        other.metadata.name == pod.metadata.name
            && namespace(other) == namespace(pod)
            && other.metadata.uid != pod.metadata.uid
    });
    match twin {
        None => Ok(()),
        Some(other) => {
            let name = format!("{}/{}", namespace(pod), pod.metadata.name.as_deref().unwrap_or_default());
            let uid = other.metadata.uid.as_deref().unwrap_or_default();
            let message = format!("pod {name} exists already with uid {uid}; remove it first or use another name");
            Err(Rejection::new("AlreadyExists", message))
        }
    }
}

fn os(pod: &Pod) -> Result<(), Rejection> {
    match pod.spec.as_ref().and_then(|s| s.os.as_ref()).map(|os| os.name.as_str()) {
        None | Some("linux") => Ok(()),
        Some(_) => {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            Err(Rejection::new("PodOSNotSupported", message))
        }
    }
}

/// Everything that is requested, by this Pod and those that are active, must fit. Resources that the machine does not
/// know are ignored, as upstream.
fn resources(pod: &Pod, to: &Admitting<'_>) -> Result<(), Rejection> {
    let others: Vec<&&Pod> = to.active.iter().filter(|other| other.metadata.uid != pod.metadata.uid).collect();
    if others.len() + 1 > to.machine.max_pods {
        return Err(out_of("pods", 1, &others.len().to_string(), &to.machine.max_pods.to_string()));
    }
    let wanted = pod_requests(pod);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let Some(capacity) = to.machine.allocatable.get(name).copied() else { continue };
        let Some(requested) = wanted.get(name).copied().filter(|a| *a > Amount::ZERO) else { continue };
        let used: Amount = others.iter().filter_map(|other| pod_requests(other).get(name).copied()).sum();
        if used + requested > capacity {
            // Upstream counts CPU in millicores and everything else in units.
            let shown = |amount: Amount| if name == "cpu" { amount.milli_value() } else { amount.value() };
            let (used, capacity) = (shown(used).to_string(), shown(capacity).to_string());
            return Err(out_of(name, shown(requested), &used, &capacity));
        }
    }
    Ok(())
}

fn out_of(resource: &str, requested: i64, used: &str, capacity: &str) -> Rejection {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    Rejection::new(format!("OutOf{resource}"), message)
}

fn predicate(name: &str) -> Rejection {
    Rejection::new(name, format!("Predicate {name} failed"))
}

fn node_name(pod: &Pod, machine: &Machine) -> Result<(), Rejection> {
    match pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty()) {
        Some(name) if name != machine.name => {
            let message = format!("the pod is for node {name:?}, and this is {:?}", machine.name);
            Err(Rejection::new("NodeName", message))
        }
        Some(_) | None => Ok(()),
    }
}

fn node_affinity(pod: &Pod, machine: &Machine) -> Result<(), Rejection> {
    let Some(spec) = pod.spec.as_ref() else { return Ok(()) };
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| machine.labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let fits = required.is_none_or(|r| r.node_selector_terms.iter().any(|term| term_fits(term, machine)));
    if selected && fits { Ok(()) } else { Err(predicate("NodeAffinity")) }
}

/// All requirements of a term must hold; a term without any selects nothing.
fn term_fits(term: &NodeSelectorTerm, machine: &Machine) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label_fits = |r: &NodeSelectorRequirement| requirement_fits(r, machine.labels.get(&r.key).map(String::as_str));
    let field_fits = |r: &NodeSelectorRequirement| r.key == "metadata.name" && requirement_fits(r, Some(&machine.name));
    (!labels.is_empty() || !fields.is_empty()) && labels.iter().all(label_fits) && fields.iter().all(field_fits)
}

fn requirement_fits(requirement: &NodeSelectorRequirement, have: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = have.is_some_and(|have| values.iter().any(|value| value == have));
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let compared = number(have).zip(number(values.first().map(String::as_str)));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        "Gt" => compared.is_some_and(|(have, value)| have > value),
        "Lt" => compared.is_some_and(|(have, value)| have < value),
        _ => false,
    }
}

fn ports(pod: &Pod, to: &Admitting<'_>) -> Result<(), Rejection> {
    let wanted = host_ports(pod);
    for other in to.active.iter().filter(|other| other.metadata.uid != pod.metadata.uid) {
        let theirs = host_ports(other);
        if let Some(port) = wanted.iter().find(|port| theirs.iter().any(|t| t.conflicts_with(port))) {
            let name = other.metadata.name.as_deref().unwrap_or_default();
            let words = predicate("NodePorts").message;
            return Err(Rejection::new("NodePorts", format!("{words}: host port {port} is used by pod {name}")));
        }
    }
    match wanted.iter().find(|port| to.taken_ports.iter().any(|taken| taken.conflicts_with(port))) {
        None => Ok(()),
        Some(port) => {
            let words = predicate("NodePorts").message;
            let message = format!("{words}: host port {port} is taken by a program on this machine");
            Err(Rejection::new("NodePorts", message))
        }
    }
}

/// A profile that would not be enforced is refused, as upstream does on machines without AppArmor.
fn app_armor(pod: &Pod) -> Result<(), Rejection> {
    let Some(spec) = pod.spec.as_ref() else { return Ok(()) };
    let own = spec.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let theirs = containers.filter_map(|c| c.security_context.as_ref()?.app_armor_profile.as_ref());
    let enforced = own.into_iter().chain(theirs).any(|profile| profile.type_ != "Unconfined");
    if enforced {
        return Err(Rejection::new("AppArmor", "Cannot enforce AppArmor: AppArmor is not supported by minke"));
    }
    Ok(())
}
