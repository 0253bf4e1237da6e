//! The node's lease: who holds the name, and that it lives (pure).
//!
//! ```text
//! Idle ──due──► Writing (renew what we hold) ──► Idle, a quarter of its duration later
//!   │              │ conflict, gone
//!   └──(none)──► Getting ──► free, ours: Writing
//!                        └─► another's: watched for as long as it lasts ─► it stands still: taken over
//!                                                                      └─► it is renewed: the name is taken, over
//! ```
//! The holder is the node's name for every agent, as upstream; which agent it is stands in an annotation. Whether another one
//! lives is judged by whether it renews, not by its clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use tokio::time::Instant;

use super::config::NodeConfig;
use crate::Now;
use crate::queue::Backoff;

/// Which agent holds the lease.
pub const AGENT: &str = "minke.dev/agent";
/// As upstream.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(7) };
/// Conflicts in a row that are looked into at once, as upstream.
const AT_ONCE: u32 = 5;
/// A lease that ended so long ago is nobody's, whatever clocks say.
const LONG_OVER: SignedDuration = SignedDuration::from_mins(5);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseEvent {
    /// It is time.
    Due,
    /// The Node object has this uid.
    Owner(String),
    /// The lease was read.
    Fetched(Option<Box<Lease>>),
    /// It was created or renewed, and is like this.
    Wrote(Box<Lease>),
    /// It was changed by somebody else, exists already, or is gone: look.
    Changed,
    /// The call failed; `at_least` is what the API asks to be left alone.
    Failed {
        /// At least.
        at_least: Duration,
    },
}

/// What to ask of the API.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseCall {
    /// Read it.
    Get,
    /// Create it.
    Create(Box<Lease>),
    /// Replace it, if it is still the one that was read.
    Replace(Box<Lease>),
}

/// Another agent has the node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node {node} is held by another agent ({holder}) that renews its lease: end that one, or give this one another \
     name (--node-name)"
)]
pub struct NameTaken {
    /// The name.
    pub node: String,
    /// What is known of the other one.
    pub holder: String,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseStep {
    /// Nothing until it is due.
    Wait,
    /// This call.
    Call(LeaseCall),
    /// Give up: see there.
    Taken(NameTaken),
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Idle { next: Instant },
    Getting,
    Writing,
    Over(NameTaken),
}

/// See the module.
#[derive(Debug, Clone)]
pub struct LeaseMachine {
    config: Arc<NodeConfig>,
    phase: Phase,
    /// As it was when we wrote it last.
    held: Option<Box<Lease>>,
    owner: Option<String>,
    /// The owner that was written last.
    sent: Option<String>,
    /// Another agent's: when it was renewed by its own clock, and since when that is known.
    suspect: Option<(Option<MicroTime>, Instant)>,
    failures: u32,
    renewed: Option<Instant>,
}

impl LeaseMachine {
    /// Nothing is known; due at once.
    #[must_use]
    pub fn new(config: Arc<NodeConfig>, now: Instant) -> Self {
        let phase = Phase::Idle { next: now };
        Self { config, phase, held: None, owner: None, sent: None, suspect: None, failures: 0, renewed: None }
    }

