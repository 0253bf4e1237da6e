//! What a status is computed from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::runtime::{ContainerId, PodRuntimeStatus};

/// Why a container waits: the newest failed step of starting it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WaitingReason {
    /// `CrashLoopBackOff`, `ImagePullBackOff`, `ErrImagePull`, `CreateContainerConfigError`, `RunContainerError`, …
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A probe of which the failure kills its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FatalProbe {
    /// It no longer does its work.
    Liveness,
    /// It never began to.
    Startup,
}

/// What probes say about the newest instance of one container. `None`: there is no such probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeResults {
    /// The startup probe has succeeded.
    pub started: Option<bool>,
    /// The readiness probe succeeds.
    pub ready: Option<bool>,
    /// A probe has condemned this instance: it is to be killed, and started again unless its policy is `Never`.
    pub condemned: Option<FatalProbe>,
}

/// A decision from outside the phase table that the Pod has failed: it was evicted, ran past its deadline, was
/// rejected.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FailureOverride {
    /// `Evicted`, `DeadlineExceeded`, `OutOfcpu`, …
    pub reason: String,
    /// For people.
    pub message: String,
}

impl FailureOverride {
    /// `spec.activeDeadlineSeconds` has passed; in upstream's words.
    #[must_use]
    pub fn deadline_exceeded() -> Self {
        Self {
            reason: "DeadlineExceeded".to_owned(),
            message: "Pod was active on the node longer than the specified deadline".to_owned(),
        }
    }
}

/// Everything that the status of a Pod is computed from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// What the runtime says.
    pub runtime: &'a PodRuntimeStatus,
    /// The newest status computed before, if any.
    pub previous: Option<&'a PodStatus>,
    /// Why containers could not be started, by name.
    pub waiting: &'a BTreeMap<String, WaitingReason>,
    /// Termination messages of ended containers, as read from file or log.
    pub termination_messages: &'a BTreeMap<ContainerId, String>,
    /// What probes say, by container name.
    pub probes: &'a BTreeMap<String, ProbeResults>,
    /// Addresses of the machine, primary first.
    pub host_ips: &'a [IpAddr],
    /// Prefix of container ids in the API, for example `minke` for `minke://<id>`.
    pub runtime_name: &'a str,
    /// The Pod's containers have all been stopped for good: nothing will be restarted.
    pub is_terminal: bool,
    /// The Pod comes from a manifest that a kubelet would call static. Such a Pod is never made terminal only because
    /// it is being stopped.
    pub is_static: bool,
    /// The Pod has failed for a reason of its own.
    pub failure: Option<&'a FailureOverride>,
    /// Now, by the wall clock.
    pub now: Timestamp,
}
