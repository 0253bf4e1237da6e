//! How eviction looks at the machine: the port, and the real machine behind it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::containers::all_containers;
use minke_core::identity::PodKey;
use minke_core::runtime::{Runtime, error_chain};
use tokio::sync::OnceCell;

use super::candidate::{Space, VolumeUsed};
use super::disk::Directories;
use super::signal::{Level, Observations, Signal};
use crate::volumes::{PlannedVolume, VolumeKind, volume_directory};

/// What a Pod has on disk beside its writable layers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodDisk {
    /// Logs, by container.
    pub logs: BTreeMap<String, Space>,
    /// `emptyDir`s.
    pub volumes: Vec<VolumeUsed>,
}

/// Looks at the machine. Reads only.
#[async_trait]
pub trait Gauge: std::fmt::Debug + Send + Sync + 'static {
    /// What is left. What can't be read is left out.
    async fn observe(&self) -> Observations;
    /// What a Pod has on disk. What can't be read counts as nothing.
    async fn pod_disk(&self, key: &PodKey, pod: &Arc<Pod>) -> PodDisk;
}

/// Sees a machine that has enough of everything, and no disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGauge;

#[async_trait]
impl Gauge for NoGauge {
    async fn observe(&self) -> Observations {
        Observations::default()
    }

    async fn pod_disk(&self, _key: &PodKey, _pod: &Arc<Pod>) -> PodDisk {
        PodDisk::default()
    }
}

/// This machine.
pub(crate) struct MachineGauge {
    state_directory: PathBuf,
    log_directory: PathBuf,
    runtime: Arc<dyn Runtime>,
    directories: Arc<Directories>,
    /// A directory on the file system of images; asked for once, as it never moves.
    images: OnceCell<PathBuf>,
}

impl std::fmt::Debug for MachineGauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineGauge").field("state_directory", &self.state_directory).finish_non_exhaustive()
    }
}

impl MachineGauge {
    pub(crate) fn new(state_directory: &Path, log_directory: &Path, runtime: Arc<dyn Runtime>) -> Self {
        let (state_directory, log_directory) = (state_directory.to_owned(), log_directory.to_owned());
        let (directories, images) = (Arc::default(), OnceCell::new());
        Self { state_directory, log_directory, runtime, directories, images }
    }
}

#[async_trait]
impl Gauge for MachineGauge {
    async fn observe(&self) -> Observations {
        let ask = || async { self.runtime.image_fs_info().await.map(|info| info.directory) };
        let images = match self.images.get_or_try_init(ask).await {
            Ok(directory) => Some(directory.clone()),
            Err(error) => {
                tracing::debug!(error = error_chain(&error), "can't ask for the file system of images");
                None
            }
        };
        let state = self.state_directory.clone();
        let observed = tokio::task::spawn_blocking(move || observe(&state, images.as_deref())).await;
        observed.unwrap_or_default()
    }

    async fn pod_disk(&self, key: &PodKey, pod: &Arc<Pod>) -> PodDisk {
        let directory = self.state_directory.join("pods").join(key.uid.as_str());
        let logs = self.log_directory.join(key.log_directory());
        let (pod, directories) = (pod.clone(), self.directories.clone());
        let found = tokio::task::spawn_blocking(move || pod_disk(&directories, &pod, &directory, &logs)).await;
        found.unwrap_or_default()
    }
}

fn pod_disk(directories: &Directories, pod: &Pod, directory: &Path, logs: &Path) -> PodDisk {
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let empty = volumes.filter_map(|v| Some((&v.name, v.empty_dir.as_ref()?)));
    let volume = |(name, source): (&String, &k8s_openapi::api::core::v1::EmptyDirVolumeSource)| {
        let in_memory = source.medium.as_deref().is_some_and(|m| m == "Memory" || m.starts_with("HugePages"));
        VolumeUsed { name: name.clone(), in_memory, space: directories.space(&empty_dir(directory, name)) }
    };
    PodDisk {
        volumes: empty.map(volume).collect(),
        logs: all_containers(pod).map(|c| (c.name.clone(), directories.space(&logs.join(&c.name)))).collect(),
    }
}

/// Where an `emptyDir` is.
fn empty_dir(pod_directory: &Path, name: &str) -> PathBuf {
    volume_directory(pod_directory, &PlannedVolume { name: name.to_owned(), kind: VolumeKind::Disk { mode: 0 } })
}

