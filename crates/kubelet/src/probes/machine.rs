//! One probe of one container as a pure state machine.
//!
//! ```text
//!            container runs, and has started           due                 below a threshold
//!  Waiting ────────────────────────────────► Idle ─────────► Running ──────────────────────────► Idle
//!     ▲                                                         │ condemned │ startup succeeded
//!     │ another container                                       ▼
//!     └───────────────────────────────────────────────────── Settled              Stopped: for good
//! ```
//! A verdict belongs to one instance of the container; another instance begins with the initial one. An error (the
//! question could not be asked) is no answer and changes nothing.

use std::time::Duration;

use minke_core::runtime::ContainerId;
use tokio::time::Instant;

use super::{ProbeKind, Timing};

/// What is held to be true of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Unknown,
    /// It is well.
    Success,
    /// It is not.
    Failure,
}

/// What one run of a probe came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is yes.
    Success,
    /// The answer is no, or did not come in time.
    Failure,
    /// The question could not be asked.
    Error,
}

/// The newest instance of the container, as it was observed.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Which.
    pub id: &'a ContainerId,
    /// How long it has been running; `None`: it does not.
    pub running: Option<Duration>,
    /// Its startup probe, if any, has succeeded.
    pub started: bool,
    /// How much later the first run is than it could be.
    pub delay: Duration,
}

/// What a probe does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing can be asked: there is no container that runs and has started.
    Waiting,
    /// Between two runs.
    Idle {
        /// The next.
        due: Instant,
        /// No run before this.
        not_before: Instant,
    },
    /// A run is on its way.
    Running {
        /// Its number.
        run: u64,
        /// When it was due.
        due: Instant,
    },
    /// Nothing is asked until there is another container.
    Settled,
    /// Nothing is asked any more.
    Stopped,
}

/// The machine of one probe.
#[derive(Debug)]
pub struct Machine {
    kind: ProbeKind,
    timing: Timing,
    container: Option<ContainerId>,
    verdict: Verdict,
    /// The last answer and how often it was given in a row.
    streak: (Outcome, u32),
    state: State,
    runs: u64,
}

impl Machine {
    /// A probe that has seen no container.
    #[must_use]
    pub fn new(kind: ProbeKind, timing: Timing) -> Self {
        let (verdict, streak) = (initial(kind), (Outcome::Error, 0));
        Self { kind, timing, container: None, verdict, streak, state: State::Waiting, runs: 0 }
    }

    /// What an earlier agent knew of this container, which is not asked for anew: what was ready stays ready until it
    /// fails, what had started has started, what was condemned is condemned.
    pub fn recover(&mut self, id: ContainerId, verdict: Verdict) {
        self.container = Some(id);
        self.verdict = verdict;
        if self.decided() {
            self.state = State::Settled;
        }
    }

