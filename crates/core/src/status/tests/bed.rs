//! What the tests build statuses from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus as ApiStatus, Pod, PodStatus};
use serde_json::{Value, json};

use crate::identity::{PodKey, PodUid};
use crate::runtime::{
    ContainerId, ContainerState, ContainerStatus, Exit, ExitCode, ImageId, NamespaceOptions, PodRuntimeStatus,
    SandboxId, SandboxInfo, SandboxState, SandboxStatus,
};
use crate::status::{FailureOverride, ProbeResults, StatusInput, WaitingReason, compute};

pub(super) fn uid() -> PodUid {
    PodUid::new("u1").unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

/// A Pod with this spec; containers `c` (and init containers) are given by name.
pub(super) fn pod(spec: &Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "ns", "uid": "u1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

pub(super) fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "image": format!("{name}:1")})).collect()
}

/// A Pod with containers `a` and `b` and this restart policy.
pub(super) fn two(policy: &str) -> Pod {
    pod(&json!({"restartPolicy": policy, "containers": named(&["a", "b"])}))
}

/// Everything that a status is computed from, owned.
pub(super) struct Bed {
    pub(super) pod: Pod,
    pub(super) runtime: PodRuntimeStatus,
    pub(super) previous: Option<PodStatus>,
    pub(super) waiting: BTreeMap<String, WaitingReason>,
    pub(super) messages: BTreeMap<ContainerId, String>,
    pub(super) probes: BTreeMap<String, ProbeResults>,
    pub(super) host_ips: Vec<IpAddr>,
    pub(super) is_terminal: bool,
    pub(super) is_static: bool,
    pub(super) failure: Option<FailureOverride>,
    pub(super) now: Timestamp,
}

impl Bed {
    pub(super) fn new(pod: Pod) -> Self {
        Self {
            pod,
            runtime: PodRuntimeStatus::empty(uid()),
            previous: None,
            waiting: BTreeMap::new(),
            messages: BTreeMap::new(),
            probes: BTreeMap::new(),
            host_ips: vec!["192.0.2.1".parse().unwrap()],
            is_terminal: false,
            is_static: false,
            failure: None,
            now: at(100),
        }
    }

    pub(super) fn compute(&self) -> PodStatus {
        compute(&StatusInput {
            pod: &self.pod,
            runtime: &self.runtime,
            previous: self.previous.as_ref(),
            waiting: &self.waiting,
            termination_messages: &self.messages,
            probes: &self.probes,
            host_ips: &self.host_ips,
            runtime_name: "minke",
            is_terminal: self.is_terminal,
            is_static: self.is_static,
            failure: self.failure.as_ref(),
            now: self.now,
        })
    }

    /// Computes, and takes the result for the previous one.
    pub(super) fn step(&mut self) -> PodStatus {
        let status = self.compute();
        self.previous = Some(status.clone());
        status
    }

    /// A newer attempt of a container, in this state.
    pub(super) fn add(&mut self, name: &str, state: ContainerState) -> ContainerId {
        let attempt = self.runtime.instances(name).count();
        let status = container(name, u32::try_from(attempt).unwrap(), state);
        let id = status.id.clone();
        self.runtime.containers.insert(0, status);
        id
    }

    pub(super) fn with(mut self, name: &str, state: ContainerState) -> Self {
        self.add(name, state);
        self
    }

    pub(super) fn set(&mut self, name: &str, state: ContainerState) {
        let newest = self.runtime.containers.iter_mut().find(|c| c.name == name).unwrap();
        newest.state = state;
    }

    pub(super) fn waits(&mut self, name: &str, reason: &str) {
        let why = WaitingReason { reason: reason.to_owned(), message: format!("why {reason}") };
        self.waiting.insert(name.to_owned(), why);
    }

    pub(super) fn phase(&self) -> String {
        self.compute().phase.unwrap()
    }
}

pub(super) fn container(name: &str, attempt: u32, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId(format!("{name}-{attempt}")),
        sandbox: SandboxId("s".to_owned()),
        pod: uid(),
        name: name.to_owned(),
        attempt,
        created_at: at(i64::from(attempt)),
        state,
        image_name: format!("{name}:1"),
        image: ImageId("sha256:1".to_owned()),
        log_path: PathBuf::from("/log"),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        uid: None,
    }
}

pub(super) fn sandbox(attempt: u32, state: SandboxState, ips: &[&str]) -> SandboxStatus {
    SandboxStatus {
        info: SandboxInfo {
            id: SandboxId(format!("s{attempt}")),
            pod: PodKey::new("ns", "web", uid()),
            attempt,
            state,
            created_at: at(0),
        },
        ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        namespaces: NamespaceOptions::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

pub(super) fn running() -> ContainerState {
    ContainerState::Running { started_at: at(10) + SignedDuration::from_millis(250) }
}

pub(super) fn exited(code: i32) -> ContainerState {
    ended(ExitCode::Known(code))
}

pub(super) fn ended(code: ExitCode) -> ContainerState {
    let exit = Exit { code, reason: String::new(), message: String::new(), finished_at: at(20) };
    ContainerState::Exited { started_at: Some(at(10)), exit }
}

/// The status of one container.
pub(super) fn of(status: &PodStatus, name: &str) -> ApiStatus {
    let all = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    all.into_iter().find(|s| s.name == name).unwrap().clone()
}

/// `waiting:<reason>`, `running` or `terminated:<code>:<reason>`.
pub(super) fn state(status: &PodStatus, name: &str) -> String {
    shown(of(status, name).state)
}

pub(super) fn last_state(status: &PodStatus, name: &str) -> String {
    shown(of(status, name).last_state)
}

fn shown(state: Option<k8s_openapi::api::core::v1::ContainerState>) -> String {
    let state = state.unwrap_or_default();
    if let Some(waiting) = state.waiting {
        format!("waiting:{}", waiting.reason.unwrap_or_default())
    } else if state.running.is_some() {
        "running".to_owned()
    } else if let Some(t) = state.terminated {
        format!("terminated:{}:{}", t.exit_code, t.reason.unwrap_or_default())
    } else {
        "none".to_owned()
    }
}
