//! A Pod of the fake provider, and its status at a moment of its life.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::FakePodLife;
use crate::fake::FakeClock;
use crate::identity::PodKey;
use crate::provider::HeldPod;

/// Where in its life a Pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Starting { until: Instant },
    Running { since: Instant },
    Stopping { since: Instant, until: Instant },
    Ended { since: Instant, at: Instant, exit_code: i32 },
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) life: FakePodLife,
    pub(super) stage: Stage,
    /// Names its address.
    pub(super) number: u32,
}

fn time(timestamp: Timestamp) -> Time {
    // Whole seconds, as the API keeps them.
    Time(Timestamp::from_second(timestamp.as_second()).unwrap_or(timestamp))
}

impl Entry {
    pub(super) fn held(&self, key: &PodKey, clock: &FakeClock) -> HeldPod {
        let mut pod = (*self.pod).clone();
        pod.status = Some(self.status(clock));
        HeldPod { key: key.clone(), pod: Arc::new(pod) }
    }

    /// When it changes next by itself.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::Starting { until } | Stage::Stopping { until, .. } => Some(until),
            Stage::Running { since } => self.life.ends.map(|(after, _)| since + after),
            Stage::Ended { .. } => None,
        }
    }

    pub(super) fn status(&self, clock: &FakeClock) -> PodStatus {
        let at = |instant| time(clock.at(instant));
        let (phase, ready, state) = match self.stage {
            Stage::Starting { .. } => {
                let reason = Some("ContainerCreating".to_owned());
                let waiting = Some(ContainerStateWaiting { reason, message: None });
                ("Pending", false, ContainerState { waiting, ..ContainerState::default() })
            }
            Stage::Running { since } | Stage::Stopping { since, .. } => {
                let running = Some(ContainerStateRunning { started_at: Some(at(since)) });
                ("Running", true, ContainerState { running, ..ContainerState::default() })
            }
            Stage::Ended { since, at: end, exit_code } => {
                let reason = if exit_code == 0 { "Completed" } else { "Error" };
                let terminated = Some(ContainerStateTerminated {
                    exit_code,
                    reason: Some(reason.to_owned()),
                    started_at: Some(at(since)),
                    finished_at: Some(at(end)),
                    ..ContainerStateTerminated::default()
                });
                let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
                (phase, false, ContainerState { terminated, ..ContainerState::default() })
            }
        };
        let container = |name: &String, image: &Option<String>| ContainerStatus {
            name: name.clone(),
            image: image.clone().unwrap_or_default(),
            ready,
            started: Some(ready),
            state: Some(state.clone()),
            ..ContainerStatus::default()
        };
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let condition = |kind: &str| PodCondition {
            type_: kind.to_owned(),
            status: if ready { "True" } else { "False" }.to_owned(),
            ..PodCondition::default()
        };
        let ip = format!("10.{}.{}.{}", self.number >> 16 & 255, self.number >> 8 & 255, self.number & 255);
        PodStatus {
            phase: Some(phase.to_owned()),
            container_statuses: Some(containers.map(|c| container(&c.name, &c.image)).collect()),
            conditions: Some(vec![condition("Ready"), condition("ContainersReady")]),
            pod_ip: Some(ip.clone()),
            pod_ips: Some(vec![PodIP { ip }]),
            ..PodStatus::default()
        }
    }
}
