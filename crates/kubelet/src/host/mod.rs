//! The real machine behind [`PodHost`]: volumes and files on disk, configurations from specs.
//!
//! Puts together what `volumes`, `spec` and `core::env` decide; the blocking parts run beside the async tasks.

mod addresses;
mod leftovers;
mod message;
mod node;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use minke_core::clock::Clock;
use minke_core::env::{DownwardFacts, ResolvedEnv, resolve};
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerStatus, IdMapping, PodRuntimeStatus, Runtime, SandboxConfig, error_chain,
};
use tokio::time::Instant;

pub use addresses::{host_addresses, host_name};
pub(crate) use node::node_settings;

use self::leftovers::Places;
use crate::DesiredPod;
use crate::housekeeping::Leftover;
use crate::logs::{RotationPolicy, rotate};
use crate::spec::{self, ContainerInput, IdRanges, NodeSettings, SandboxInput};
use crate::sync::{ConfigError, ContainerRequest, HostError, PodHost, Recorder};
use crate::volumes::{self, MountInput, VolumeError, VolumePlan};

/// Until processes are gone that were killed.
const KILLED: Duration = Duration::from_secs(2);

/// The machine.
pub struct MachineHost {
    node: NodeSettings,
    clock: Arc<dyn Clock>,
    runtime: Arc<dyn Runtime>,
    recorder: Recorder,
    ranges: Mutex<IdRanges>,
    rotation: RotationPolicy,
}

impl fmt::Debug for MachineHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineHost").field("node", &self.node.name).finish_non_exhaustive()
    }
}

fn config_error(reason: &str, error: &(dyn std::error::Error + 'static)) -> ConfigError {
    ConfigError { reason: reason.to_owned(), message: error_chain(error) }
}

fn volume_error(error: &VolumeError) -> HostError {
    HostError { message: error_chain(error) }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, HostError> {
    let going_down = |_| HostError { message: "interrupted: the agent is going down".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(going_down)
}

impl MachineHost {
    /// The machine with these settings.
    #[must_use]
    pub fn new(
        node: NodeSettings,
        clock: Arc<dyn Clock>,
        runtime: Arc<dyn Runtime>,
        recorder: Recorder,
        rotation: RotationPolicy,
    ) -> Self {
        Self { node, clock, runtime, recorder, ranges: Mutex::default(), rotation }
    }

    /// Learns which ranges of user ids the Pods that run already have.
    pub fn recover(&self, uid: &PodUid, range: IdMapping) {
        if let Err(error) = self.ranges().recover(uid, range) {
            tracing::warn!(pod = %uid, %error, "the pod's range of user ids can't be kept apart");
        }
    }

    fn ranges(&self) -> MutexGuard<'_, IdRanges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> Places {
        Places::new(&self.node.state_directory, &self.node.log_directory, &self.node.cgroup_root)
    }

    fn directory(&self, uid: &PodUid) -> PathBuf {
        self.node.state_directory.join("pods").join(uid.as_str())
    }

    fn range(&self, pod: &Pod, uid: &PodUid) -> Result<Option<IdMapping>, HostError> {
        if !spec::wants_user_namespace(pod) {
            return Ok(None);
        }
        let range = self.ranges().allocate(uid).map_err(|e| HostError { message: e.to_string() })?;
        Ok(Some(range))
    }

    fn facts<'a>(&'a self, pod: &'a Pod, ips: &'a [std::net::IpAddr]) -> DownwardFacts<'a> {
        DownwardFacts {
            pod,
            pod_ips: ips,
            host_ips: &self.node.host_ips,
            node_name: &self.node.name,
            allocatable: &self.node.allocatable,
        }
    }

    fn plan(&self, desired: &DesiredPod, uid: &PodUid) -> Result<VolumePlan, HostError> {
        let range = self.range(&desired.pod, uid)?;
        let facts = self.facts(&desired.pod, &[]);
        volumes::plan(&desired.pod, &desired.objects, &facts, range).map_err(|e| volume_error(&e))
    }
}

fn key_of(pod: &Pod) -> Result<PodKey, HostError> {
    PodKey::of(pod).map_err(|e| HostError { message: e.to_string() })
}

#[async_trait]
impl PodHost for MachineHost {
    async fn set_up(&self, desired: &DesiredPod) -> Result<(), HostError> {
        let key = key_of(&desired.pod)?;
        let plan = self.plan(desired, &key.uid)?;
        let (directory, now) = (self.directory(&key.uid), self.clock.now());
        let done = blocking(move || {
            std::fs::create_dir_all(&directory)
                .map_err(|e| HostError { message: format!("can't make {}: {e}", directory.display()) })?;
            volumes::set_up(&directory, &plan, now).map_err(|e| volume_error(&e))
        });
        done.await?
    }

