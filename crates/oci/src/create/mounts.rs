//! What is mounted in a container, in order. Pure.

use std::path::{Path, PathBuf};

use minke_core::runtime::{ContainerConfig, MountPropagation, NamespaceMode};

use super::{SandboxFacts, SandboxFiles};
use crate::cgroup::Hierarchies;

/// One mount, as the OCI specification writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OciMount {
    pub(super) destination: PathBuf,
    pub(super) kind: &'static str,
    pub(super) source: PathBuf,
    pub(super) options: Vec<String>,
}

fn mount(destination: &str, kind: &'static str, source: &str, options: &[&str]) -> OciMount {
    let options = options.iter().map(|o| (*o).to_owned()).collect();
    OciMount { destination: destination.into(), kind, source: source.into(), options }
}

/// The kernel's file systems, the sandbox's files, then the kubelet's mounts, which come last so that they can lie
/// over anything. `files` and `volumes` are where the sandbox's files and the sources of the kubelet's mounts are to
/// be found in the helper's mount namespace.
pub(super) fn mounts(
    config: &ContainerConfig,
    sandbox: &SandboxFacts,
    files: &SandboxFiles,
    volumes: &[PathBuf],
) -> Vec<OciMount> {
    let privileged = config.security.privileged;
    let brought = |path: &str| config.mounts.iter().any(|m| m.container_path == Path::new(path));
    let foreign_network = sandbox.namespaces.network == NamespaceMode::Node && sandbox.namespaces.user.is_some();
    let sys_access = if privileged { "rw" } else { "ro" };
    let mut all = vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
    ];
    if foreign_network {
        // sysfs can only be mounted by the owner of the network namespace.
        all.push(mount("/sys", "bind", "/sys", &["rbind", "nosuid", "noexec", "nodev", sys_access]));
    } else {
        all.push(mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", sys_access]));
    }
    all.extend(cgroup_mount(&sandbox.hierarchies, privileged));
    if !brought("/dev/shm") {
        let shm =
            if sandbox.namespaces.ipc == NamespaceMode::Node { Path::new("/dev/shm") } else { &sandbox.files.shm };
        all.push(OciMount {
            source: shm.into(),
            ..mount("/dev/shm", "bind", "", &["rbind", "rw", "nosuid", "noexec", "nodev"])
        });
    }
    let access = if config.security.read_only_root { "ro" } else { "rw" };
    for (destination, source) in
        [("/etc/hosts", &files.hosts), ("/etc/hostname", &files.hostname), ("/etc/resolv.conf", &files.resolv_conf)]
    {
        if !brought(destination) {
            all.push(OciMount {
                source: source.clone(),
                ..mount(destination, "bind", "", &["rbind", "rprivate", access])
            });
        }
    }
    for (at, volume) in config.mounts.iter().enumerate() {
        let mut options = vec!["rbind"];
        options.push(match volume.propagation {
            MountPropagation::Private => "rprivate",
            MountPropagation::HostToContainer => "rslave",
            MountPropagation::Bidirectional => "rshared",
        });
        options.push(if volume.read_only { "ro" } else { "rw" });
        if volume.recursive_read_only {
            options.push("rro");
        }
        let source = volumes.get(at).unwrap_or(&volume.host_path).clone();
        all.push(OciMount {
            destination: volume.container_path.clone(),
            kind: "bind",
            source,
            options: options.into_iter().map(str::to_owned).collect(),
        });
    }
    all
}

