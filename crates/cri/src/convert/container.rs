//! Containers.

use minke_core::identity::PodUid;
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerInfo, ContainerStatus, ImageId, Mount, MountPropagation, NamespaceOptions,
    RunAs, SandboxId, labels,
};

use super::security::{self, mount_maps, text};
use super::time::given;
use super::{ordered, own, resources, signal, state, unordered};
use crate::api;

/// For CRI. `user` as for [`security::container`].
pub(crate) fn config(
    config: &ContainerConfig,
    sandbox: &SandboxId,
    pod: &NamespaceOptions,
    user: Option<&RunAs>,
) -> api::ContainerConfig {
    let ours = [
        (own::IMAGE_ID, config.image.0.as_str()),
        (own::IMAGE_NAME, config.image_name.as_str()),
        (own::SANDBOX, sandbox.0.as_str()),
    ];
    let stop_signal = config.stop_signal.as_deref().and_then(signal::signal);
    let env = config.env.iter().map(|var| api::KeyValue { key: var.name.clone(), value: var.value.clone() });
    let devices = config.devices.iter().map(|device| api::Device {
        container_path: text(&device.container_path),
        host_path: text(&device.host_path),
        permissions: device.permissions.clone(),
    });
    api::ContainerConfig {
        metadata: Some(api::ContainerMetadata { name: config.name.clone(), attempt: config.attempt }),
        image: Some(api::ImageSpec {
            image: config.image.0.clone(),
            user_specified_image: config.image_name.clone(),
            ..Default::default()
        }),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.working_dir.as_deref().map(text).unwrap_or_default(),
        envs: env.collect(),
        mounts: config.mounts.iter().map(|m| mount(m, pod)).collect(),
        devices: devices.collect(),
        labels: unordered(&config.labels),
        annotations: own::with(&config.annotations, &ours),
        log_path: text(&config.log_path),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(api::LinuxContainerConfig {
            resources: Some(resources::resources(&config.resources)),
            security_context: Some(security::container(&config.security, pod, user)),
        }),
        stop_signal: stop_signal.map_or(0, i32::from),
        ..Default::default()
    }
}

fn mount(mount: &Mount, pod: &NamespaceOptions) -> api::Mount {
    let propagation = match mount.propagation {
        MountPropagation::Private => api::MountPropagation::PropagationPrivate,
        MountPropagation::HostToContainer => api::MountPropagation::PropagationHostToContainer,
        MountPropagation::Bidirectional => api::MountPropagation::PropagationBidirectional,
    };
    api::Mount {
        container_path: text(&mount.container_path),
        host_path: text(&mount.host_path),
        readonly: mount.read_only,
        recursive_read_only: mount.recursive_read_only,
        propagation: propagation.into(),
        uid_mappings: mount_maps(pod.user),
        gid_mappings: mount_maps(pod.user),
        ..Default::default()
    }
}

/// As a list shows it. `None`: no Pod's.
pub(crate) fn info(container: api::Container) -> Option<ContainerInfo> {
    let pod = container.labels.get(labels::POD_UID)?;
    let phase = state::phase(container.state());
    let metadata = container.metadata.unwrap_or_default();
    Some(ContainerInfo {
        pod: PodUid::new(pod.as_str()).ok()?,
        id: ContainerId(container.id),
        sandbox: SandboxId(container.pod_sandbox_id),
        name: metadata.name,
        attempt: metadata.attempt,
        phase,
        created_at: given(container.created_at),
    })
}

/// The sandbox of a container of ours.
pub(crate) fn sandbox(container: &api::ContainerStatus) -> Option<SandboxId> {
    container.annotations.get(own::SANDBOX).map(|id| SandboxId(id.clone()))
}

/// In full, in a sandbox, which CRI's answer leaves out. `None`: no Pod's.
pub(crate) fn status(container: api::ContainerStatus, sandbox: SandboxId) -> Option<ContainerStatus> {
    let pod = PodUid::new(container.labels.get(labels::POD_UID)?.as_str()).ok()?;
    let state = state::state(&container);
    let image = image(&container);
    let user = container.user.as_ref().and_then(|user| user.linux.as_ref());
    let metadata = container.metadata.unwrap_or_default();
    Some(ContainerStatus {
        id: ContainerId(container.id),
        sandbox,
        pod,
        name: metadata.name,
        attempt: metadata.attempt,
        created_at: given(container.created_at),
        state,
        image_name: image.0,
        image: image.1,
        log_path: container.log_path.into(),
        labels: ordered(container.labels),
        annotations: own::without(container.annotations),
        uid: user.and_then(|user| u32::try_from(user.uid).ok()),
    })
}

