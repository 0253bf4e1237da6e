//! Makes the planned volumes below the Pod's directory.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Ownership;
use super::atomic_writer::write_atomically;
use super::{PlannedVolume, VolumeError, VolumeFailure, VolumeKind, VolumePlan, empty_dir, host_path};

/// Where a volume is on the host: its own directory, or the host path itself.
#[must_use]
pub fn volume_directory(pod_directory: &Path, volume: &PlannedVolume) -> PathBuf {
    match &volume.kind {
        VolumeKind::HostPath { path, .. } => path.clone(),
        VolumeKind::Disk { .. } | VolumeKind::Memory { .. } | VolumeKind::Files { .. } => {
            let plugin = format!("kubernetes.io~{}", volume.kind.plugin());
            pod_directory.join("volumes").join(plugin).join(&volume.name)
        }
    }
}

/// Makes all volumes. Idempotent: what is there stays, files are replaced when their content changed. Blocks.
///
/// # Errors
/// The first volume that can't be made; those before it stay and are found again.
pub fn set_up(pod_directory: &Path, plan: &VolumePlan, now: Timestamp) -> Result<(), VolumeError> {
    for volume in &plan.volumes {
        one(pod_directory, volume, plan.ownership, now).map_err(|failure| failure.of(&volume.name))?;
    }
    Ok(())
}

fn one(
    pod_directory: &Path,
    volume: &PlannedVolume,
    ownership: Ownership,
    now: Timestamp,
) -> Result<(), VolumeFailure> {
    let path = volume_directory(pod_directory, volume);
    match &volume.kind {
        VolumeKind::Disk { mode } => {
            empty_dir::on_disk(&path, *mode)?;
            ownership.apply(&path, false)
        }
        VolumeKind::Memory { mode, size_bytes } => {
            empty_dir::in_memory(&path, *mode, *size_bytes)?;
            ownership.apply(&path, false)
        }
        // It belongs to the host: neither owner nor mode is ours to change.
        VolumeKind::HostPath { check, .. } => host_path::check(&path, *check),
        VolumeKind::Files { payload, in_memory, .. } => {
            if *in_memory {
                empty_dir::in_memory(&path, 0o755, None)?;
            } else {
                fs::create_dir_all(&path).map_err(VolumeFailure::io("create", path.clone()))?;
            }
            write_atomically(&path, payload, now, |fresh| ownership.apply(fresh, true))?;
            Ok(())
        }
    }
}
