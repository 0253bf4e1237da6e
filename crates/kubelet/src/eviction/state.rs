//! The eviction manager as a pure state machine: what is left goes in, what to do comes out. No await, no clock.
//!
//! ```text
//!  Observed ──a limit of a Pod is exceeded──────────────────────────────► Evict those
//!     │
//!     └─a threshold is met for its grace period─► disk: Reclaim ─► Reclaimed ─enough─► rest
//!                                                 else │                        │ not enough
//!                                                      └───────► Measure ◄──────┘
//!                                                                   ▼
//!                                                               Measured ─► Evict one
//! ```
//! One look is one such round; at most one Pod is evicted in it for want of something, whatever is met. A condition
//! of the machine begins when a threshold is met and ends a transition period after it was last seen, so that it does
//! not flap. Upstream source: `pkg/kubelet/eviction/eviction_manager.go` (`synchronize`).

use std::collections::BTreeMap;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::priority::is_critical;
use tokio::time::Instant;

use super::candidate::Candidate;
use super::limits::{Limit, exceeded};
use super::message::eviction_message;
use super::rank::rank;
use super::signal::{Observations, Signal};
use super::threshold::{EvictionConfig, Threshold};
use crate::admission::Pressure;

/// What a Pod gets to end by itself when there is no time to lose.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A round begins: what is left, and the Pods with limits on their ephemeral storage.
    Observed {
        /// What is left.
        observations: &'a Observations,
        /// Those Pods, measured.
        limited: &'a [Candidate],
    },
    /// What could go without harm to a Pod has gone; what is left now.
    Reclaimed(&'a Observations),
    /// All Pods, measured.
    Measured(&'a [Candidate]),
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Remove containers and images that nobody needs, and say [`Event::Reclaimed`].
    Reclaim(Signal),
    /// Measure all Pods, and say [`Event::Measured`].
    Measure(Signal),
    /// Evict a Pod.
    Evict(Verdict),
}

/// A Pod that has to go, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which.
    pub uid: PodUid,
    /// What it gets to end by itself.
    pub grace: Duration,
    /// In upstream's words.
    pub message: String,
    /// For what.
    pub cause: EvictionCause,
}

/// What a Pod is evicted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// The machine is short of this.
    Short(Signal),
    /// The Pod exceeds a limit of its own.
    Exceeded(Limit),
}

impl EvictionCause {
    /// As upstream's metric has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short(signal) => signal.as_str(),
            Self::Exceeded(limit) => limit.signal(),
        }
    }

    /// Whether the Pod goes so that others can stay.
    #[must_use]
    pub fn is_for_others(self) -> bool {
        match self {
            Self::Short(_) => true,
            Self::Exceeded(_) => false,
        }
    }

    /// Whether disk space is to become free.
    #[must_use]
    pub fn is_about_disk(self) -> bool {
        match self {
            Self::Short(signal) => signal.pressure() == Pressure::Disk,
            Self::Exceeded(_) => true,
        }
    }
}

/// Where the manager is.
#[derive(Debug, Default)]
pub struct EvictionState {
    /// Thresholds that drove the last round, which stay so until enough is reclaimed.
    driving: Vec<Threshold>,
    /// Since when each threshold is met.
    met_since: Vec<(Threshold, Instant)>,
    /// When each condition was last seen.
    seen: BTreeMap<Pressure, Instant>,
    /// What is short now.
    pressure: Vec<Pressure>,
    last: Observations,
    /// What this round is for.
    round: Option<Threshold>,
}

impl EvictionState {
    /// What the machine is short of.
    #[must_use]
    pub fn pressure(&self) -> &[Pressure] {
        &self.pressure
    }

    /// What was left at the last look.
    #[must_use]
    pub fn observations(&self) -> &Observations {
        &self.last
    }

    /// Takes one event and says what to do, in order.
    #[must_use]
    pub fn step(&mut self, config: &EvictionConfig, event: Event<'_>, now: Instant) -> Vec<Action> {
        match event {
            Event::Observed { observations, limited } => self.observed(config, observations, limited, now),
            Event::Reclaimed(observations) => self.reclaimed(observations),
            Event::Measured(candidates) => self.measured(config, candidates),
        }
    }

    fn observed(
        &mut self,
        config: &EvictionConfig,
        observations: &Observations,
        limited: &[Candidate],
        now: Instant,
    ) -> Vec<Action> {
        self.last = observations.clone();
        self.round = None;
        let unresolved = |t: &Threshold| self.driving.contains(t) && t.is_met(observations, true);
        let is_met = |t: &&Threshold| t.is_met(observations, false) || unresolved(t);
        let met: Vec<Threshold> = config.thresholds.iter().filter(is_met).copied().collect();

        let since = |t: &Threshold| self.met_since.iter().find(|(old, _)| old == t).map_or(now, |(_, since)| *since);
        self.met_since = met.iter().map(|t| (*t, since(t))).collect();
        for threshold in &met {
            self.seen.insert(threshold.signal.pressure(), now);
        }
        self.seen.retain(|_, at| now.duration_since(*at) < config.pressure_transition);
        self.pressure = self.seen.keys().copied().collect();

        let past_grace =
            |(t, since): &(Threshold, Instant)| t.grace.is_none_or(|grace| now.duration_since(*since) >= grace);
        self.driving = self.met_since.iter().filter(|m| past_grace(m)).map(|(t, _)| *t).collect();

        let over: Vec<Action> = limited.iter().filter_map(exceeding).map(Action::Evict).collect();
        if !over.is_empty() {
            return over;
        }
        // Memory first; among the thresholds of one signal a hard one before a soft one.
        let first = self.driving.iter().min_by_key(|t| (t.signal != Signal::Memory, t.grace.is_some()));
        let Some(threshold) = first.copied() else { return vec![] };
        self.round = Some(threshold);
        match threshold.signal.pressure() {
            Pressure::Disk => vec![Action::Reclaim(threshold.signal)],
            Pressure::Memory | Pressure::Pid => vec![Action::Measure(threshold.signal)],
        }
    }

    fn reclaimed(&mut self, observations: &Observations) -> Vec<Action> {
        self.last = observations.clone();
        let Some(threshold) = self.round else { return vec![] };
        if threshold.is_met(observations, true) {
            return vec![Action::Measure(threshold.signal)];
        }
        self.round = None;
        vec![]
    }

    fn measured(&mut self, config: &EvictionConfig, candidates: &[Candidate]) -> Vec<Action> {
        let Some(threshold) = self.round.take() else { return vec![] };
        let ranked = rank(candidates, threshold.signal, self.last.separate_imagefs);
        let Some(victim) = ranked.into_iter().find(|c| !is_critical(&c.pod)) else { return vec![] };
        let own = victim.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
        let own = own.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
        let grace = match threshold.grace {
            None => AT_ONCE,
            Some(_) => own.map_or(config.max_pod_grace, |own| own.min(config.max_pod_grace)).max(AT_ONCE),
        };
        vec![Action::Evict(Verdict {
            uid: victim.uid.clone(),
            grace,
            message: eviction_message(victim, &threshold, &self.last),
            cause: EvictionCause::Short(threshold.signal),
        })]
    }
}

fn exceeding(candidate: &Candidate) -> Option<Verdict> {
    if is_critical(&candidate.pod) {
        return None;
    }
    let (limit, message) = exceeded(candidate)?;
    Some(Verdict { uid: candidate.uid.clone(), grace: AT_ONCE, message, cause: EvictionCause::Exceeded(limit) })
}

#[cfg(test)]
mod tests;
