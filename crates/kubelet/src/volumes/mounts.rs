//! What of the Pod's volumes a container sees, and where.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use minke_core::env::expand_strict;
use minke_core::runtime::{EnvVar, Mount, MountPropagation};

use super::plan::is_plain_name;
use super::{PlannedVolume, VolumeError, VolumeFailure, VolumePlan, subpath, volume_directory};

/// Whose mounts.
#[derive(Debug, Clone, Copy)]
pub struct MountInput<'a> {
    /// The Pod's directory.
    pub pod_directory: &'a Path,
    /// Its volumes, set up.
    pub plan: &'a VolumePlan,
    /// The container.
    pub container: &'a Container,
    /// Its environment, for `subPathExpr`.
    pub env: &'a [EnvVar],
}

/// The mounts of a container, in the order of its spec. Parts of volumes (`subPath`) are opened and bound on the way.
/// Blocks.
///
/// # Errors
/// A mount names no volume of the Pod, or a part that can't be had.
pub fn container_mounts(input: &MountInput<'_>) -> Result<Vec<Mount>, VolumeError> {
    let mounts = input.container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, mount)| one(input, index, mount).map_err(|failure| failure.of(&mount.name))).collect()
}

fn one(input: &MountInput<'_>, index: usize, mount: &VolumeMount) -> Result<Mount, VolumeFailure> {
    let volume = input.plan.volumes.iter().find(|v| v.name == mount.name).ok_or(VolumeFailure::NoVolume)?;
    let read_only = mount.read_only.unwrap_or(false) || volume.kind.is_read_only();
    // Every kernel that the runtime works on can make mounts read-only recursively, so `IfPossible` is possible.
    let recursive = matches!(mount.recursive_read_only.as_deref(), Some("Enabled" | "IfPossible"));
    Ok(Mount {
        host_path: host_path(input, index, mount, volume)?,
        container_path: Path::new("/").join(&mount.mount_path),
        read_only,
        recursive_read_only: read_only && recursive,
        propagation: propagation(mount.mount_propagation.as_deref())?,
    })
}

fn propagation(name: Option<&str>) -> Result<MountPropagation, VolumeFailure> {
    match name {
        None | Some("" | "None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(VolumeFailure::BadValue { field: "mountPropagation", value: other.to_owned() }),
    }
}

fn host_path(
    input: &MountInput<'_>,
    index: usize,
    mount: &VolumeMount,
    volume: &PlannedVolume,
) -> Result<PathBuf, VolumeFailure> {
    let directory = volume_directory(input.pod_directory, volume);
    let Some(sub) = sub_path(mount, input.env)? else { return Ok(directory) };
    if !is_plain_name(&input.container.name) {
        return Err(VolumeFailure::BadPath { path: input.container.name.clone(), why: "it is not a container name" });
    }
    let found = subpath::open(&directory, &sub)?;
    let subpaths = input.pod_directory.join("volume-subpaths");
    let place = subpaths.join(&volume.name).join(&input.container.name).join(index.to_string());
    subpath::bind(&found, &place)?;
    Ok(place)
}

fn sub_path(mount: &VolumeMount, env: &[EnvVar]) -> Result<Option<String>, VolumeFailure> {
    let expression = mount.sub_path_expr.as_deref().filter(|e| !e.is_empty());
    if let Some(expression) = expression {
        let failed = |source| VolumeFailure::SubPathExpr { expression: expression.to_owned(), source };
        return expand_strict(expression, env).map(Some).map_err(failed);
    }
    Ok(mount.sub_path.clone().filter(|sub| !sub.is_empty()))
}
