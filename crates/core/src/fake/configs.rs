//! What a runtime is asked to make, with nothing special about it: tests say only what they are about.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::identity::PodKey;
use crate::runtime::{
    ContainerConfig, ContainerSecurity, ImageId, LinuxResources, NamespaceOptions, SandboxConfig, SeccompProfile,
};

/// The first sandbox of this Pod.
#[must_use]
pub fn sandbox_config(pod: PodKey) -> SandboxConfig {
    SandboxConfig {
        attempt: 0,
        hostname: pod.name.to_string(),
        log_directory: PathBuf::from("/logs"),
        dns: None,
        port_mappings: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup_parent: format!("/minke/pod{}", pod.uid),
        resources: LinuxResources::default(),
        sysctls: BTreeMap::new(),
        namespaces: NamespaceOptions::default(),
        privileged: false,
        seccomp: SeccompProfile::RuntimeDefault,
        runtime_handler: String::new(),
        pod,
    }
}

/// A container that runs what its image says.
#[must_use]
pub fn container_config(name: &str, attempt: u32, image: ImageId) -> ContainerConfig {
    ContainerConfig {
        name: name.to_owned(),
        attempt,
        image,
        image_name: "image:1".to_owned(),
        command: Vec::new(),
        args: Vec::new(),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        log_path: PathBuf::from(format!("{name}/{attempt}.log")),
        stdin: false,
        stdin_once: false,
        tty: false,
        resources: LinuxResources::default(),
        security: ContainerSecurity::default(),
        stop_signal: None,
    }
}
