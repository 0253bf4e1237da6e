//! Rotation of container logs, as the kubelet does it: a log that grew too large is renamed to `<log>.<time>`, the
//! runtime opens a new one, and only the newest few are kept. Deciding is pure ([`plan_rotation`]); the rest performs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use minke_core::runtime::{ContainerId, ContainerService, RuntimeError};

/// How large logs may grow, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Rotate at this size, in bytes.
    pub max_bytes: u64,
    /// Keep this many files, the current one included; at least 2.
    pub max_files: u32,
}

impl Default for RotationPolicy {
    fn default() -> Self {
        Self { max_bytes: 10 << 20, max_files: 5 }
    }
}

/// What to do about one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Rotated logs that go.
    pub remove: Vec<String>,
    /// The name that the current log gets.
    pub rename_to: String,
}

/// A log could not be rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// A file could not be listed, renamed or removed.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// What was done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The runtime did not open a new log; the old one has its name back.
    #[error("the log of container {container} was not opened anew")]
    Reopen {
        /// The container.
        container: ContainerId,
        /// Why not.
        #[source]
        source: RuntimeError,
    },
}

/// Decides about a log of this size. `files` are the names in its directory.
#[must_use]
pub fn plan_rotation(
    log: &str,
    size: u64,
    files: &[String],
    policy: RotationPolicy,
    now: Timestamp,
) -> Option<Rotation> {
    if size < policy.max_bytes.max(1) {
        return None;
    }
    let mut rotated: Vec<&String> = files.iter().filter(|name| is_rotated(log, name)).collect();
    rotated.sort();
    let mut rename_to = format!("{log}.{}", now.strftime("%Y%m%d-%H%M%S"));
    // Two rotations within a second, or a clock that was set back: the new name must still sort last.
    if let Some(newest) = rotated.last()
        && **newest >= rename_to
    {
        rename_to = format!("{newest}+");
    }
    // The current log and the one that it is renamed to count as well.
    let keep = usize::try_from(policy.max_files.max(2) - 2).unwrap_or(usize::MAX);
    let gone = rotated.len().saturating_sub(keep);
    Some(Rotation { remove: rotated[..gone].iter().map(|name| (*name).clone()).collect(), rename_to })
}

/// Whether `name` is a rotated `log`: its name, a dot, and a time.
fn is_rotated(log: &str, name: &str) -> bool {
    let stamp = name.strip_prefix(log).and_then(|rest| rest.strip_prefix('.'));
    stamp.is_some_and(|stamp| stamp.starts_with(|c: char| c.is_ascii_digit()))
}

/// Rotates a running container's log if it is too large. Returns whether it was.
///
/// # Errors
/// See [`RotationError`]; the next pass tries again.
///
/// # Cancel safety
/// Dropped between renaming and opening, the container goes on writing to the renamed file until the next pass, which
/// finds no current log and asks the runtime to open one.
pub async fn rotate(
    containers: &(impl ContainerService + ?Sized),
    container: &ContainerId,
    log: &Path,
    policy: RotationPolicy,
    now: Timestamp,
) -> Result<bool, RotationError> {
    let io = |what, path: &Path| {
        let path = path.to_owned();
        move |source| RotationError::Io { what, path, source }
    };
    let size = match fs::metadata(log) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            reopen(containers, container).await?;
            return Ok(true);
        }
        Err(error) => return Err(io("look at", log)(error)),
    };
    let (Some(directory), Some(name)) = (log.parent(), log.file_name().and_then(|n| n.to_str())) else {
        return Ok(false);
    };
    if size < policy.max_bytes {
        return Ok(false);
    }
    let files = names(directory).map_err(io("list", directory))?;
    let Some(rotation) = plan_rotation(name, size, &files, policy, now) else { return Ok(false) };
    for old in &rotation.remove {
        let path = directory.join(old);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove", &path)(error)),
            Ok(()) | Err(_) => {}
        }
    }
    let renamed = directory.join(&rotation.rename_to);
    fs::rename(log, &renamed).map_err(io("rename", log))?;
    if let Err(error) = reopen(containers, container).await {
        // The container still writes to the renamed file; give it its name back unless a new one is there.
        if !log.exists() {
            fs::rename(&renamed, log).map_err(io("rename back", &renamed))?;
        }
        return Err(error);
    }
    Ok(true)
}