/// Name and id of the image: as it was asked for, and for a container of somebody else as the runtime says.
fn image(container: &api::ContainerStatus) -> (String, ImageId) {
    let said = container.image.clone().unwrap_or_default();
    let pick = |key: &str, others: [&str; 2]| {
        let ours = container.annotations.get(key).map(String::as_str);
        let found = ours.into_iter().chain(others).find(|text| !text.is_empty());
        found.unwrap_or_default().to_owned()
    };
    let name = pick(own::IMAGE_NAME, [&said.user_specified_image, &said.image]);
    let id = pick(own::IMAGE_ID, [&container.image_id, &container.image_ref]);
    (name, ImageId(id))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use minke_core::runtime::{ContainerPhase, ContainerSecurity, ContainerState, EnvVar, IdMapping, LinuxResources};

    use super::*;

    pub(crate) fn example() -> ContainerConfig {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        ContainerConfig {
            name: "app".to_owned(),
            attempt: 3,
            image: ImageId("sha256:1".to_owned()),
            image_name: "busybox:1".to_owned(),
            command: vec!["sh".to_owned()],
            args: vec!["-c".to_owned(), "true".to_owned()],
            working_dir: Some(PathBuf::from("/w")),
            env: vec![EnvVar { name: "A".to_owned(), value: "b".to_owned() }],
            mounts: vec![Mount {
                host_path: PathBuf::from("/h"),
                container_path: PathBuf::from("/c"),
                read_only: true,
                recursive_read_only: false,
                propagation: MountPropagation::HostToContainer,
            }],
            devices: Vec::new(),
            labels: BTreeMap::from([label(labels::POD_UID, "u-1"), label(labels::CONTAINER_NAME, "app")]),
            annotations: BTreeMap::from([label(labels::HASH, "abc"), label(labels::RESTART_COUNT, "3")]),
            log_path: PathBuf::from("app/3.log"),
            stdin: false,
            stdin_once: false,
            tty: false,
            resources: LinuxResources::default(),
            security: ContainerSecurity::default(),
            stop_signal: Some("SIGUSR1".to_owned()),
        }
    }

    #[test]
    fn a_container_is_asked_for_as_the_kubelet_asks() {
        let there = config(&example(), &SandboxId("s1".to_owned()), &NamespaceOptions::default(), None);
        let metadata = there.metadata.as_ref().unwrap();
        assert_eq!((metadata.name.as_str(), metadata.attempt), ("app", 3));
        let image = there.image.as_ref().unwrap();
        assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "busybox:1"));
        assert_eq!(
            (there.command.clone(), there.args.clone()),
            (vec!["sh".to_owned()], vec!["-c".to_owned(), "true".to_owned()])
        );
        assert_eq!((there.log_path.as_str(), there.working_dir.as_str()), ("app/3.log", "/w"));
        assert_eq!(there.labels[labels::POD_UID], "u-1");
        assert_eq!(there.annotations[labels::HASH], "abc");
        assert_eq!(there.envs, [api::KeyValue { key: "A".to_owned(), value: "b".to_owned() }]);
        let mount = &there.mounts[0];
        assert!(mount.readonly && !mount.recursive_read_only && mount.uid_mappings.is_empty());
        assert_eq!(mount.propagation(), api::MountPropagation::PropagationHostToContainer);
        assert_eq!(there.stop_signal(), api::Signal::Sigusr1);
    }

    #[test]
    fn mounts_of_a_pod_with_a_user_namespace_have_its_maps() {
        let pod = NamespaceOptions { user: Some(IdMapping { host_id: 65536, length: 65536 }), ..Default::default() };
        let there = config(&example(), &SandboxId("s1".to_owned()), &pod, None);
        let map = api::IdMapping { host_id: 65536, container_id: 0, length: 65536 };
        assert_eq!((&there.mounts[0].uid_mappings, &there.mounts[0].gid_mappings), (&vec![map], &vec![map]));
    }

    /// The answer of a runtime that names images as it likes.
    fn answer() -> api::ContainerStatus {
        let there = config(&example(), &SandboxId("s1".to_owned()), &NamespaceOptions::default(), None);
        api::ContainerStatus {
            id: "c1".to_owned(),
            metadata: there.metadata,
            state: api::ContainerState::ContainerRunning.into(),
            created_at: 1,
            started_at: 2,
            image: Some(api::ImageSpec { image: "docker.io/library/busybox:1".to_owned(), ..Default::default() }),
            image_ref: "docker.io/library/busybox@sha256:9".to_owned(),
            labels: there.labels,
            annotations: there.annotations,
            log_path: "/logs/app/3.log".to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn what_was_configured_comes_back() {
        assert_eq!(sandbox(&answer()), Some(SandboxId("s1".to_owned())));
        let (wanted, got) = (example(), status(answer(), SandboxId("s1".to_owned())).unwrap());
        assert_eq!((got.name, got.attempt, got.pod.as_str()), (wanted.name, 3, "u-1"));
        assert_eq!((got.image_name, got.image), (wanted.image_name, wanted.image));
        assert_eq!((got.labels, got.annotations), (wanted.labels, wanted.annotations));
        assert_eq!((got.sandbox.0.as_str(), got.uid), ("s1", None));
        assert!(matches!(got.state, ContainerState::Running { .. }));
        let user = api::LinuxContainerUser { uid: 1000, ..Default::default() };
        let told = api::ContainerStatus { user: Some(api::ContainerUser { linux: Some(user) }), ..answer() };
        assert_eq!(status(told, SandboxId("s1".to_owned())).unwrap().uid, Some(1000), "newer runtimes tell the user");
    }

    #[test]
    fn another_programs_container_has_its_image_from_the_runtime() {
        let mut foreign = answer();
        foreign.annotations.clear();
        assert_eq!(sandbox(&foreign), None);
        let got = status(foreign.clone(), SandboxId("s".to_owned())).unwrap();
        assert_eq!(got.image_name, "docker.io/library/busybox:1");
        assert_eq!(got.image.0, "docker.io/library/busybox@sha256:9");
        foreign.image_id = "sha256:7".to_owned();
        assert_eq!(status(foreign, SandboxId("s".to_owned())).unwrap().image.0, "sha256:7");
    }

    #[test]
    fn a_container_without_a_pod_is_nobodys() {
        assert_eq!(info(api::Container::default()), None);
        let labels = [(labels::POD_UID.to_owned(), "u".to_owned())].into();
        let there =
            api::Container { id: "c".into(), pod_sandbox_id: "s".into(), labels, state: 2, ..Default::default() };
        let got = info(there).unwrap();
        assert_eq!((got.id.0.as_str(), got.sandbox.0.as_str(), got.phase), ("c", "s", ContainerPhase::Exited));
    }
}