fn observe(state: &Path, images: Option<&Path>) -> Observations {
    let mut levels = BTreeMap::new();
    let mut add = |signal: Signal, level: io::Result<Level>| match level {
        Ok(level) => drop(levels.insert(signal, level)),
        Err(error) => tracing::debug!(%signal, %error, "can't see how much is left"),
    };
    add(Signal::Memory, read("/proc/meminfo", memory));
    add(Signal::Pid, pids());
    for (path, bytes, inodes) in
        [(Some(state), Signal::Nodefs, Signal::NodefsInodes), (images, Signal::Imagefs, Signal::ImagefsInodes)]
    {
        let Some(path) = path else { continue };
        let (space, files) = file_system(path);
        add(bytes, space);
        add(inodes, files);
    }
    let device = |path: &Path| std::fs::metadata(path).map(|m| std::os::unix::fs::MetadataExt::dev(&m));
    let separate = images.is_some_and(|images| matches!((device(state), device(images)), (Ok(a), Ok(b)) if a != b));
    Observations { levels, separate_imagefs: separate }
}

fn read(path: &str, parse: impl Fn(&str) -> Option<Level>) -> io::Result<Level> {
    let text = std::fs::read_to_string(path)?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path} is not as expected")))
}

/// What is free, and file pages that nobody used lately: the kubelet's measure on version 2 of cgroups, used on both.
fn memory(meminfo: &str) -> Option<Level> {
    let of = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let capacity = of("MemTotal")?;
    Some(Level { available: of("MemFree")?.saturating_add(of("Inactive(file)")?).min(capacity), capacity })
}

fn pids() -> io::Result<Level> {
    let number = |path: &str| -> io::Result<u64> {
        let text = std::fs::read_to_string(path)?;
        text.trim().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    };
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    read("/proc/loadavg", |text| {
        let running: u64 = text.split(' ').nth(3)?.split_once('/')?.1.parse().ok()?;
        Some(Level { available: most.saturating_sub(running), capacity: most })
    })
}

fn file_system(path: &Path) -> (io::Result<Level>, io::Result<Level>) {
    match rustix::fs::statvfs(path) {
        Ok(fs) => {
            let bytes = |blocks: u64| blocks.saturating_mul(fs.f_frsize);
            let space = Level { available: bytes(fs.f_bavail), capacity: bytes(fs.f_blocks) };
            // Some file systems have no fixed number of inodes and say zero: they can't run out of them.
            let files = if fs.f_files == 0 {
                Err(io::Error::from(io::ErrorKind::Unsupported))
            } else {
                Ok(Level { available: fs.f_favail, capacity: fs.f_files })
            };
            (Ok(space), files)
        }
        Err(error) => (Err(error.into()), Err(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_free_or_could_be_at_once() {
        let text = "MemTotal:  1000 kB\nMemFree:   100 kB\nInactive:  90 kB\nInactive(file):   50 kB\n";
        assert_eq!(memory(text), Some(Level { available: 150 << 10, capacity: 1000 << 10 }));
        assert_eq!(memory("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_levels_for_all_signals() {
        let here = tempfile::tempdir().unwrap();
        let observed = observe(here.path(), Some(here.path()));
        for signal in [Signal::Memory, Signal::Nodefs, Signal::Imagefs, Signal::Pid] {
            let level = observed.levels[&signal];
            assert!(level.available > 0 && level.available <= level.capacity, "{signal}: {level:?}");
        }
        assert!(!observed.separate_imagefs);
        assert!(observe(Path::new("/proc"), Some(here.path())).separate_imagefs);
    }

    #[test]
    fn logs_and_empty_directories_of_a_pod() {
        let root = tempfile::tempdir().unwrap();
        let (state, logs) = (root.path().join("pod"), root.path().join("logs"));
        let pod: Pod = serde_json::from_value(serde_json::json!({"spec": {
            "containers": [{"name": "c"}, {"name": "quiet"}],
            "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "h", "hostPath": {"path": "/"}}],
        }}))
        .unwrap();
        for (path, bytes) in
            [(logs.join("c").join("0.log"), 9000), (empty_dir(&state, "disk").join("sub").join("x"), 20_000)]
        {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![1; bytes]).unwrap();
        }
        let found = pod_disk(&Directories::default(), &pod, &state, &logs);
        assert!(found.logs["c"].bytes >= 9000 && found.logs["c"].bytes < 20_000, "{found:?}");
        assert_eq!(found.logs["quiet"], Space::default());
        let [disk, mem] = found.volumes.as_slice() else { panic!("{found:?}") };
        assert!((disk.name.as_str(), disk.in_memory) == ("disk", false) && disk.space.bytes >= 20_000, "{disk:?}");
        assert!((mem.name.as_str(), mem.in_memory) == ("mem", true) && mem.space == Space::default());
    }
}
