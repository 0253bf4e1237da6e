//! The OCI specification of a container. Pure: everything about the machine comes in as facts.
//!
//! Deliberately absent, because the helper and the executor do them (see `mod.rs`): capabilities, seccomp,
//! environment, working directory, limits, `oom_score_adj`, kernel parameters.

use std::collections::BTreeMap;
use std::path::PathBuf;

use libcontainer::oci_spec::OciSpecError;
use libcontainer::oci_spec::runtime::{
    LinuxBuilder, LinuxDevice, LinuxDeviceBuilder, LinuxDeviceType, LinuxNamespace, LinuxNamespaceBuilder,
    LinuxNamespaceType, Mount, MountBuilder, ProcessBuilder, RootBuilder, Spec, SpecBuilder, UserBuilder,
};
use minke_core::runtime::{ContainerConfig, MountPropagation, NamespaceMode, NamespaceOptions};

use super::mounts::OciMount;
use super::passwd::Identity;
use crate::cgroup::{DeviceAccess, DeviceKind, DeviceRule};

/// What the machine adds to a configuration.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) identity: Identity,
    /// Where its root file system is mounted.
    pub(super) root: PathBuf,
    pub(super) mounts: Vec<OciMount>,
    pub(super) devices: Vec<DeviceNode>,
    /// Paths of the sandbox's namespaces, by their names in `/proc/<pid>/ns`.
    pub(super) namespaces: BTreeMap<&'static str, PathBuf>,
    /// The container's cgroup.
    pub(super) cgroup: String,
}

/// A device node of the host that the container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceNode {
    pub(super) path: PathBuf,
    pub(super) block: bool,
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) access: DeviceAccess,
}

impl DeviceNode {
    pub(super) fn rule(&self) -> DeviceRule {
        let kind = if self.block { DeviceKind::Block } else { DeviceKind::Char };
        DeviceRule { kind, major: Some(self.major), minor: Some(self.minor), access: self.access }
    }
}

/// Builds the specification.
pub(super) fn build(config: &ContainerConfig, sandbox: &NamespaceOptions, facts: &Facts) -> Result<Spec, OciSpecError> {
    let identity = &facts.identity;
    let user =
        UserBuilder::default().uid(identity.uid).gid(identity.gid).additional_gids(identity.groups.clone()).build()?;
    let mut process = ProcessBuilder::default()
        .terminal(config.tty)
        .user(user)
        .args(vec!["-".to_owned()])
        .env(vec!["PATH=/".to_owned()])
        .cwd("/")
        .build()?;
    process.set_capabilities(None);
    process.set_rlimits(None);
    // The key is left out when false: its mere presence changes when libcontainer would load a filter.
    process.set_no_new_privileges(config.security.no_new_privileges.then_some(true));

    let mut linux = LinuxBuilder::default()
        .namespaces(namespaces(config, sandbox, &facts.namespaces)?)
        .devices(facts.devices.iter().map(device).collect::<Result<Vec<_>, _>>()?)
        .cgroups_path(PathBuf::from(&facts.cgroup))
        .masked_paths(config.security.masked_paths())
        .readonly_paths(config.security.read_only_paths())
        .build()?;
    linux.set_resources(None);
    linux.set_seccomp(None);
    if config.mounts.iter().any(|m| m.propagation == MountPropagation::Bidirectional) {
        linux.set_rootfs_propagation(Some("shared".to_owned()));
    }

    let mut spec = SpecBuilder::default()
        .version("1.2.0")
        .root(RootBuilder::default().path(&facts.root).readonly(config.security.read_only_root).build()?)
        .process(process)
        .mounts(facts.mounts.iter().map(oci_mount).collect::<Result<Vec<_>, _>>()?)
        .linux(linux)
        .build()?;
    spec.set_hostname(None);
    Ok(spec)
}

/// The sandbox's namespaces by path, the container's own without one; the host's are left out.
fn namespaces(
    config: &ContainerConfig,
    sandbox: &NamespaceOptions,
    paths: &BTreeMap<&'static str, PathBuf>,
) -> Result<Vec<LinuxNamespace>, OciSpecError> {
    use LinuxNamespaceType as Type;
    let join = |kind, name: &str| {
        let path = paths.get(name).cloned().unwrap_or_default();
        LinuxNamespaceBuilder::default().typ(kind).path(path).build()
    };
    let new = |kind| LinuxNamespaceBuilder::default().typ(kind).build();
    let mut all = vec![new(Type::Mount)?];
    if sandbox.user.is_some() {
        all.push(join(Type::User, "user")?);
    }
    if sandbox.network != NamespaceMode::Node {
        all.push(join(Type::Network, "net")?);
        all.push(join(Type::Uts, "uts")?);
    }
    if sandbox.ipc != NamespaceMode::Node {
        all.push(join(Type::Ipc, "ipc")?);
    }
    match sandbox.pid {
        NamespaceMode::Container => all.push(new(Type::Pid)?),
        NamespaceMode::Pod => all.push(join(Type::Pid, "pid")?),
        NamespaceMode::Node => {}
    }
    if !config.security.privileged {
        all.push(new(Type::Cgroup)?);
    }
    Ok(all)
}