/// The container's own cgroup at `/sys/fs/cgroup`; a privileged container sees the machine's, writable. `None` on
/// version 1, where init mounts a tree that the helper has put together (see `rootfs`).
fn cgroup_mount(hierarchies: &Hierarchies, privileged: bool) -> Option<OciMount> {
    let options = ["nosuid", "noexec", "nodev"];
    match (hierarchies, privileged) {
        (Hierarchies::V1 { .. }, false) => None,
        (Hierarchies::V1 { .. }, true) => {
            Some(mount("/sys/fs/cgroup", "bind", "/sys/fs/cgroup", &[&["rbind", "rw"], &options[..]].concat()))
        }
        (Hierarchies::V2 { .. }, _) => {
            let access = if privileged { "rw" } else { "ro" };
            Some(mount("/sys/fs/cgroup", "cgroup", "cgroup", &[&[access], &options[..]].concat()))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use minke_core::runtime::{Mount, NamespaceOptions};

    use super::super::SandboxFiles;
    use super::super::command::tests::config;
    use super::*;
    use crate::cgroup::Controller;

    pub(in crate::create) fn sandbox() -> SandboxFacts {
        SandboxFacts {
            hostname: "pod".into(),
            namespaces: NamespaceOptions::default(),
            cgroup: "/minke/pod1".into(),
            hierarchies: Hierarchies::V1 {
                controllers: vec![Controller { names: vec!["memory".into()], mount: "/sys/fs/cgroup/memory".into() }],
                systemd: None,
            },
            files: SandboxFiles {
                resolv_conf: "/s/resolv.conf".into(),
                hostname: "/s/hostname".into(),
                hosts: "/s/hosts".into(),
                shm: "/r/shm".into(),
            },
        }
    }

    fn of(config: &ContainerConfig, sandbox: &SandboxFacts) -> Vec<OciMount> {
        mounts(config, sandbox, &sandbox.files, &[])
    }

    fn at<'a>(mounts: &'a [OciMount], destination: &str) -> &'a OciMount {
        mounts.iter().find(|m| m.destination == Path::new(destination)).unwrap()
    }

    fn has(mount: &OciMount, option: &str) -> bool {
        mount.options.iter().any(|o| o == option)
    }

    #[test]
    fn an_ordinary_container_reads_sysfs_and_its_own_cgroup() {
        let all = of(&config(), &sandbox());
        assert!(has(at(&all, "/sys"), "ro"));
        // Init mounts the tree of version 1; on version 2 it is a mount like others.
        assert!(!all.iter().any(|m| m.destination == Path::new("/sys/fs/cgroup")));
        let hierarchies = Hierarchies::V2 { mount: "/sys/fs/cgroup".into(), controllers: vec![] };
        let all = of(&config(), &SandboxFacts { hierarchies, ..sandbox() });
        assert!(has(at(&all, "/sys/fs/cgroup"), "ro"));
        assert_eq!(at(&all, "/dev/shm").source, Path::new("/r/shm"));
        assert_eq!(at(&all, "/etc/resolv.conf").source, Path::new("/s/resolv.conf"));
    }

    #[test]
    fn a_privileged_container_writes_sysfs_and_sees_the_machines_cgroups() {
        let mut config = config();
        config.security.privileged = true;
        let all = of(&config, &sandbox());
        assert!(has(at(&all, "/sys"), "rw"));
        let cgroup = at(&all, "/sys/fs/cgroup");
        assert_eq!(cgroup.source, Path::new("/sys/fs/cgroup"));
        assert!(has(cgroup, "rw"));
    }

    #[test]
    fn host_ipc_shares_the_hosts_shm() {
        let mut sandbox = sandbox();
        sandbox.namespaces.ipc = NamespaceMode::Node;
        assert_eq!(at(&of(&config(), &sandbox), "/dev/shm").source, Path::new("/dev/shm"));
    }

    #[test]
    fn volumes_come_last_with_their_propagation_and_replace_the_sandboxs_files() {
        let volume = |path: &str, propagation, read_only, recursive| Mount {
            host_path: format!("/host{path}").into(),
            container_path: path.into(),
            read_only,
            recursive_read_only: recursive,
            propagation,
        };
        let mut config = config();
        config.mounts = vec![
            volume("/etc/hosts", MountPropagation::Private, false, false),
            volume("/a", MountPropagation::HostToContainer, true, true),
            volume("/b", MountPropagation::Bidirectional, false, false),
        ];
        let stand_ins = ["/v0", "/v1", "/v2"].map(PathBuf::from);
        let all = mounts(&config, &sandbox(), &sandbox().files, &stand_ins);
        assert_eq!(all.iter().filter(|m| m.destination == Path::new("/etc/hosts")).count(), 1);
        let tail = &all[all.len() - 2..];
        assert!(has(&tail[0], "rslave") && has(&tail[0], "ro") && has(&tail[0], "rro"));
        assert!(has(&tail[1], "rshared") && has(&tail[1], "rw"));
        assert_eq!((&*tail[0].source, &*tail[1].source), (Path::new("/v1"), Path::new("/v2")));
    }

    #[test]
    fn a_read_only_root_makes_the_sandboxs_files_read_only() {
        let mut config = config();
        config.security.read_only_root = true;
        assert!(has(at(&of(&config, &sandbox()), "/etc/hostname"), "ro"));
    }
}
