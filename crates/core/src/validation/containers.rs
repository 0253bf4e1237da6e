//! Containers and init containers.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::env::{env, env_from};
use super::error::Errors;
use super::mounts::mounts;
use super::names::dns_label;
use super::path::FieldPath;
use super::pod::one_of;
use super::ports::{host_port_conflicts, ports};
use super::probes::{ProbeKind, lifecycle, probe};
use super::resources::container_resources;
use super::security::container_security;

/// What the rules of a container need to know of its Pod.
pub(crate) struct ContainerContext<'p> {
    pub(crate) spec: &'p PodSpec,
    pub(crate) volume_names: HashSet<&'p str>,
}

impl<'p> ContainerContext<'p> {
    pub(crate) fn of(spec: &'p PodSpec) -> Self {
        let volume_names = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
        Self { spec, volume_names }
    }
}

/// The place of a container in its Pod, which decides what it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// `containers`.
    Main,
    /// `initContainers`, runs to its end.
    Init,
    /// `initContainers` with `restartPolicy: Always`: goes on beside the main containers.
    Sidecar,
}

pub(crate) fn containers(errors: &mut Errors, spec: &PodSpec, context: &ContainerContext<'_>, path: &FieldPath) {
    if spec.containers.is_empty() {
        errors.required(&path.field("containers"), "");
    }
    let mut names = HashSet::new();
    for (i, container) in spec.containers.iter().enumerate() {
        one(errors, container, Role::Main, context, &mut names, &path.field("containers").index(i));
    }
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        let at = path.field("initContainers").index(i);
        let role = match container.restart_policy.as_deref() {
            None => Role::Init,
            Some("Always") => Role::Sidecar,
            Some(other) => {
                errors.unsupported(&at.field("restartPolicy"), other, &["Always"]);
                Role::Init
            }
        };
        one(errors, container, role, context, &mut names, &at);
    }
    host_port_conflicts(errors, spec, path);
}

fn one<'p>(
    errors: &mut Errors,
    container: &'p Container,
    role: Role,
    context: &ContainerContext<'_>,
    names: &mut HashSet<&'p str>,
    path: &FieldPath,
) {
    let name_path = path.field("name");
    if container.name.is_empty() {
        errors.required(&name_path, "");
    } else if let Some(problem) = dns_label(&container.name) {
        errors.invalid(&name_path, &container.name, problem);
    } else if !names.insert(&container.name) {
        errors.duplicate(&name_path, &container.name);
    }
    image(errors, container, path);
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(errors, container.image_pull_policy.as_deref(), &policies, &path.field("imagePullPolicy"));
    termination(errors, container, path);
    ports(errors, container, context.spec.host_network == Some(true), &path.field("ports"));
    env(errors, container, &path.field("env"));
    env_from(errors, container, &path.field("envFrom"));
    mounts(errors, container, context, &path.field("volumeMounts"));
    container_resources(errors, container, &path.field("resources"));
    resize_policy(errors, container, &path.field("resizePolicy"));
    container_security(errors, container, context.spec, &path.field("securityContext"));
    match role {
        Role::Main | Role::Sidecar => {
            probe(errors, container.liveness_probe.as_ref(), ProbeKind::Liveness, &path.field("livenessProbe"));
            probe(errors, container.readiness_probe.as_ref(), ProbeKind::Readiness, &path.field("readinessProbe"));
            probe(errors, container.startup_probe.as_ref(), ProbeKind::Startup, &path.field("startupProbe"));
            lifecycle(errors, container, context.spec, &path.field("lifecycle"));
        }
        Role::Init => {
            let given = [
                (container.lifecycle.is_some(), "lifecycle"),
                (container.liveness_probe.is_some(), "livenessProbe"),
                (container.readiness_probe.is_some(), "readinessProbe"),
                (container.startup_probe.is_some(), "startupProbe"),
            ];
            for (_, field) in given.iter().filter(|(is_given, _)| *is_given) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&path.field(*field), detail);
            }
        }
    }
}

fn image(errors: &mut Errors, container: &Container, path: &FieldPath) {
    let path = path.field("image");
    let image = container.image.as_deref().unwrap_or("");
    if image.is_empty() {
        errors.required(&path, "");
    } else if image.trim() != image {
        errors.invalid(&path, image, "must not have leading or trailing whitespace");
    } else if image.chars().any(|c| c.is_whitespace() || c.is_control()) {
        errors.invalid(&path, image, "must not contain whitespace or control characters");
    }
}

fn termination(errors: &mut Errors, container: &Container, path: &FieldPath) {
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = container.termination_message_policy.as_deref();
    one_of(errors, policy, &policies, &path.field("terminationMessagePolicy"));
    if let Some(file) = container.termination_message_path.as_deref()
        && !file.is_empty()
        && !file.starts_with('/')
    {
        errors.invalid(&path.field("terminationMessagePath"), file, "must be an absolute path");
    }
}

fn resize_policy(errors: &mut Errors, container: &Container, path: &FieldPath) {
    let mut names = HashSet::new();
    for (i, policy) in container.resize_policy.iter().flatten().enumerate() {
        let path = path.index(i);
        one_of(errors, Some(&policy.resource_name), &["cpu", "memory"], &path.field("resourceName"));
        let known = ["NotRequired", "RestartContainer"];
        one_of(errors, Some(&policy.restart_policy), &known, &path.field("restartPolicy"));
        if !names.insert(&policy.resource_name) {
            errors.duplicate(&path, &policy.resource_name);
        }
    }
}