fn device(node: &DeviceNode) -> Result<LinuxDevice, OciSpecError> {
    LinuxDeviceBuilder::default()
        .typ(if node.block { LinuxDeviceType::B } else { LinuxDeviceType::C })
        .path(&node.path)
        .major(i64::from(node.major))
        .minor(i64::from(node.minor))
        .file_mode(node.mode & 0o7777)
        .uid(node.uid)
        .gid(node.gid)
        .build()
}

fn oci_mount(mount: &OciMount) -> Result<Mount, OciSpecError> {
    MountBuilder::default()
        .destination(&mount.destination)
        .typ(mount.kind)
        .source(&mount.source)
        .options(mount.options.clone())
        .build()
}

#[cfg(test)]
mod tests {
    use minke_core::runtime::{IdMapping, MASKED_PATHS};

    use super::super::command::tests::config;
    use super::*;

    fn facts() -> Facts {
        let identity = Identity { uid: 5, gid: 6, groups: vec![6, 7], home: "/".into() };
        Facts {
            identity,
            root: "/r/rootfs".into(),
            mounts: vec![],
            devices: vec![],
            namespaces: ["net", "uts", "ipc", "pid", "user"].map(|n| (n, format!("/proc/42/ns/{n}").into())).into(),
            cgroup: "/minke/pod1/c1".into(),
        }
    }

    fn kinds(sandbox: &NamespaceOptions, config: &ContainerConfig) -> Vec<(LinuxNamespaceType, bool)> {
        let spec = build(config, sandbox, &facts()).unwrap();
        let namespaces = spec.linux().as_ref().unwrap().namespaces().clone().unwrap();
        namespaces.iter().map(|n| (n.typ(), n.path().is_some())).collect()
    }

    #[test]
    fn namespaces_follow_the_sandbox() {
        use LinuxNamespaceType as Type;
        let default = kinds(&NamespaceOptions::default(), &config());
        assert_eq!(
            default,
            [
                (Type::Mount, false),
                (Type::Network, true),
                (Type::Uts, true),
                (Type::Ipc, true),
                (Type::Pid, false),
                (Type::Cgroup, false)
            ]
        );
        let host = NamespaceOptions {
            network: NamespaceMode::Node,
            pid: NamespaceMode::Node,
            ipc: NamespaceMode::Node,
            user: None,
        };
        assert_eq!(kinds(&host, &config()), [(Type::Mount, false), (Type::Cgroup, false)]);
        let shared = NamespaceOptions {
            pid: NamespaceMode::Pod,
            user: Some(IdMapping { host_id: 100_000, length: 65_536 }),
            ..NamespaceOptions::default()
        };
        let found = kinds(&shared, &config());
        assert!(found.contains(&(Type::Pid, true)) && found.contains(&(Type::User, true)));
        let mut privileged = config();
        privileged.security.privileged = true;
        assert!(!kinds(&NamespaceOptions::default(), &privileged).iter().any(|n| n.0 == Type::Cgroup));
    }

    #[test]
    fn no_new_privileges_is_there_or_left_out() {
        let mut config = config();
        let of = |config: &ContainerConfig| {
            let spec = build(config, &NamespaceOptions::default(), &facts()).unwrap();
            spec.process().as_ref().unwrap().no_new_privileges()
        };
        assert_eq!(of(&config), None);
        config.security.no_new_privileges = true;
        assert_eq!(of(&config), Some(true));
    }

    #[test]
    fn proc_is_masked_unless_privileged_or_unmasked() {
        let masked = |config: &ContainerConfig| {
            let spec = build(config, &NamespaceOptions::default(), &facts()).unwrap();
            spec.linux().as_ref().unwrap().masked_paths().as_ref().map_or(0, Vec::len)
        };
        let mut config = config();
        assert_eq!(masked(&config), MASKED_PATHS.len());
        config.security.unmasked_proc = true;
        assert_eq!(masked(&config), 0);
        config.security.unmasked_proc = false;
        config.security.privileged = true;
        assert_eq!(masked(&config), 0);
    }

    #[test]
    fn the_configuration_on_disk_holds_no_secret() {
        let mut config = config();
        config.env = vec![minke_core::runtime::EnvVar { name: "PASSWORD".into(), value: "hunter2".into() }];
        config.args = vec!["--token=hunter2".into()];
        let spec = build(&config, &NamespaceOptions::default(), &facts()).unwrap();
        assert!(!serde_json::to_string(&spec).unwrap().contains("hunter2"));
    }
}
