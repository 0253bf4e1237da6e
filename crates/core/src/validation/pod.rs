//! A Pod as a whole; its parts are in the files beside this one.

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};

use super::containers::{ContainerContext, containers};
use super::dns::dns;
use super::error::{Errors, ValidationError};
use super::metadata::{labels, metadata, template_metadata};
use super::names::{dns_label, dns_subdomain};
use super::path::FieldPath;
use super::resources::pod_level_resources;
use super::scheduling::{readiness_gates, tolerations};
use super::security::pod_security;
use super::volumes::volumes;

/// What a server would refuse in a Pod to be created. The Pod has its defaults.
#[must_use]
pub fn validate_pod(pod: &Pod) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    metadata(&mut errors, &pod.metadata, &FieldPath::of("metadata"));
    match &pod.spec {
        Some(spec) => pod_spec(&mut errors, spec, &FieldPath::of("spec")),
        None => errors.required(&FieldPath::of("spec"), ""),
    }
    errors.into_vec()
}

/// What a server would refuse in the Pod template of a controller. The template has its defaults.
#[must_use]
pub fn validate_pod_template(template: &PodTemplateSpec, path: &FieldPath) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    if let Some(meta) = &template.metadata {
        template_metadata(&mut errors, meta, &path.field("metadata"));
    }
    match &template.spec {
        Some(spec) => pod_spec(&mut errors, spec, &path.field("spec")),
        None => errors.required(&path.field("spec"), ""),
    }
    errors.into_vec()
}

fn pod_spec(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    volumes(errors, spec, &path.field("volumes"));
    let context = ContainerContext::of(spec);
    containers(errors, spec, &context, path);
    one_of(errors, spec.restart_policy.as_deref(), &["Always", "OnFailure", "Never"], &path.field("restartPolicy"));
    dns(errors, spec, path);
    deadlines(errors, spec, path);
    host_names(errors, spec, path);
    namespaces(errors, spec, path);
    pod_security(errors, spec, &path.field("securityContext"));
    pod_level_resources(errors, spec, &path.field("resources"));
    tolerations(errors, spec, &path.field("tolerations"));
    readiness_gates(errors, spec, &path.field("readinessGates"));
    if let Some(selector) = &spec.node_selector {
        labels(errors, selector, &path.field("nodeSelector"));
    }
    if let Some(name) = spec.service_account_name.as_deref().filter(|name| !name.is_empty())
        && let Some(problem) = dns_subdomain(name)
    {
        errors.invalid(&path.field("serviceAccountName"), name, problem);
    }
    if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty())
        && let Some(problem) = dns_subdomain(name)
    {
        errors.invalid(&path.field("nodeName"), name, problem);
    }
    for (i, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        if secret.name.is_empty() {
            errors.required(&path.field("imagePullSecrets").index(i).field("name"), "");
        }
    }
    if let Some(os) = &spec.os {
        let at = path.field("os").field("name");
        if os.name.is_empty() {
            errors.required(&at, "");
        } else {
            one_of(errors, Some(&os.name), &["linux", "windows"], &at);
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        errors.forbidden(&path.field("ephemeralContainers"), "cannot be set on create");
    }
}

/// A value out of a closed set. Absent is fine: defaulting has had its turn, so the field is optional.
pub(super) fn one_of(errors: &mut Errors, value: Option<&str>, known: &[&str], path: &FieldPath) {
    if let Some(value) = value
        && !known.contains(&value)
    {
        errors.unsupported(path, value, known);
    }
}

fn deadlines(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let at = path.field("activeDeadlineSeconds");
        errors.invalid(&at, seconds, "must be between 1 and 2147483647, inclusive");
    }
    if let Some(seconds) = spec.termination_grace_period_seconds.filter(|seconds| *seconds < 0) {
        errors.invalid(&path.field("terminationGracePeriodSeconds"), seconds, "must be greater than or equal to 0");
    }
}

fn host_names(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    for (name, field) in [(&spec.hostname, "hostname"), (&spec.subdomain, "subdomain")] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty())
            && let Some(problem) = dns_label(name)
        {
            errors.invalid(&path.field(field), name, problem);
        }
    }
    let Some(name) = &spec.hostname_override else { return };
    let at = path.field("hostnameOverride");
    if let Some(problem) = dns_subdomain(name) {
        errors.invalid(&at, name, problem);
    }
    if name.len() > 64 {
        errors.too_long(&at, 64);
    }
    if spec.host_network == Some(true) {
        errors.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    if spec.set_hostname_as_fqdn == Some(true) {
        errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
}

fn namespaces(errors: &mut Errors, spec: &PodSpec, path: &FieldPath) {
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let at = path.field("shareProcessNamespace");
        errors.invalid(&at, true, "shareProcessNamespace and hostPID cannot both be enabled");
    }
    if spec.host_users == Some(false) {
        let host = [(spec.host_network, "hostNetwork"), (spec.host_pid, "hostPID"), (spec.host_ipc, "hostIPC")];
        for (on, field) in host {
            if on == Some(true) {
                errors.forbidden(&path.field(field), "when `hostUsers` is false");
            }
        }
    }
}
