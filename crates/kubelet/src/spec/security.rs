//! Security settings of a container: those of the Pod, overridden by its own, as upstream merges them.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SeccompProfile as ApiSeccomp, SecurityContext};
use minke_core::runtime::{CapabilityChanges, ContainerSecurity, ImageUser, RunAs, SeccompProfile};

use super::SpecError;
use super::sandbox::is_privileged;

/// The merged settings.
///
/// # Errors
/// The settings contradict each other or the image, or name what does not exist.
pub fn container_security(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
    state_directory: &Path,
) -> Result<ContainerSecurity, SpecError> {
    let outer = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let own = container.security_context.as_ref();
    let run_as = user(outer, own)?;
    verify_non_root(pod, container, run_as, image_user)?;
    let run_as_group = own.and_then(|c| c.run_as_group).or_else(|| outer.and_then(|c| c.run_as_group));
    let capabilities = own.and_then(|c| c.capabilities.as_ref());
    let names = |list: Option<&Vec<String>>| list.into_iter().flatten().map(|name| capability_name(name)).collect();
    Ok(ContainerSecurity {
        privileged: is_privileged(own),
        run_as: run_as.map_or(RunAs::Image, RunAs::Uid),
        run_as_group: run_as_group.map(|gid| id("runAsGroup", gid)).transpose()?,
        supplemental_groups: supplemental_groups(outer)?,
        strict_supplemental_groups: outer.and_then(|c| c.supplemental_groups_policy.as_deref()) == Some("Strict"),
        capabilities: CapabilityChanges {
            add: names(capabilities.and_then(|c| c.add.as_ref())),
            drop: names(capabilities.and_then(|c| c.drop.as_ref())),
        },
        read_only_root: own.and_then(|c| c.read_only_root_filesystem).unwrap_or(false),
        no_new_privileges: own.and_then(|c| c.allow_privilege_escalation) == Some(false),
        seccomp: seccomp(own.and_then(|c| c.seccomp_profile.as_ref()), pod, is_privileged(own), state_directory)?,
        unmasked_proc: own.and_then(|c| c.proc_mount.as_deref()) == Some("Unmasked"),
    })
}

/// Profile of the Pod itself.
///
/// # Errors
/// The profile can't be used.
pub fn pod_seccomp(pod: &Pod, state_directory: &Path) -> Result<SeccompProfile, SpecError> {
    seccomp(None, pod, false, state_directory)
}

/// Ids of the Pod's `fsGroup` and `supplementalGroups`, without duplicates.
fn supplemental_groups(outer: Option<&PodSecurityContext>) -> Result<Vec<u32>, SpecError> {
    let mut groups = Vec::new();
    if let Some(gid) = outer.and_then(|c| c.fs_group) {
        groups.push(id("fsGroup", gid)?);
    }
    for gid in outer.iter().flat_map(|c| c.supplemental_groups.iter().flatten()) {
        let gid = id("supplementalGroups", *gid)?;
        if !groups.contains(&gid) {
            groups.push(gid);
        }
    }
    Ok(groups)
}

fn user(outer: Option<&PodSecurityContext>, own: Option<&SecurityContext>) -> Result<Option<u32>, SpecError> {
    let uid = own.and_then(|c| c.run_as_user).or_else(|| outer.and_then(|c| c.run_as_user));
    uid.map(|uid| id("runAsUser", uid)).transpose()
}

fn id(field: &'static str, value: i64) -> Result<u32, SpecError> {
    // 2³²−1 means "no id" to the kernel.
    u32::try_from(value).ok().filter(|id| *id != u32::MAX).ok_or(SpecError::IdOutOfRange { field, value })
}

/// `name_namespace(uid)`, as upstream's messages call a Pod.
fn pod_text(pod: &Pod) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}_{}({})", text(&pod.metadata.name), text(&pod.metadata.namespace), text(&pod.metadata.uid))
}

fn verify_non_root(pod: &Pod, container: &Container, run_as: Option<u32>, image: &ImageUser) -> Result<(), SpecError> {
    let outer = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let own = container.security_context.as_ref();
    let non_root = own.and_then(|c| c.run_as_non_root).or_else(|| outer.and_then(|c| c.run_as_non_root));
    if non_root != Some(true) {
        return Ok(());
    }
    let (pod, container) = (pod_text(pod), container.name.clone());
    match (run_as, image) {
        (Some(0), _) => Err(SpecError::RunAsUserIsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Root | ImageUser::Uid(0)) => Err(SpecError::ImageIsRoot { pod, container }),
        (None, ImageUser::Uid(_)) => Ok(()),
        (None, ImageUser::Name(user)) => Err(SpecError::ImageUserNotNumeric { user: user.clone(), pod, container }),
    }
}

fn seccomp(
    own: Option<&ApiSeccomp>,
    pod: &Pod,
    privileged: bool,
    state_directory: &Path,
) -> Result<SeccompProfile, SpecError> {
    let outer = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let profile = own.or_else(|| outer.and_then(|c| c.seccomp_profile.as_ref()));
    let profile = match profile.map(|p| (p.type_.as_str(), p)) {
        // Nothing said: the default, where upstream has no filter.
        None | Some(("RuntimeDefault", _)) => SeccompProfile::RuntimeDefault,
        Some(("Unconfined", _)) => SeccompProfile::Unconfined,
        Some(("Localhost", profile)) => {
            let path = profile.localhost_profile.as_deref().unwrap_or_default();
            let inside = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
            if path.is_empty() || !inside {
                return Err(SpecError::BadSeccompPath(path.to_owned()));
            }
            SeccompProfile::Localhost(state_directory.join("seccomp").join(path))
        }
        Some((other, _)) => return Err(SpecError::UnknownSeccomp(other.to_owned())),
    };
    Ok(if privileged { SeccompProfile::Unconfined } else { profile })
}

/// `CAP_NET_ADMIN`, `net_admin` → `NET_ADMIN`.
fn capability_name(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map_or(upper.clone(), str::to_owned)
}
