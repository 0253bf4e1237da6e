//! What the runtime holds in memory of sandboxes and containers. The disk and the shims are the truth; this is what
//! they last said.

use std::net::IpAddr;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use minke_core::runtime::{
    ContainerId, ContainerInfo, ContainerPhase, ContainerState, ContainerStatus, Exit, ExitCode, RuntimeEventKind,
    SandboxId, SandboxInfo, SandboxState, SandboxStatus,
};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::record::{ContainerRecord, SandboxRecord};
use crate::layout::{ContainerDir, SandboxDir};
use crate::shim::Client;
use crate::shim::protocol::ExitRecord;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone)]
pub(super) enum SandboxLife {
    /// Being made; not shown yet.
    Making,
    /// Its shim answers.
    Ready(Client),
    /// Nothing runs in it any more; its network may still have to go.
    NotReady {
        /// Whether the network is known to be gone.
        detached: bool,
    },
}

/// One sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) record: SandboxRecord,
    pub(super) dir: SandboxDir,
    life: Mutex<(SandboxLife, Vec<IpAddr>)>,
    /// The shim's process, where this agent is its parent.
    process: Mutex<Option<Child>>,
    /// Held while the sandbox as a whole changes.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl Sandbox {
    pub(super) fn new(record: SandboxRecord, dir: SandboxDir, life: SandboxLife, ips: Vec<IpAddr>) -> Self {
        Self {
            record,
            dir,
            life: Mutex::new((life, ips)),
            process: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Takes the shim's process, to be waited for when it has ended.
    pub(super) fn keep_process(&self, process: Child) {
        *lock(&self.process) = Some(process);
    }

    /// Waits for the shim's process, which is ending, so that it does not stay a zombie.
    pub(super) fn reap(&self) {
        let Some(mut process) = lock(&self.process).take() else { return };
        tokio::spawn(async move {
            // It closed its sockets, so it is in its last microseconds; anything else is not worth a wait for ever.
            for _ in 0..1000 {
                if !matches!(process.try_wait(), Ok(None)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    pub(super) fn id(&self) -> &SandboxId {
        &self.record.id
    }

    pub(super) fn life(&self) -> SandboxLife {
        lock(&self.life).0.clone()
    }

    pub(super) fn set_life(&self, life: SandboxLife) {
        lock(&self.life).0 = life;
    }

    pub(super) fn set_ips(&self, ips: Vec<IpAddr>) {
        lock(&self.life).1 = ips;
    }

    pub(super) fn client(&self) -> Option<Client> {
        match self.life() {
            SandboxLife::Ready(client) => Some(client),
            SandboxLife::Making | SandboxLife::NotReady { .. } => None,
        }
    }

    /// What a list shows; `None` while it is being made.
    pub(super) fn info(&self) -> Option<SandboxInfo> {
        let state = match self.life() {
            SandboxLife::Making => return None,
            SandboxLife::Ready(_) => SandboxState::Ready,
            SandboxLife::NotReady { .. } => SandboxState::NotReady,
        };
        Some(SandboxInfo {
            id: self.id().clone(),
            pod: self.record.config.pod.clone(),
            attempt: self.record.config.attempt,
            state,
            created_at: self.record.created_at,
        })
    }

    pub(super) fn status(&self) -> Option<SandboxStatus> {
        let config = &self.record.config;
        // Addresses of a network that is gone may be another Pod's by now.
        let ips = match self.life() {
            SandboxLife::NotReady { detached: true } => Vec::new(),
            SandboxLife::Making | SandboxLife::Ready(_) | SandboxLife::NotReady { detached: false } => {
                lock(&self.life).1.clone()
            }
        };
        Some(SandboxStatus {
            info: self.info()?,
            ips,
            namespaces: config.namespaces.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
        })
    }
}

/// What a container does, as far as known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Life {
    /// Being created; not shown yet.
    Creating,
    /// Waits for its start.
    Created,
    /// Runs.
    Running(Timestamp),
    /// Ended.
    Exited(ExitRecord),
}

impl Life {
    pub(super) fn state(&self) -> ContainerState {
        match self {
            Self::Creating | Self::Created => ContainerState::Created,
            Self::Running(started_at) => ContainerState::Running { started_at: *started_at },
            Self::Exited(record) => ContainerState::Exited { started_at: record.started_at, exit: record.exit.clone() },
        }
    }

    /// It ended; what there is to announce. The first end is final. It may be known before the answer to whoever started it:
    /// what ran has begun all the same, and is told so first.
    fn end(&mut self, record: ExitRecord) -> &'static [RuntimeEventKind] {
        let news: &[_] = match self {
            Self::Exited(_) => return &[],
            Self::Created if record.started_at.is_some() => &[RuntimeEventKind::Started, RuntimeEventKind::Stopped],
            Self::Creating | Self::Created | Self::Running(_) => &[RuntimeEventKind::Stopped],
        };
        *self = Self::Exited(record);
        news
    }
}

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) record: ContainerRecord,
    pub(super) dir: ContainerDir,
    pub(super) life: watch::Sender<Life>,
    pub(super) uid: Mutex<Option<u32>>,
    /// When the stop in progress turns to SIGKILL; the earliest wins.
    pub(super) deadline: Mutex<Option<Instant>>,
    pub(super) sooner: Notify,
    /// Held while it is started or removed.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl Container {
    pub(super) fn new(record: ContainerRecord, dir: ContainerDir, life: Life, uid: Option<u32>) -> Self {
        Self {
            record,
            dir,
            life: watch::Sender::new(life),
            uid: Mutex::new(uid),
            deadline: Mutex::default(),
            sooner: Notify::new(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> &ContainerId {
        &self.record.id
    }

    /// Takes over what is newly known. An end is final; whether this call brought it is returned.
    pub(super) fn advance(&self, life: Life) -> bool {
        self.life.send_if_modified(|now| {
            let changed = !matches!(now, Life::Exited(_)) && *now != life;
            if changed {
                *now = life;
            }
            changed
        })
    }

    /// It ended; what there is to announce.
    pub(super) fn end(&self, record: ExitRecord) -> &'static [RuntimeEventKind] {
        let mut news: &[_] = &[];
        self.life.send_if_modified(|life| {
            news = life.end(record);
            !news.is_empty()
        });
        news
    }

    pub(super) fn info(&self) -> Option<ContainerInfo> {
        let life = self.life.borrow();
        if matches!(*life, Life::Creating) {
            return None;
        }
        let r = &self.record;
        Some(ContainerInfo {
            id: r.id.clone(),
            sandbox: r.sandbox.clone(),
            pod: r.pod.clone(),
            name: r.name.clone(),
            attempt: r.attempt,
            phase: ContainerPhase::from(&life.state()),
            created_at: r.created_at,
        })
    }

    pub(super) fn status(&self) -> Option<ContainerStatus> {
        let info = self.info()?;
        let r = &self.record;
        Some(ContainerStatus {
            id: info.id,
            sandbox: info.sandbox,
            pod: info.pod,
            name: info.name,
            attempt: info.attempt,
            created_at: info.created_at,
            state: self.life.borrow().state(),
            image_name: r.image_name.clone(),
            image: r.image.clone(),
            log_path: r.log_path.clone(),
            labels: r.labels.clone(),
            annotations: r.annotations.clone(),
            uid: *lock(&self.uid),
        })
    }
}

/// The record of a container whose end nobody saw.
pub(super) fn lost(started_at: Option<Timestamp>, now: Timestamp) -> ExitRecord {
    let message = "its shim died before it, so how it ended is not known".to_owned();
    let exit = Exit { code: ExitCode::Lost, reason: "ContainerStatusUnknown".to_owned(), message, finished_at: now };
    ExitRecord { started_at, exit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_after_the_start_that_it_had() {
        use RuntimeEventKind::{Started, Stopped};
        let at = Timestamp::UNIX_EPOCH;
        for (mut life, started_at, news) in [
            (Life::Created, Some(at), &[Started, Stopped][..]),
            (Life::Created, None, &[Stopped]),
            (Life::Creating, None, &[Stopped]),
            (Life::Running(at), Some(at), &[Stopped]),
        ] {
            let record = lost(started_at, at);
            let before = life.clone();
            assert_eq!(life.end(record.clone()), news, "{before:?}");
            assert_eq!(life, Life::Exited(record));
            assert_eq!(life.end(lost(None, at)), &[], "the first end is final");
            assert_eq!(life.state(), ContainerState::Exited { started_at, exit: lost(None, at).exit });
        }
    }
}