    /// When [`LeaseEvent::Due`] is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { next } => Some(next),
            Phase::Getting | Phase::Writing | Phase::Over(_) => None,
        }
    }

    /// When the lease was last ours; `None`: it never was.
    #[must_use]
    pub fn renewed(&self) -> Option<Instant> {
        self.renewed
    }

    /// Whether another agent's lease is being watched.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.suspect.is_some()
    }

    /// Takes an event.
    pub fn step(&mut self, event: LeaseEvent, now: Now) -> LeaseStep {
        match event {
            LeaseEvent::Due => match self.phase {
                Phase::Idle { next } if next <= now.instant => match self.held.take() {
                    Some(held) => self.write(Some(*held), now),
                    None => self.get(),
                },
                Phase::Idle { .. } | Phase::Getting | Phase::Writing | Phase::Over(_) => LeaseStep::Wait,
            },
            LeaseEvent::Owner(uid) => {
                let news = self.owner.as_ref() != Some(&uid);
                self.owner = Some(uid);
                if let (true, true, Phase::Idle { next }) = (news, self.held.is_some(), &mut self.phase) {
                    // Without its owner it would outlive the node, with an outdated one it would be collected.
                    *next = now.instant;
                }
                LeaseStep::Wait
            }
            LeaseEvent::Fetched(None) => {
                self.suspect = None;
                self.write(None, now)
            }
            LeaseEvent::Fetched(Some(lease)) => self.judge(*lease, now),
            LeaseEvent::Wrote(lease) => {
                (self.failures, self.suspect, self.renewed) = (0, None, Some(now.instant));
                let owned = self.sent == self.owner;
                self.held = Some(lease);
                self.rest(if owned { self.config.renewal() } else { Duration::ZERO }, now)
            }
            LeaseEvent::Changed => {
                self.held = None;
                self.failures = self.failures.saturating_add(1);
                if self.failures <= AT_ONCE { self.get() } else { self.hold_back(Duration::ZERO, now) }
            }
            LeaseEvent::Failed { at_least } => {
                self.held = None;
                self.failures = self.failures.saturating_add(1);
                self.hold_back(at_least, now)
            }
        }
    }

    fn get(&mut self) -> LeaseStep {
        self.phase = Phase::Getting;
        LeaseStep::Call(LeaseCall::Get)
    }

    fn rest(&mut self, time: Duration, now: Now) -> LeaseStep {
        self.phase = Phase::Idle { next: now.instant + time };
        LeaseStep::Wait
    }

    fn hold_back(&mut self, at_least: Duration, now: Now) -> LeaseStep {
        self.rest(BACKOFF.after(self.failures).min(self.config.renewal()).max(at_least), now)
    }

    /// Whose is it, and does whoever has it live?
    fn judge(&mut self, lease: Lease, now: Now) -> LeaseStep {
        let Some(holder) = self.other(&lease, now.wall) else {
            self.suspect = None;
            return self.write(Some(lease), now);
        };
        let lasts = lasts(&lease, self.config.lease);
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        match &self.suspect {
            Some((known, since)) if *known == renewed => {
                let end = *since + lasts;
                if end <= now.instant {
                    self.suspect = None;
                    return self.write(Some(lease), now);
                }
                let left = end.saturating_duration_since(now.instant);
                self.rest(left.min(self.config.renewal()), now)
            }
            Some(_) => {
                let taken = NameTaken { node: self.config.name.clone(), holder };
                self.phase = Phase::Over(taken.clone());
                LeaseStep::Taken(taken)
            }
            None => {
                self.suspect = Some((renewed, now.instant));
                self.rest(lasts.min(self.config.renewal()), now)
            }
        }
    }

    /// Who else may hold it.
    fn other(&self, lease: &Lease, wall: Timestamp) -> Option<String> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        let agent = lease.metadata.annotations.as_ref().and_then(|a| a.get(AGENT));
        if agent.is_some_and(|agent| *agent == self.config.identity) {
            return None;
        }
        let ended = spec.renew_time.as_ref()?.0.saturating_add(lasts_signed(lease, self.config.lease)).ok()?;
        if wall.duration_since(ended) > LONG_OVER {
            return None;
        }
        Some(agent.map_or_else(|| format!("holder {holder}"), |agent| format!("agent {agent}")))
    }

    fn write(&mut self, base: Option<Lease>, now: Now) -> LeaseStep {
        let exists = base.is_some();
        let lease = Box::new(self.lease(base.unwrap_or_default(), now.wall));
        self.phase = Phase::Writing;
        self.sent.clone_from(&self.owner);
        LeaseStep::Call(if exists { LeaseCall::Replace(lease) } else { LeaseCall::Create(lease) })
    }

    /// The lease as it should be, renewed now.
    fn lease(&self, base: Lease, wall: Timestamp) -> Lease {
        let mut metadata = ObjectMeta { name: Some(self.config.name.clone()), ..base.metadata };
        metadata.annotations.get_or_insert_default().insert(AGENT.to_owned(), self.config.identity.clone());
        if let Some(uid) = &self.owner {
            metadata.owner_references = Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: self.config.name.clone(),
                uid: uid.clone(),
                ..OwnerReference::default()
            }]);
        }
        let spec = LeaseSpec {
            holder_identity: Some(self.config.name.clone()),
            lease_duration_seconds: i32::try_from(self.config.lease.as_secs()).ok(),
            renew_time: Some(MicroTime(wall)),
            ..base.spec.unwrap_or_default()
        };
        Lease { metadata, spec: Some(spec) }
    }
}

fn lasts(lease: &Lease, default: Duration) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    seconds.and_then(|s| u64::try_from(s).ok()).map_or(default, Duration::from_secs)
}

fn lasts_signed(lease: &Lease, default: Duration) -> SignedDuration {
    SignedDuration::try_from(lasts(lease, default)).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
