//! What a mock has and what becomes of it in time (pure).

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minke_core::identity::PodKey;
use minke_core::provider::HeldPod;
use tokio::time::Instant;

/// Something that a sink hears.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum News {
    Changed(Box<PodStatus>),
    Forgotten,
}

/// Where a Pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Starts(Instant),
    Runs,
    /// Ends then; afterwards it is forgotten, or kept as one that the node ended.
    Ends {
        at: Instant,
        keep: bool,
    },
    Ended {
        by_node: bool,
    },
}

/// A Pod as text: a sixth of what it takes otherwise, and looked at seldom.
#[derive(Debug)]
struct Packed(Box<str>);

impl Packed {
    fn new(pod: &Pod) -> Self {
        // Writing plain data can't fail, nor can reading what was written.
        Self(serde_json::to_string(pod).unwrap_or_default().into())
    }

    fn pod(&self) -> Pod {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Entry {
    pod: Packed,
    life: Life,
    came: Timestamp,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    host: IpAddr,
    number: u32,
}

impl Entry {
    fn due(&self) -> Option<Instant> {
        match self.life {
            Life::Starts(at) | Life::Ends { at, .. } => Some(at),
            Life::Runs | Life::Ended { .. } => None,
        }
    }

    fn status(&self, pod: &Pod) -> PodStatus {
        let (phase, ready) = match (self.life, self.started) {
            (Life::Starts(_), _) | (Life::Ends { .. }, None) => ("Pending", false),
            (Life::Runs, _) => ("Running", true),
            (Life::Ends { .. }, Some(_)) => ("Running", false),
            (Life::Ended { by_node: true }, _) => ("Failed", false),
            (Life::Ended { by_node: false }, _) => ("Succeeded", false),
        };
        let ip = IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) | (self.number & 0x00ff_ffff)));
        let condition = |kind: &str, holds: bool| PodCondition {
            type_: kind.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            ..PodCondition::default()
        };
        let containers = pod.spec.as_ref().map(|spec| {
            let of = |c: &k8s_openapi::api::core::v1::Container| self.container(&c.name, c.image.as_deref(), ready);
            spec.containers.iter().map(of).collect()
        });
        let by_node = self.life == Life::Ended { by_node: true };
        PodStatus {
            phase: Some(phase.to_owned()),
            reason: by_node.then(|| "Terminated".to_owned()),
            message: by_node.then(|| "Pod was terminated in response to imminent node shutdown.".to_owned()),
            host_ip: Some(self.host.to_string()),
            host_ips: Some(vec![HostIP { ip: self.host.to_string() }]),
            pod_ip: self.started.map(|_| ip.to_string()),
            pod_ips: self.started.map(|_| vec![PodIP { ip: ip.to_string() }]),
            start_time: Some(Time(self.came)),
            conditions: Some(vec![
                condition("Initialized", true),
                condition("Ready", ready),
                condition("ContainersReady", ready),
                condition("PodScheduled", true),
            ]),
            container_statuses: containers,
            ..PodStatus::default()
        }
    }

    fn container(&self, name: &str, image: Option<&str>, ready: bool) -> ContainerStatus {
        let started_at = self.started.map(Time);
        let state = match (&self.ended, &started_at) {
            (Some(ended), _) => ContainerState {
                terminated: Some(ContainerStateTerminated {
                    reason: Some("Completed".to_owned()),
                    started_at,
                    finished_at: Some(Time(*ended)),
                    ..ContainerStateTerminated::default()
                }),
                ..ContainerState::default()
            },
            (None, Some(_)) => {
                ContainerState { running: Some(ContainerStateRunning { started_at }), ..ContainerState::default() }
            }
            (None, None) => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some("ContainerCreating".to_owned()),
                    ..ContainerStateWaiting::default()
                }),
                ..ContainerState::default()
            },
        };
        ContainerStatus {
            name: name.to_owned(),
            image: image.unwrap_or_default().to_owned(),
            ready,
            started: Some(ready),
            state: Some(state),
            ..ContainerStatus::default()
        }
    }

    fn held(&self, key: &PodKey) -> HeldPod {
        let pod = self.pod.pod();
        let pod = Pod { status: Some(self.status(&pod)), ..pod };
        HeldPod { key: key.clone(), pod: Arc::new(pod) }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct World {
    pods: HashMap<PodKey, Entry>,
    due: BTreeSet<(Instant, PodKey)>,
    news: Vec<(PodKey, News)>,
    drawn: u64,
    came: u32,
    closed: bool,
}

impl World {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn holds(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// A number below a hundred, evenly and always in the same order.
    pub(super) fn draw(&mut self) -> u8 {
        self.drawn = self.drawn.wrapping_add(1);
        let mixed = self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        u8::try_from(mixed % 100).unwrap_or(0)
    }

    pub(super) fn create(&mut self, key: PodKey, pod: &Pod, starts: Instant, host: IpAddr, now: Timestamp) {
        if self.pods.contains_key(&key) {
            return;
        }
        self.came = self.came.wrapping_add(1);
        let pod = Packed::new(pod);
        let entry =
            Entry { pod, life: Life::Starts(starts), came: now, started: None, ended: None, host, number: self.came };
        self.due.insert((starts, key.clone()));
        self.pods.insert(key, entry);
    }

    pub(super) fn update(&mut self, key: &PodKey, pod: &Pod) -> bool {
        self.pods.get_mut(key).map(|entry| entry.pod = Packed::new(pod)).is_some()
    }

    /// Ends the Pod at that time at the latest, and forgets it.
    pub(super) fn delete(&mut self, key: &PodKey, at: Instant) -> bool {
        self.ending(key, at, false)
    }

    /// Ends the Pod at that time at the latest, and keeps it as failed.
    pub(super) fn end(&mut self, key: &PodKey, at: Instant) -> bool {
        self.ending(key, at, true)
    }

    fn ending(&mut self, key: &PodKey, at: Instant, keep: bool) -> bool {
        let Some(entry) = self.pods.get_mut(key) else { return false };
        if let Some(due) = entry.due() {
            self.due.remove(&(due, key.clone()));
        }
        match entry.life {
            Life::Ended { .. } if keep => return true,
            Life::Ended { .. } => {
                self.pods.remove(key);
                self.news.push((key.clone(), News::Forgotten));
                return true;
            }
            // A second wish can only make it sooner, and a deletion stays one.
            Life::Ends { at: before, keep: kept } => {
                entry.life = Life::Ends { at: at.min(before), keep: keep && kept };
            }
            Life::Starts(_) | Life::Runs => entry.life = Life::Ends { at, keep },
        }
        self.due.extend(entry.due().map(|due| (due, key.clone())));
        true
    }

    pub(super) fn get(&self, key: &PodKey) -> Option<HeldPod> {
        self.pods.get(key).map(|entry| entry.held(key))
    }

    pub(super) fn list(&self) -> Vec<HeldPod> {
        self.pods.iter().map(|(key, entry)| entry.held(key)).collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Lets happen what is due; returns what is to be told, in order.
    pub(super) fn settle(&mut self, now: Instant, wall: Timestamp) -> Vec<(PodKey, News)> {
        while let Some((_, key)) = self.due.first().filter(|(at, _)| *at <= now).cloned() {
            self.due.pop_first();
            let Some(entry) = self.pods.get_mut(&key) else { continue };
            let forgotten = match entry.life {
                Life::Starts(_) => {
                    (entry.life, entry.started) = (Life::Runs, Some(wall));
                    false
                }
                Life::Ends { keep, .. } => {
                    (entry.life, entry.ended) = (Life::Ended { by_node: keep }, Some(wall));
                    !keep
                }
                Life::Runs | Life::Ended { .. } => continue,
            };
            self.news.push((key.clone(), News::Changed(Box::new(entry.status(&entry.pod.pod())))));
            if forgotten {
                self.pods.remove(&key);
                self.news.push((key, News::Forgotten));
            }
        }
        std::mem::take(&mut self.news)
    }
}
