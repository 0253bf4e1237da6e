//! Defaults of a container.

use k8s_openapi::api::core::v1::Container;

use super::pod::fill;
use super::probe::{default_http_get, default_probe};

pub(super) fn default_container(container: &mut Container) {
    let policy = pull_policy(container.image.as_deref().unwrap_or(""));
    fill(&mut container.image_pull_policy, policy);
    fill(&mut container.termination_message_path, "/dev/termination-log");
    fill(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        fill(&mut port.protocol, "TCP");
    }
    for variable in container.env.iter_mut().flatten() {
        if let Some(field) = variable.value_from.as_mut().and_then(|source| source.field_ref.as_mut()) {
            fill(&mut field.api_version, "v1");
        }
    }
    let resources = container.resources.get_or_insert_default();
    for (name, limit) in resources.limits.iter().flatten() {
        resources.requests.get_or_insert_default().entry(name.clone()).or_insert_with(|| limit.clone());
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    for probe in probes.into_iter().flatten() {
        default_probe(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            if let Some(http) = &mut handler.http_get {
                default_http_get(http);
            }
        }
    }
}

/// `Always` where the image can change under its name: with the tag `latest`, or with neither tag nor digest.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the port of a registry.
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        (Some(_), _) | (None, Some(_)) => "IfNotPresent",
    }
}