async fn reopen(containers: &(impl ContainerService + ?Sized), container: &ContainerId) -> Result<(), RotationError> {
    let failed = |source| RotationError::Reopen { container: container.clone(), source };
    containers.reopen_log(container).await.map_err(failed)
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use minke_core::fake::{FakeRuntime, Op};

    const POLICY: RotationPolicy = RotationPolicy { max_bytes: 100, max_files: 3 };

    fn now() -> Timestamp {
        "2026-11-21T04:03:55Z".parse().unwrap()
    }

    fn plan(size: u64, files: &[&str]) -> Option<Rotation> {
        let files: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
        plan_rotation("0.log", size, &files, POLICY, now())
    }

    #[test]
    fn small_logs_stay() {
        assert_eq!(plan(99, &["0.log"]), None);
        assert_eq!(plan(0, &[]), None);
    }

    #[test]
    fn large_logs_are_renamed_to_the_time() {
        let rotation = plan(100, &["0.log", "1.log.20250101-000000", "0.log.tmp"]).unwrap();
        assert_eq!(rotation, Rotation { remove: vec![], rename_to: "0.log.20261121-040355".to_owned() });
    }

    #[test]
    fn only_the_newest_are_kept() {
        let files = ["0.log", "0.log.20260103-000000", "0.log.20260101-000000", "0.log.20260102-000000"];
        assert_eq!(plan(100, &files).unwrap().remove, ["0.log.20260101-000000", "0.log.20260102-000000"]);
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_back_loses_no_log() {
        let rotation = plan(100, &["0.log.20261121-040355"]).unwrap();
        assert_eq!(rotation.rename_to, "0.log.20261121-040355+");
        let rotation = plan(100, &["0.log.20271121-040355"]).unwrap();
        assert_eq!(rotation.rename_to, "0.log.20271121-040355+");
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_the_runtime_does_not_reopen_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        fs::write(&log, "x".repeat(200)).unwrap();
        let runtime = FakeRuntime::new();
        // There is no such container, so the runtime refuses.
        let result = rotate(&runtime, &ContainerId("c".to_owned()), &log, POLICY, now()).await;
        assert!(matches!(result, Err(RotationError::Reopen { .. })));
        assert_eq!(fs::read_to_string(&log).unwrap().len(), 200);
        assert_eq!(runtime.count(Op::ReopenLog), 1);
        assert_eq!(names(dir.path()).unwrap(), ["0.log"]);
    }

    /// A container that runs in a fake runtime, with a log of its own.
    async fn container(runtime: &FakeRuntime) -> ContainerId {
        use minke_core::identity::{PodKey, PodUid};
        use minke_core::runtime::{ImageUser, SandboxService};
        use serde_json::json;

        let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}});
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        let key = PodKey::new("ns", "web", PodUid::new("u").unwrap());
        let node = crate::spec::NodeSettings {
            name: "here".to_owned(),
            host_ips: Vec::new(),
            log_directory: PathBuf::from("/"),
            state_directory: PathBuf::from("/"),
            cgroup_root: "/minke".to_owned(),
            cluster_domain: String::new(),
            host_dns: Default::default(),
            limits: minke_core::resources::LimitFacts { memory_bytes: 1, pod_pids_limit: None },
            allocatable: Default::default(),
        };
        let input = crate::spec::SandboxInput { pod: &pod, key: &key, attempt: 0, node: &node, user_namespace: None };
        let sandbox_config = crate::spec::sandbox_config(&input).unwrap().config;
        let image = runtime.add_image("a:1", ImageUser::Root);
        let image = minke_core::runtime::ImageService::image_status(runtime, &image.0).await.unwrap().unwrap();
        let config = crate::spec::container_config(&crate::spec::ContainerInput {
            pod: &pod,
            key: &key,
            container: &pod.spec.as_ref().unwrap().containers[0],
            attempt: 0,
            image: &image,
            env: &[],
            volume_mounts: &[],
            hosts_file: None,
            termination_log: None,
            node: &node,
        });
        let sandbox = runtime.run_sandbox(&sandbox_config).await.unwrap();
        let id = runtime.create_container(&sandbox, &config.unwrap(), &sandbox_config).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        id
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_grows_keeps_its_newest_files() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        let runtime = FakeRuntime::new();
        let id = container(&runtime).await;
        for round in 0..6 {
            // The fake does not write, so the test does.
            fs::write(&log, "x".repeat(100 + round)).unwrap();
            let later = now() + jiff::SignedDuration::from_secs(i64::try_from(round).unwrap());
            assert!(rotate(&runtime, &id, &log, POLICY, later).await.unwrap());
            assert!(!log.exists());
        }
        let mut sizes: Vec<_> =
            names(dir.path()).unwrap().iter().map(|n| fs::metadata(dir.path().join(n)).unwrap().len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [104, 105], "with the current log that makes three");
        fs::write(&log, "small").unwrap();
        assert!(!rotate(&runtime, &id, &log, POLICY, now()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_is_missing_after_a_crash_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = FakeRuntime::new();
        let id = container(&runtime).await;
        assert!(rotate(&runtime, &id, &dir.path().join("0.log"), POLICY, now()).await.unwrap());
        assert_eq!(runtime.count(Op::ReopenLog), 1);
    }
}
