//! Security settings.

use std::path::Path;

use minke_core::runtime::{ContainerSecurity, IdMapping, NamespaceOptions, RunAs, SandboxConfig, SeccompProfile};

use super::namespaces::namespaces;
use crate::api;

fn seccomp(profile: &SeccompProfile) -> api::SecurityProfile {
    use api::security_profile::ProfileType;
    let (kind, path) = match profile {
        SeccompProfile::RuntimeDefault => (ProfileType::RuntimeDefault, None),
        SeccompProfile::Unconfined => (ProfileType::Unconfined, None),
        SeccompProfile::Localhost(path) => (ProfileType::Localhost, Some(path)),
    };
    let localhost_ref = path.map(|p| text(p)).unwrap_or_default();
    api::SecurityProfile { profile_type: kind.into(), localhost_ref }
}

/// A path as CRI has it. One that is no text can't be told; runtimes then say that it does not exist.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A container's settings. `user` is who it is when the image decides and CRI must be told nevertheless.
pub(crate) fn container(
    security: &ContainerSecurity,
    pod: &NamespaceOptions,
    user: Option<&RunAs>,
) -> api::LinuxContainerSecurityContext {
    let (run_as_user, run_as_username) = match user.unwrap_or(&security.run_as) {
        RunAs::Image => (None, String::new()),
        RunAs::Uid(uid) => (Some(api::Int64Value { value: i64::from(*uid) }), String::new()),
        RunAs::Name(name) => (None, name.clone()),
    };
    let policy = if security.strict_supplemental_groups {
        api::SupplementalGroupsPolicy::Strict
    } else {
        api::SupplementalGroupsPolicy::Merge
    };
    api::LinuxContainerSecurityContext {
        capabilities: Some(api::Capability {
            add_capabilities: security.capabilities.add.clone(),
            drop_capabilities: security.capabilities.drop.clone(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(pod)),
        run_as_user,
        run_as_username,
        run_as_group: security.run_as_group.map(|gid| api::Int64Value { value: i64::from(gid) }),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.supplemental_groups.iter().map(|gid| i64::from(*gid)).collect(),
        supplemental_groups_policy: policy.into(),
        no_new_privs: security.no_new_privileges,
        // Runtimes hide what they are told to, and with an empty list nothing.
        masked_paths: security.masked_paths(),
        readonly_paths: security.read_only_paths(),
        seccomp: Some(seccomp(&security.seccomp)),
        ..Default::default()
    }
}

/// A sandbox's settings.
pub(crate) fn sandbox(config: &SandboxConfig) -> api::LinuxSandboxSecurityContext {
    api::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(&config.namespaces)),
        privileged: config.privileged,
        seccomp: Some(seccomp(&config.seccomp)),
        ..Default::default()
    }
}

/// The maps of a mount in a Pod with a user namespace, so that its files keep their owners.
pub(crate) fn mount_maps(user: Option<IdMapping>) -> Vec<api::IdMapping> {
    user.map(super::namespaces::mapping).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use minke_core::runtime::CapabilityChanges;

    use super::*;

    fn of(security: &ContainerSecurity) -> api::LinuxContainerSecurityContext {
        container(security, &NamespaceOptions::default(), None)
    }

    #[test]
    fn paths_are_hidden_unless_it_is_privileged_or_asks_for_them() {
        let plain = of(&ContainerSecurity::default());
        assert!(plain.masked_paths.contains(&"/proc/kcore".to_owned()));
        assert!(plain.readonly_paths.contains(&"/proc/sys".to_owned()));
        for bare in [
            ContainerSecurity { privileged: true, ..Default::default() },
            ContainerSecurity { unmasked_proc: true, ..Default::default() },
        ] {
            assert!(of(&bare).masked_paths.is_empty() && of(&bare).readonly_paths.is_empty(), "{bare:?}");
        }
    }

    #[test]
    fn who_it_is() {
        let uid = of(&ContainerSecurity { run_as: RunAs::Uid(0), run_as_group: Some(5), ..Default::default() });
        assert_eq!((uid.run_as_user, uid.run_as_group.unwrap().value), (Some(api::Int64Value { value: 0 }), 5));
        let name = of(&ContainerSecurity { run_as: RunAs::Name("www".to_owned()), ..Default::default() });
        assert_eq!((name.run_as_user, name.run_as_username.as_str()), (None, "www"));
        let image = of(&ContainerSecurity::default());
        assert_eq!((image.run_as_user, image.run_as_username.as_str()), (None, ""));
        let told = container(&ContainerSecurity::default(), &NamespaceOptions::default(), Some(&RunAs::Uid(7)));
        assert_eq!(told.run_as_user, Some(api::Int64Value { value: 7 }), "what the image says, where it must be said");
    }

    #[test]
    fn the_rest_is_carried_over() {
        let security = ContainerSecurity {
            capabilities: CapabilityChanges { add: vec!["NET_ADMIN".to_owned()], drop: vec!["ALL".to_owned()] },
            supplemental_groups: vec![10, 20],
            strict_supplemental_groups: true,
            read_only_root: true,
            no_new_privileges: true,
            seccomp: SeccompProfile::Localhost(PathBuf::from("/p.json")),
            ..Default::default()
        };
        let there = of(&security);
        let capabilities = there.capabilities.clone().unwrap();
        assert_eq!(
            (capabilities.add_capabilities, capabilities.drop_capabilities),
            (vec!["NET_ADMIN".to_owned()], vec!["ALL".to_owned()])
        );
        assert_eq!(there.supplemental_groups, [10, 20]);
        assert_eq!(there.supplemental_groups_policy(), api::SupplementalGroupsPolicy::Strict);
        assert!(there.readonly_rootfs && there.no_new_privs);
        let seccomp = there.seccomp.unwrap();
        assert_eq!(seccomp.profile_type(), api::security_profile::ProfileType::Localhost);
        assert_eq!(seccomp.localhost_ref, "/p.json");
    }

    #[test]
    fn a_profile_is_always_said() {
        // Nothing said would be no filter for some runtimes.
        assert_eq!(
            of(&ContainerSecurity::default()).seccomp.unwrap().profile_type(),
            api::security_profile::ProfileType::RuntimeDefault
        );
        let open = ContainerSecurity { seccomp: SeccompProfile::Unconfined, ..Default::default() };
        assert_eq!(of(&open).seccomp.unwrap().profile_type(), api::security_profile::ProfileType::Unconfined);
    }
}
