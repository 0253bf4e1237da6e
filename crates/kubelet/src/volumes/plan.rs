//! What the volumes of a Pod are: a pure function of the Pod, its objects and the machine.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume};
use minke_core::env::DownwardFacts;
use minke_core::objects::ObjectSet;
use minke_core::resources::{Amount, pod_limits};
use minke_core::runtime::IdMapping;

use super::atomic_writer::Payload;
use super::{ChangePolicy, Ownership, VolumeError, VolumeFailure, payload};

/// All volumes of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePlan {
    /// In the order of the spec.
    pub volumes: Vec<PlannedVolume>,
    /// Who owns what is made.
    pub ownership: Ownership,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedVolume {
    /// Its name in the Pod.
    pub name: String,
    /// What it is.
    pub kind: VolumeKind,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeKind {
    /// An empty directory on disk.
    Disk {
        /// Permission bits.
        mode: u32,
    },
    /// An empty directory in memory.
    Memory {
        /// Permission bits.
        mode: u32,
        /// Most bytes; `None`: half of the machine's memory, the kernel's default.
        size_bytes: Option<u64>,
    },
    /// A path of the host.
    HostPath {
        /// The path.
        path: PathBuf,
        /// What must be there.
        check: HostPathType,
    },
    /// Files from objects and the downward API; read-only.
    Files {
        /// Directory name of the kind: `configmap`, `secret`, `downward-api`, `projected`.
        plugin: &'static str,
        /// The files.
        payload: Payload,
        /// Kept in memory, because they may be secret.
        in_memory: bool,
    },
}

impl VolumeKind {
    /// The kind as a directory name, as upstream's plugins are called.
    #[must_use]
    pub fn plugin(&self) -> &'static str {
        match self {
            Self::Disk { .. } | Self::Memory { .. } => "empty-dir",
            Self::HostPath { .. } => "host-path",
            Self::Files { plugin, .. } => plugin,
        }
    }

    /// Whether every mount of it is read-only, whatever the mount says.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Files { .. })
    }
}

/// What must be at a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPathType {
    /// Anything; a directory is made where nothing is.
    Unset,
    /// A directory; made where nothing is.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file; made where nothing is.
    FileOrCreate,
    /// A file.
    File,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// Plans the volumes of a Pod. `user` is the id range of a Pod with a user namespace of its own.
///
/// # Errors
/// The first volume that can't be had, with the reason.
pub fn plan(
    pod: &Pod,
    objects: &ObjectSet,
    facts: &DownwardFacts<'_>,
    user: Option<IdMapping>,
) -> Result<VolumePlan, VolumeError> {
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let one = |volume: &Volume| {
        let kind = kind(pod, volume, objects, facts).map_err(|failure| failure.of(&volume.name))?;
        Ok(PlannedVolume { name: volume.name.clone(), kind })
    };
    Ok(VolumePlan { volumes: volumes.map(one).collect::<Result<_, _>>()?, ownership: ownership(pod, user)? })
}

fn ownership(pod: &Pod, user: Option<IdMapping>) -> Result<Ownership, VolumeError> {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let fs_group = context.and_then(|c| c.fs_group);
    let base = user.map_or(0, |range| range.host_id);
    let length = user.map_or(u32::MAX, |range| range.length);
    let bad = |value: i64| VolumeFailure::BadValue { field: "fsGroup", value: value.to_string() }.of("");
    let fs_group = match fs_group {
        None => None,
        Some(value) => {
            let gid = u32::try_from(value).ok().filter(|gid| *gid < length).ok_or_else(|| bad(value))?;
            Some(base + gid)
        }
    };
    let change = match context.and_then(|c| c.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => ChangePolicy::OnRootMismatch,
        Some(_) | None => ChangePolicy::Always,
    };
    Ok(Ownership { root: base, fs_group, change })
}