    async fn sandbox_config(&self, desired: &DesiredPod, attempt: u32) -> Result<SandboxConfig, ConfigError> {
        let failed = |message: String| ConfigError { reason: "FailedCreatePodSandBox".to_owned(), message };
        let key = key_of(&desired.pod).map_err(|e| failed(e.message))?;
        let user_namespace = self.range(&desired.pod, &key.uid).map_err(|e| failed(e.message))?;
        let input = SandboxInput { pod: &desired.pod, key: &key, attempt, node: &self.node, user_namespace };
        let made = spec::sandbox_config(&input).map_err(|e| failed(error_chain(&e)))?;
        for warning in made.dns_warnings {
            self.recorder.warning(&key.uid, None, "DNSConfigForming", warning);
        }
        Ok(made.config)
    }

    async fn container_config(&self, request: ContainerRequest<'_>) -> Result<ContainerConfig, ConfigError> {
        const REASON: &str = "CreateContainerConfigError";
        let ContainerRequest { desired, container, attempt, image, ips, .. } = request;
        let failed = |e: HostError| ConfigError { reason: REASON.to_owned(), message: e.message };
        let pod = &desired.pod;
        let key = key_of(pod).map_err(failed)?;
        let host_network = pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false);
        let ips = if host_network { &self.node.host_ips } else { ips };
        let facts = self.facts(pod, ips);
        let ResolvedEnv { vars: env, skipped } =
            resolve(container, &desired.objects, &facts).map_err(|e| config_error(REASON, &e))?;
        for message in skipped {
            self.recorder.warning(&key.uid, Some(&container.name), "InvalidEnvironmentVariableNames", message);
        }
        let plan = self.plan(desired, &key.uid).map_err(failed)?;
        let names =
            spec::pod_names(pod, &self.node.name, &self.node.cluster_domain).map_err(|e| config_error(REASON, &e))?;

        let (directory, owned, own_env) = (self.directory(&key.uid), container.clone(), env.clone());
        let (for_files, ips) = (pod.clone(), ips.to_vec());
        let files = blocking(move || {
            let input = MountInput { pod_directory: &directory, plan: &plan, container: &owned, env: &own_env };
            let mounts = volumes::container_mounts(&input)?;
            let host_file = host_network.then(|| std::fs::read_to_string("/etc/hosts").unwrap_or_default());
            let content = volumes::hosts_content(&for_files, &names, &ips, host_file.as_deref());
            let hosts = volumes::write_hosts(&directory, &content)?;
            let log = volumes::make_termination_log(&directory, &owned.name, attempt)?;
            Ok((mounts, hosts, log))
        });
        let (mounts, hosts, log) =
            files.await.map_err(failed)?.map_err(|e: VolumeError| config_error("CreateContainerConfigError", &e))?;
        let input = ContainerInput {
            pod,
            key: &key,
            container,
            attempt,
            image,
            env: &env,
            volume_mounts: &mounts,
            hosts_file: Some(&hosts),
            termination_log: Some(&log),
            node: &self.node,
        };
        spec::container_config(&input).map_err(|e| config_error(REASON, &e))
    }

    async fn termination_message(&self, pod: &Pod, status: &ContainerStatus) -> Option<String> {
        let key = key_of(pod).ok()?;
        let path = volumes::termination_log_path(&self.directory(&key.uid), &status.name, status.attempt).ok()?;
        let status = status.clone();
        blocking(move || message::read(&path, &status)).await.ok().flatten()
    }

    async fn tear_down(&self, uid: &PodUid) -> Result<(), HostError> {
        let directory = self.directory(uid);
        blocking(move || volumes::tear_down(&directory).map_err(|e| volume_error(&e))).await??;
        self.ranges().release(uid);
        Ok(())
    }

    async fn remove_logs(&self, key: &PodKey) -> Result<(), HostError> {
        let directory = self.node.log_directory.join(key.log_directory());
        let removed = blocking(move || match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(HostError { message: format!("can't remove {}: {error}", directory.display()) })
            }
            Ok(()) | Err(_) => Ok(()),
        });
        removed.await?
    }

    async fn remove_cgroups(&self, uid: &PodUid) -> Result<(), HostError> {
        let begun = Instant::now();
        loop {
            let (places, uid) = (self.places(), uid.clone());
            // What was killed is not gone at once.
            match blocking(move || places.remove_cgroups(&uid)).await? {
                Ok(()) => return Ok(()),
                Err(message) if begun.elapsed() > KILLED => return Err(HostError { message }),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn leftovers(&self) -> Vec<Leftover> {
        let places = self.places();
        blocking(move || places.find()).await.unwrap_or_default()
    }

    async fn remove_leftover(&self, left: &Leftover) -> Result<(), HostError> {
        let (places, left) = (self.places(), left.clone());
        blocking(move || places.remove(&left).map_err(|message| HostError { message })).await?
    }

    async fn rotate_logs(&self, status: &PodRuntimeStatus) {
        let running = status.containers.iter().filter(|c| c.state.is_running());
        for container in running {
            let (id, log) = (&container.id, &container.log_path);
            if let Err(error) = rotate(&*self.runtime, id, log, self.rotation, self.clock.now()).await {
                tracing::warn!(pod = %status.uid, container = container.name, error = error_chain(&error), "can't rotate a log");
            }
        }
    }
}
