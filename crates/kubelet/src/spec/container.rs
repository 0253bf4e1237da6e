//! A container of a Pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::env::expand_command;
use minke_core::identity::PodKey;
use minke_core::resources::container_resources;
use minke_core::runtime::{ContainerConfig, EnvVar, ImageStatus, Mount, MountPropagation, labels};

use super::{NodeSettings, SpecError, container_hash, container_security};

/// Where a container's last words are written unless it says otherwise.
pub const DEFAULT_TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// What a container is made from.
#[derive(Debug, Clone, Copy)]
pub struct ContainerInput<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its identity.
    pub key: &'a PodKey,
    /// The container.
    pub container: &'a Container,
    /// Restart count.
    pub attempt: u32,
    /// Its image, present in the store.
    pub image: &'a ImageStatus,
    /// Its environment, resolved.
    pub env: &'a [EnvVar],
    /// Mounts of its volumes.
    pub volume_mounts: &'a [Mount],
    /// The Pod's `/etc/hosts`, if it gets one.
    pub hosts_file: Option<&'a Path>,
    /// The file for its termination message.
    pub termination_log: Option<&'a Path>,
    /// The machine.
    pub node: &'a NodeSettings,
}

/// Describes a container.
///
/// # Errors
/// The spec asks for what can't be.
pub fn container_config(input: &ContainerInput<'_>) -> Result<ContainerConfig, SpecError> {
    let ContainerInput { pod, key, container, attempt, image, env, .. } = *input;
    if container.volume_devices.iter().flatten().next().is_some() {
        return Err(SpecError::Unsupported("volumeDevices"));
    }
    let (command, args) = expand_command(container, env);
    let working_dir = container.working_dir.as_deref().filter(|d| !d.is_empty());
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt,
        image: image.id.clone(),
        image_name: container.image.clone().unwrap_or_default(),
        command,
        args,
        working_dir: working_dir.map(absolute),
        env: env.to_vec(),
        mounts: mounts(input),
        devices: Vec::new(),
        labels: container_labels(container, key),
        annotations: annotations(pod, container, attempt),
        log_path: container_log(&container.name, attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        resources: container_resources(pod, container, &input.node.limits),
        security: container_security(pod, container, &image.user, &input.node.state_directory)?,
        stop_signal: container.lifecycle.as_ref().and_then(|l| l.stop_signal.clone()).filter(|s| !s.is_empty()),
    })
}

/// A container's log, relative to the Pod's log directory: `<container>/<attempt>.log`.
#[must_use]
pub fn container_log(name: &str, attempt: u32) -> PathBuf {
    Path::new(name).join(format!("{attempt}.log"))
}

/// Where the container writes its last words.
#[must_use]
pub fn termination_message_path(container: &Container) -> PathBuf {
    let path = container.termination_message_path.as_deref().filter(|p| !p.is_empty());
    absolute(path.unwrap_or(DEFAULT_TERMINATION_MESSAGE_PATH))
}

fn absolute(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

fn container_labels(container: &Container, key: &PodKey) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::CONTAINER_NAME.to_owned(), container.name.clone()),
        (labels::POD_NAME.to_owned(), key.name.to_string()),
        (labels::POD_NAMESPACE.to_owned(), key.namespace.to_string()),
        (labels::POD_UID.to_owned(), key.uid.to_string()),
    ])
}

fn annotations(pod: &Pod, container: &Container, attempt: u32) -> BTreeMap<String, String> {
    let policy = container.termination_message_policy.clone().unwrap_or_else(|| "File".to_owned());
    let path = termination_message_path(container).display().to_string();
    let mut all = BTreeMap::from([
        (labels::HASH.to_owned(), container_hash(container)),
        (labels::RESTART_COUNT.to_owned(), attempt.to_string()),
        (labels::TERMINATION_MESSAGE_PATH.to_owned(), path),
        (labels::TERMINATION_MESSAGE_POLICY.to_owned(), policy),
    ]);
    if let Some(grace) = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds) {
        all.insert(labels::POD_TERMINATION_GRACE.to_owned(), grace.to_string());
    }
    all
}

/// All mounts, parents before children: volumes, then `/etc/hosts` and the termination log where no volume stands in
/// their place.
fn mounts(input: &ContainerInput<'_>) -> Vec<Mount> {
    let mut mounts = input.volume_mounts.to_vec();
    let file = |host_path: &Path, container_path: PathBuf| Mount {
        host_path: host_path.to_owned(),
        container_path,
        read_only: false,
        recursive_read_only: false,
        propagation: MountPropagation::Private,
    };
    let own = [
        input.hosts_file.map(|path| file(path, PathBuf::from("/etc/hosts"))),
        input.termination_log.map(|path| file(path, termination_message_path(input.container))),
    ];
    for mount in own.into_iter().flatten() {
        if mounts.iter().all(|m| m.container_path != mount.container_path) {
            mounts.push(mount);
        }
    }
    // Stable, so that mounts of one depth keep the order of the manifest.
    mounts.sort_by_key(|mount| mount.container_path.components().count());
    mounts
}
