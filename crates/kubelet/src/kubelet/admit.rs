//! Who may come in: the port that admission stands behind.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::admission::{Admitting, Machine, Pressure, Verdict, admit, host_ports, taken_ports};

/// Decides about one Pod, given those that are active and what the machine is short of.
#[async_trait]
pub trait Admit: std::fmt::Debug + Send + Sync + 'static {
    /// Whether the Pod may come in.
    async fn admit(&self, pod: &Pod, active: &[Arc<Pod>], pressure: &[Pressure]) -> Verdict;
    /// Whether a Pod that an earlier agent took on may stay. It holds its host ports itself.
    async fn admit_again(&self, pod: &Pod, active: &[Arc<Pod>]) -> Verdict;
}

/// Admits everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

#[async_trait]
impl Admit for AdmitAll {
    async fn admit(&self, _pod: &Pod, _active: &[Arc<Pod>], _pressure: &[Pressure]) -> Verdict {
        Verdict::Admit
    }

    async fn admit_again(&self, _pod: &Pod, _active: &[Arc<Pod>]) -> Verdict {
        Verdict::Admit
    }
}

/// Admits what fits on this machine.
#[derive(Debug, Clone)]
pub(super) struct MachineAdmission {
    pub(super) machine: Machine,
}

impl MachineAdmission {
    fn to<'a>(&'a self, active: &'a [&'a Pod], pressure: &'a [Pressure]) -> Admitting<'a> {
        Admitting { machine: &self.machine, active, pressure, taken_ports: &[], allowed_sysctls: &[] }
    }
}

#[async_trait]
impl Admit for MachineAdmission {
    async fn admit(&self, pod: &Pod, active: &[Arc<Pod>], pressure: &[Pressure]) -> Verdict {
        let active: Vec<&Pod> = active.iter().map(|p| &**p).collect();
        // Ports of our own Pods are found among `active`, and told as theirs; only then the host is asked.
        let quiet = self.to(&active, pressure);
        match admit(pod, &quiet) {
            rejected @ Verdict::Reject(_) => rejected,
            // A victim's port is not taken by a program: it is one of the active Pods', and was found above.
            Verdict::Admit | Verdict::Preempt(_) => {
                let taken_ports = taken_ports(&host_ports(pod));
                admit(pod, &Admitting { taken_ports: &taken_ports, ..quiet })
            }
        }
    }

    async fn admit_again(&self, pod: &Pod, active: &[Arc<Pod>]) -> Verdict {
        let active: Vec<&Pod> = active.iter().map(|p| &**p).collect();
        admit(pod, &self.to(&active, &[]))
    }
}
