//! The checks, in upstream's order. The first that fails is the reason.

use k8s_openapi::api::core::v1::Pod;
use minke_core::containers::all_containers;
use minke_core::identity::PodUid;
use minke_core::placement::{HostPort, host_ports, node_affinity_fits};
use minke_core::priority::is_critical;

use super::fit::shortages;
use super::preempt::victims;
use super::pressure::refused_under;
use super::{Machine, Preemption, Pressure, Rejection, Verdict, forbidden_sysctl};

/// What a Pod is admitted to.
#[derive(Debug, Clone, Copy)]
pub struct Admitting<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Pods that run or will: not terminated, and not terminal unless still terminating.
    pub active: &'a [&'a Pod],
    /// What the machine is short of right now.
    pub pressure: &'a [Pressure],
    /// Ports of the host that programs other than our Pods have. Only ports that the Pod wants need be looked at.
    pub taken_ports: &'a [HostPort],
    /// Sysctls allowed beyond the safe set.
    pub allowed_sysctls: &'a [String],
}

/// Whether this Pod may run. A critical Pod for which only resources are short takes the place of others.
#[must_use]
pub fn admit(pod: &Pod, to: &Admitting<'_>) -> Verdict {
    decide(pod, to).unwrap_or_else(Verdict::Reject)
}

fn decide(pod: &Pod, to: &Admitting<'_>) -> Result<Verdict, Rejection> {
    name_is_free(pod, to.active)?;
    if let Some(message) = refused_under(pod, to.pressure) {
        return Err(Rejection::new("Evicted", message));
    }
    if let Some(message) = forbidden_sysctl(pod, to.allowed_sysctls) {
        return Err(Rejection::new("SysctlForbidden", message));
    }
    os(pod)?;
    let others: Vec<&Pod> = to.active.iter().copied().filter(|other| other.metadata.uid != pod.metadata.uid).collect();
    let short = shortages(pod, &others, to.machine);
    let place = node_affinity(pod, to.machine).and_then(|()| node_name(pod, to.machine)).and_then(|()| ports(pod, to));
    let Some(first) = short.first() else {
        place?;
        app_armor(pod)?;
        return Ok(Verdict::Admit);
    };
    if !is_critical(pod) {
        return Err(first.rejection());
    }
    // Nobody is preempted for a Pod that would not run here anyway.
    place?;
    app_armor(pod)?;
    match victims(pod, &others, &short) {
        Ok(victims) => Ok(Verdict::Preempt(Preemption {
            victims: victims.iter().filter_map(|v| PodUid::new(v.metadata.uid.clone()?).ok()).collect(),
            short_of: short.iter().map(|s| s.resource.clone()).collect(),
            otherwise: first.rejection(),
        })),
        Err(error) => {
            let message = format!("Unexpected error while attempting to recover from admission failure: {error}");
            Err(Rejection::new("UnexpectedAdmissionError", message))
        }
    }
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
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get("kubernetes.io/os"));
    if label.is_some_and(|os| os != "linux") {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(Rejection::new("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    match pod.spec.as_ref().and_then(|s| s.os.as_ref()).map(|os| os.name.as_str()) {
        None | Some("linux") => Ok(()),
        Some(_) => {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            Err(Rejection::new("PodOSNotSupported", message))
        }
    }
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
    let fits = pod.spec.as_ref().is_none_or(|spec| node_affinity_fits(spec, &machine.labels, &machine.name));
    if fits { Ok(()) } else { Err(predicate("NodeAffinity")) }
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
    let theirs = all_containers(pod).filter_map(|c| c.security_context.as_ref()?.app_armor_profile.as_ref());
    let enforced = own.into_iter().chain(theirs).any(|profile| profile.type_ != "Unconfined");
    if enforced {
        return Err(Rejection::new("AppArmor", "Cannot enforce AppArmor: AppArmor is not supported by minke"));
    }
    Ok(())
}