fn kind(
    pod: &Pod,
    volume: &Volume,
    objects: &ObjectSet,
    facts: &DownwardFacts<'_>,
) -> Result<VolumeKind, VolumeFailure> {
    // Volume names become directories; validation has seen to them, and nothing here relies on it.
    if !is_plain_name(&volume.name) {
        return Err(VolumeFailure::BadPath { path: volume.name.clone(), why: "it is not a volume name" });
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let source = payload::Source { namespace, objects, facts };
    if let Some(source) = &volume.empty_dir {
        return empty_dir(pod, source);
    }
    if let Some(source) = &volume.host_path {
        return host_path(source);
    }
    if let Some(map) = &volume.config_map {
        let payload = source.config_map_volume(map)?;
        return Ok(VolumeKind::Files { plugin: "configmap", payload, in_memory: false });
    }
    if let Some(secret) = &volume.secret {
        let payload = source.secret_volume(secret)?;
        return Ok(VolumeKind::Files { plugin: "secret", payload, in_memory: true });
    }
    if let Some(downward) = &volume.downward_api {
        let payload = source.downward_volume(downward)?;
        return Ok(VolumeKind::Files { plugin: "downward-api", payload, in_memory: false });
    }
    if let Some(projected) = &volume.projected {
        let payload = source.projected_volume(projected)?;
        return Ok(VolumeKind::Files { plugin: "projected", payload, in_memory: true });
    }
    Err(VolumeFailure::Unsupported(source_name(volume)))
}

pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn empty_dir(pod: &Pod, source: &EmptyDirVolumeSource) -> Result<VolumeKind, VolumeFailure> {
    let bad = |field, value: String| VolumeFailure::BadValue { field, value };
    let mode = match source.mode {
        None => 0o777,
        Some(mode) => {
            let bits = u32::try_from(mode).ok().filter(|mode| *mode <= 0o7777);
            bits.ok_or_else(|| bad("emptyDir.mode", mode.to_string()))?
        }
    };
    let limit = match &source.size_limit {
        None => None,
        Some(text) => {
            let amount = Amount::of(text).ok().filter(|a| *a >= Amount::ZERO);
            let amount = amount.ok_or_else(|| bad("emptyDir.sizeLimit", text.0.clone()))?;
            u64::try_from(amount.value()).ok().filter(|bytes| *bytes > 0)
        }
    };
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(VolumeKind::Disk { mode }),
        "Memory" => {
            // What is in it counts as the Pod's memory, so it can't usefully be larger than that.
            let memory = pod_limits(pod).get("memory").and_then(|a| u64::try_from(a.value()).ok()).filter(|b| *b > 0);
            let size_bytes = limit.into_iter().chain(memory).min();
            Ok(VolumeKind::Memory { mode, size_bytes })
        }
        medium if medium.starts_with("HugePages") => {
            Err(VolumeFailure::Unsupported(format!("emptyDir (medium {medium})")))
        }
        medium => Err(bad("emptyDir.medium", medium.to_owned())),
    }
}

fn host_path(source: &HostPathVolumeSource) -> Result<VolumeKind, VolumeFailure> {
    let path = PathBuf::from(&source.path);
    let bad = |why| VolumeFailure::BadPath { path: source.path.clone(), why };
    if !path.is_absolute() {
        return Err(bad("it must be absolute"));
    }
    if path.components().any(|c| c == std::path::Component::ParentDir) {
        return Err(bad("it must not contain '..'"));
    }
    let check = match source.type_.as_deref().unwrap_or_default() {
        "" => HostPathType::Unset,
        "DirectoryOrCreate" => HostPathType::DirectoryOrCreate,
        "Directory" => HostPathType::Directory,
        "FileOrCreate" => HostPathType::FileOrCreate,
        "File" => HostPathType::File,
        "Socket" => HostPathType::Socket,
        "CharDevice" => HostPathType::CharDevice,
        "BlockDevice" => HostPathType::BlockDevice,
        other => return Err(VolumeFailure::BadValue { field: "hostPath.type", value: other.to_owned() }),
    };
    Ok(VolumeKind::HostPath { path, check })
}

/// The name of the source as the manifest has it.
fn source_name(volume: &Volume) -> String {
    let value = serde_json::to_value(volume).unwrap_or_default();
    let named = value.as_object().into_iter().flatten().map(|(key, _)| key).find(|key| *key != "name");
    named.cloned().unwrap_or_else(|| "sourceless".to_owned())
}