    /// The probe that takes the place of this one while the container runs: what is held of the container stays so until
    /// it is replaced as well, and no answer to this probe counts as one to the next.
    #[must_use]
    pub fn replaced(&self, timing: Timing) -> Self {
        let mut next = Self { runs: self.runs, ..Self::new(self.kind, timing) };
        if let Some(id) = &self.container {
            next.recover(id.clone(), self.verdict);
        }
        next
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ProbeKind {
        self.kind
    }

    /// The timing.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// What it does.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// When [`Machine::begin`] is wanted.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            State::Idle { due, .. } => Some(due),
            State::Waiting | State::Running { .. } | State::Settled | State::Stopped => None,
        }
    }

    /// What is held of this container. Of one that was never observed: the initial verdict.
    #[must_use]
    pub fn verdict(&self, id: &ContainerId) -> Verdict {
        if self.container.as_ref() == Some(id) { self.verdict } else { initial(self.kind) }
    }

    /// The container that it condemns.
    #[must_use]
    pub fn condemned(&self) -> Option<&ContainerId> {
        match self.kind {
            ProbeKind::Startup | ProbeKind::Liveness if self.verdict == Verdict::Failure => self.container.as_ref(),
            ProbeKind::Startup | ProbeKind::Liveness | ProbeKind::Readiness => None,
        }
    }

    /// Whether the verdict on this container is final.
    fn decided(&self) -> bool {
        match self.kind {
            ProbeKind::Startup => self.verdict != Verdict::Unknown,
            ProbeKind::Liveness => self.verdict == Verdict::Failure,
            ProbeKind::Readiness => false,
        }
    }

    /// Takes what was observed of the container. A run that was on its way for another instance, or for one that no
    /// longer runs, no longer counts.
    pub fn observe(&mut self, target: Option<Target<'_>>, now: Instant) {
        if self.state == State::Stopped {
            return;
        }
        let Some(target) = target else {
            if self.state != State::Settled {
                self.state = State::Waiting;
            }
            return;
        };
        if self.container.as_ref() != Some(target.id) {
            self.container = Some(target.id.clone());
            self.verdict = initial(self.kind);
            self.streak = (Outcome::Error, 0);
            self.state = State::Waiting;
        }
        let open = target.started || self.kind == ProbeKind::Startup;
        match (self.state, target.running) {
            (State::Waiting, Some(running)) if open => {
                let not_before = now + self.timing.initial_delay.saturating_sub(running);
                self.state = State::Idle { due: not_before + target.delay, not_before };
            }
            (State::Idle { .. } | State::Running { .. }, Some(_)) if open => {}
            (State::Waiting | State::Idle { .. } | State::Running { .. }, _) => {
                self.state = State::Waiting;
                if self.kind == ProbeKind::Readiness {
                    self.verdict = Verdict::Failure;
                }
            }
            (State::Settled | State::Stopped, _) => {}
        }
    }

    /// A run begins; its number. `None` unless the probe is idle.
    pub fn begin(&mut self) -> Option<u64> {
        let State::Idle { due, .. } = self.state else { return None };
        self.runs += 1;
        self.state = State::Running { run: self.runs, due };
        Some(self.runs)
    }

    /// A run has ended. `None`: it no longer counts. Else whether the verdict changed.
    pub fn ran(&mut self, run: u64, outcome: Outcome, now: Instant) -> Option<bool> {
        let State::Running { run: current, due } = self.state else { return None };
        if current != run {
            return None;
        }
        // A run that took longer than the period is followed by the next at once, and does not shift those after it
        // further than it has to.
        self.state = State::Idle { due: (due + self.timing.period).max(now), not_before: now };
        let (verdict, threshold) = match outcome {
            Outcome::Error => return Some(false),
            Outcome::Success => (Verdict::Success, self.timing.success_threshold),
            Outcome::Failure => (Verdict::Failure, self.timing.failure_threshold),
        };
        let count = if self.streak.0 == outcome { self.streak.1.saturating_add(1) } else { 1 };
        self.streak = (outcome, count);
        if count < threshold {
            return Some(false);
        }
        let before = std::mem::replace(&mut self.verdict, verdict);
        if self.decided() {
            self.state = State::Settled;
        }
        Some(before != verdict)
    }

    /// Someone waits for the first answer of a readiness probe: it is asked for at once.
    pub fn poke(&mut self, now: Instant) {
        if let State::Idle { due, not_before } = self.state
            && self.kind == ProbeKind::Readiness
            && self.streak.1 == 0
        {
            self.state = State::Idle { due: due.min(now.max(not_before)), not_before };
        }
    }

    /// The Pod ends: nothing is asked any more, and nothing is condemned any more. What was said of readiness and
    /// start stays.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        if self.condemned().is_some() {
            self.verdict = initial(self.kind);
        }
    }
}

fn initial(kind: ProbeKind) -> Verdict {
    match kind {
        ProbeKind::Startup => Verdict::Unknown,
        ProbeKind::Readiness => Verdict::Failure,
        ProbeKind::Liveness => Verdict::Success,
    }
}

#[cfg(test)]
mod tests;
