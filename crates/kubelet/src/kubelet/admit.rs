//! Who may come in: the port that admission stands behind.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::admission::{Admitting, Machine, Rejection, admit, host_ports, taken_ports};

/// Decides about one Pod, given those that are active.
#[async_trait]
pub trait Admit: std::fmt::Debug + Send + Sync + 'static {
    /// Whether the Pod may come in.
    async fn admit(&self, pod: &Pod, active: &[Arc<Pod>]) -> Result<(), Rejection>;
}

/// Admits everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

#[async_trait]
impl Admit for AdmitAll {
    async fn admit(&self, _pod: &Pod, _active: &[Arc<Pod>]) -> Result<(), Rejection> {
        Ok(())
    }
}

/// Admits what fits on this machine.
#[derive(Debug, Clone)]
pub(super) struct MachineAdmission {
    pub(super) machine: Machine,
}

#[async_trait]
impl Admit for MachineAdmission {
    async fn admit(&self, pod: &Pod, active: &[Arc<Pod>]) -> Result<(), Rejection> {
        let active: Vec<&Pod> = active.iter().map(|p| &**p).collect();
        // Ports of our own Pods are found among `active`, and told as theirs; only then the host is asked.
        let quiet = Admitting { machine: &self.machine, active: &active, taken_ports: &[], allowed_sysctls: &[] };
        admit(pod, &quiet)?;
        let taken_ports = taken_ports(&host_ports(pod));
        admit(pod, &Admitting { taken_ports: &taken_ports, ..quiet })
    }
}
