//! The Node object's machine: registered, kept as it should be, made again when somebody deletes it (pure).
//!
//! ```text
//!            described for the first time                  not there
//! Waiting ─────────────────────────────► Idle ──► Getting ───────────► Creating ──► Idle
//!                                         ▲ ▲ due, or      │ there                    │ exists already
//!                                         │ │ changed      ▼                          ▼
//!                                         │ └────────── Patching ◄──(differs)──    Getting
//!                                         └── a failure: later, and later
//! ```
//! One call is in flight at most. Each period the object is read anew, as upstream does: so foreign changes are repaired and a
//! deleted node comes back. It is written when something differs, and now and then to say that the node lives; between
//! those the lease says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use tokio::time::Instant;

use super::conditions::Described;
use super::config::NodeConfig;
use super::object::desired_node;
use super::patch::node_patch;
use crate::Now;
use crate::queue::Backoff;

/// How long a failing call is held back, as upstream's registration.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(7) };

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeEvent {
    /// The node was described, or whoever should have was silent.
    Described(Described),
    /// The node goes down, or does not after all.
    GoingDown(bool),
    /// It is time.
    Due,
    /// The object was read.
    Fetched(Option<Box<Node>>),
    /// The object was created or patched, and is like this.
    Wrote(Box<Node>),
    /// What was written to is another object, exists already, or does not exist: look.
    Changed,
    /// The call failed; `at_least` is what the API asks to be left alone.
    Failed {
        /// At least.
        at_least: Duration,
    },
}

/// What to ask of the API.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeCall {
    /// Read the object.
    Get,
    /// Create it.
    Create(Box<Node>),
    /// Patch its status.
    Patch(Value),
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Nothing is known of the node yet.
    Waiting,
    Idle {
        next: Instant,
    },
    Getting,
    Creating,
    Patching,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct NodeMachine {
    config: Arc<NodeConfig>,
    phase: Phase,
    described: Option<Described>,
    going_down: bool,
    /// Something changed since the object was compared last.
    dirty: bool,
    failures: u32,
    /// When the status was written last.
    reported: Option<Instant>,
    /// Extended resources that were written.
    resources: BTreeSet<String>,
    uid: Option<String>,
    down_told: bool,
}

impl NodeMachine {
    /// Before anything is known.
    #[must_use]
    pub fn new(config: Arc<NodeConfig>) -> Self {
        Self {
            config,
            phase: Phase::Waiting,
            described: None,
            going_down: false,
            dirty: false,
            failures: 0,
            reported: None,
            resources: BTreeSet::new(),
            uid: None,
            down_told: false,
        }
    }

    /// When [`NodeEvent::Due`] is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { next } => Some(next),
            Phase::Waiting | Phase::Getting | Phase::Creating | Phase::Patching => None,
        }
    }

    /// The uid of the object, once it is registered.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// Whether the API has been told that the node goes down.
    #[must_use]
    pub fn says_that_it_goes_down(&self) -> bool {
        self.down_told
    }

    /// What failed calls in a row there were.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes an event; returns the call to make.
    pub fn step(&mut self, event: NodeEvent, now: Now) -> Option<NodeCall> {
        match event {
            NodeEvent::Described(described) => {
                let news = self.described.as_ref() != Some(&described);
                self.described = Some(described);
                self.changed(news)
            }
            NodeEvent::GoingDown(going_down) => {
                let news = self.going_down != going_down;
                self.going_down = going_down;
                self.changed(news)
            }
            NodeEvent::Due => match self.phase {
                Phase::Idle { next } if next <= now.instant => self.get(),
                Phase::Idle { .. } | Phase::Waiting | Phase::Getting | Phase::Creating | Phase::Patching => None,
            },
            NodeEvent::Fetched(Some(node)) => self.compare(&node, now),
            NodeEvent::Fetched(None) => {
                let Some(described) = &self.described else { return self.rest(now) };
                self.uid = None;
                self.reported = None;
                self.dirty = false;
                self.phase = Phase::Creating;
                Some(NodeCall::Create(Box::new(desired_node(&self.config, described, self.going_down, now.wall))))
            }
            NodeEvent::Wrote(node) => {
                self.failures = 0;
                self.uid.clone_from(&node.metadata.uid);
                if self.phase == Phase::Patching {
                    self.reported = Some(now.instant);
                    self.down_told = self.going_down && !self.dirty;
                }
                // What was created may have lost its status on the way in: servers have it apart.
                if self.phase == Phase::Creating || self.dirty { self.compare(&node, now) } else { self.rest(now) }
            }
            NodeEvent::Changed => {
                // Looked at again at once, and after a rest if that goes on.
                self.failures = self.failures.saturating_add(1);
                if self.failures > 1 { self.hold_back(Duration::ZERO, now) } else { self.get() }
            }
            NodeEvent::Failed { at_least } => {
                self.failures = self.failures.saturating_add(1);
                self.hold_back(at_least, now)
            }
        }
    }

    fn changed(&mut self, news: bool) -> Option<NodeCall> {
        self.dirty |= news;
        match self.phase {
            Phase::Waiting => self.described.is_some().then(|| self.get()).flatten(),
            // While the API fails its back-off stands.
            Phase::Idle { .. } if self.dirty && self.failures == 0 => self.get(),
            Phase::Idle { .. } | Phase::Getting | Phase::Creating | Phase::Patching => None,
        }
    }

    fn get(&mut self) -> Option<NodeCall> {
        self.phase = Phase::Getting;
        Some(NodeCall::Get)
    }

    fn rest(&mut self, now: Now) -> Option<NodeCall> {
        self.phase = Phase::Idle { next: now.instant + self.config.period };
        None
    }

    fn hold_back(&mut self, at_least: Duration, now: Now) -> Option<NodeCall> {
        self.phase = Phase::Idle { next: now.instant + BACKOFF.after(self.failures).max(at_least) };
        None
    }

    /// Writes the object if it should be otherwise.
    fn compare(&mut self, published: &Node, now: Now) -> Option<NodeCall> {
        let Some(described) = &self.described else { return self.rest(now) };
        let desired = desired_node(&self.config, described, self.going_down, now.wall);
        let patch = node_patch(published, &desired, &self.resources);
        let late = self.reported.is_none_or(|at| now.instant.saturating_duration_since(at) >= self.config.report);
        self.uid.clone_from(&published.metadata.uid);
        self.dirty = false;
        self.failures = 0;
        let lists = desired.status.iter().flat_map(|s| s.capacity.iter().chain(&s.allocatable)).flat_map(|l| l.keys());
        self.resources.extend(lists.filter(|name| name.contains('/')).cloned());
        if !patch.news && !late {
            self.down_told = self.going_down;
            return self.rest(now);
        }
        self.phase = Phase::Patching;
        Some(NodeCall::Patch(patch.patch))
    }
}
