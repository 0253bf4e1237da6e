//! One `minke run`, as a pure machine: inputs are what the agent, the clock and the user do, effects are what the
//! command must do about it.
//!
//! ```text
//!            goal reached, foreground            all ended
//! Waiting ───────────────────────────► Following ─────────► End
//!    │ reached ─► End                      │
//!    │ failed, timed out ─► End            │ interrupt
//!    │   (foreground: Stopping)            ▼
//!    └──────── interrupt ─────────────► Stopping ── all stopped ──► End
//!                                          │ interrupt again: grace 0; a third time: End
//! ```
//!
//! Only what this command started is ever stopped by it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::{PodKey, PodUid};
use minke_core::manifest::PodGroup;
use minke_core::runtime::RuntimeError;
use minke_kubelet::{Admission, PodReport, PodStage, Progress};

use crate::exit::Exit;
use crate::goal::{self, Goal, Standing, Tracked, Trouble, Until};

/// Event reasons that no status shows and that mean the machine can't do what the Pod needs.
const TROUBLES: [&str; 5] =
    ["FailedCreatePodSandBox", "FailedMount", "FailedSync", "FailedPodSandBoxStatus", "FailedKillPod"];

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    /// What to wait for.
    pub(crate) until: Until,
    /// Stay after that, and stop everything at the end.
    pub(crate) foreground: bool,
}

/// What happens to a session.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// The agent has answered for these Pods.
    Admitted(Vec<(PodUid, Admission)>),
    /// All that the agent has; answers that did not come before this are lost.
    All(Vec<PodReport>),
    /// A Pod changed.
    Changed(PodReport),
    /// A Pod was forgotten.
    Removed(PodUid),
    /// For people.
    Progress(Progress),
    /// A signal that asks to end.
    Interrupt(u8),
    /// The time is over.
    TimedOut,
}

/// What a session wants done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Hand these Pods to the agent.
    Apply(Vec<PodUid>),
    /// Stop these Pods.
    Stop {
        /// Which.
        uids: Vec<PodUid>,
        /// Instead of their own grace periods.
        grace: Option<Duration>,
    },
    /// Say this to people.
    Say(String),
    /// End.
    End(Exit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Following,
    Stopping { then: Exit, interrupts: u8 },
    Ended,
}

/// The state of a session.
#[derive(Debug)]
pub(crate) struct Session {
    wish: Wish,
    phase: Phase,
    pods: Vec<Tracked>,
    index: HashMap<PodUid, usize>,
    groups: Vec<Wave>,
    started: HashSet<PodUid>,
    offered_again: HashSet<PodUid>,
    /// Newest reports of Pods that the agent has not answered for: of what an earlier run left, or of a Pod that
    /// runs already and will be left alone.
    before: HashMap<PodUid, PodReport>,
    begun_at: Timestamp,
    goal: Goal,
}

/// The Pods of one group, and how many of them may be unfinished at once.
#[derive(Debug)]
struct Wave {
    pods: Vec<usize>,
    parallelism: usize,
}

impl Session {
    /// A session over the Pods of these groups, begun at this time.
    pub(crate) fn new(groups: &[PodGroup], wish: Wish, begun_at: Timestamp) -> Self {
        let mut session = Self {
            wish,
            phase: Phase::Waiting,
            pods: Vec::new(),
            index: HashMap::new(),
            groups: Vec::new(),
            started: HashSet::new(),
            offered_again: HashSet::new(),
            before: HashMap::new(),
            begun_at,
            goal: Goal::Waiting,
        };
        for group in groups {
            let mut wave = Wave { pods: Vec::new(), parallelism: group.parallelism.max(1) };
            for pod in &group.pods {
                // The manifest layer gives every Pod an identity; one without it can't be told apart from others.
                let Ok(key) = PodKey::of(pod) else { continue };
                wave.pods.push(session.pods.len());
                session.index.insert(key.uid.clone(), session.pods.len());
                session.pods.push(Tracked::queued(key, pod.clone()));
            }
            session.groups.push(wave);
        }
        session
    }

    /// All Pods, in the manifests' order.
    pub(crate) fn pods(&self) -> &[Tracked] {
        &self.pods
    }

    /// How the goal stands.
    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The Pod with this uid.
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<&Tracked> {
        self.index.get(uid).and_then(|i| self.pods.get(*i))
    }

    /// Whether the goal is still ahead.
    pub(crate) fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// The first Pods to hand over.
    #[must_use]
    pub(crate) fn begin(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.launch(&mut effects);
        self.judge(&mut effects);
        effects
    }

    /// Takes in what happened.
    #[must_use]
    pub(crate) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Admitted(answers) => {
                let before = self.live();
                for (uid, admission) in answers {
                    self.admitted(&uid, admission);
                }
                if let Phase::Stopping { interrupts, .. } = self.phase {
                    let uids: Vec<PodUid> = self.live().into_iter().filter(|uid| !before.contains(uid)).collect();
                    effects.extend(stop_effect(uids, interrupts));
                }
            }
            Input::All(reports) => self.all(reports, &mut effects),
            Input::Changed(report) => self.changed(report),
            Input::Removed(uid) => {
                self.before.remove(&uid);
                if let Some(tracked) = self.tracked(&uid)
                    && matches!(tracked.standing, Standing::Applied | Standing::Reported(_))
                {
                    tracked.standing = Standing::Gone;
                }
            }
            Input::Progress(progress) => self.progress(&progress),
            Input::Interrupt(signal) => self.interrupt(signal, &mut effects),
            Input::TimedOut => {
                if self.phase == Phase::Waiting {
                    self.end_or_stop(Exit::Timeout, &mut effects);
                }
            }
        }
        self.launch(&mut effects);
        self.judge(&mut effects);
        effects
    }

    fn tracked(&mut self, uid: &PodUid) -> Option<&mut Tracked> {
        self.index.get(uid).and_then(|i| self.pods.get_mut(*i))
    }

    fn admitted(&mut self, uid: &PodUid, admission: Admission) {
        let ours = match &admission {
            Admission::Accepted => true,
            // It may be there because of an offer whose answer was lost.
            Admission::Unchanged | Admission::Updated => self.offered_again.contains(uid),
            Admission::Rejected { .. } => false,
        };
        if ours {
            self.started.insert(uid.clone());
        }
        let before = self.before.remove(uid);
        let Some(tracked) = self.tracked(uid) else { return };
        tracked.standing = match (admission, before) {
            (Admission::Rejected { reason, message }, _) => Standing::Rejected { reason, message },
            // Nothing changed, so no report will come that is newer than this one.
            (Admission::Unchanged, Some(report)) => Standing::Reported(report),
            // A report that is newer than this follows an update.
            (Admission::Unchanged, None) | (Admission::Updated | Admission::Accepted, _) => Standing::Applied,
        };
    }

    fn all(&mut self, reports: Vec<PodReport>, effects: &mut Vec<Effect>) {
        let mut present = HashSet::new();
        for report in reports {
            let Ok(key) = PodKey::of(&report.pod) else { continue };
            // Taken on since this command began, and its answer lost: it is ours, and offering a Pod that may have
            // ended again would run it twice.
            let begun_at = self.begun_at;
            if let Some(tracked) = self.tracked(&key.uid)
                && tracked.standing == Standing::Offered
                && report.timings.admitted_at.is_some_and(|at| at >= begun_at)
            {
                tracked.standing = Standing::Applied;
                self.started.insert(key.uid.clone());
            }
            present.insert(key.uid);
            self.changed(report);
        }
        let mut again = Vec::new();
        for tracked in &mut self.pods {
            match tracked.standing {
                // Taking a Pod on is durable before it is answered, so one that was answered and is absent was
                // removed.
                Standing::Applied | Standing::Reported(_) if !present.contains(&tracked.key.uid) => {
                    tracked.standing = Standing::Gone;
                }
                Standing::Offered => again.push(tracked.key.uid.clone()),
                Standing::Queued
                | Standing::Applied
                | Standing::Reported(_)
                | Standing::Rejected { .. }
                | Standing::Gone => {}
            }
        }
        match self.phase {
            Phase::Waiting | Phase::Following if !again.is_empty() => {
                self.offered_again.extend(again.iter().cloned());
                effects.push(Effect::Apply(again));
            }
            // The agent that was told to stop them is gone, and may have gone before it wrote that down.
            Phase::Stopping { interrupts, .. } => {
                for uid in again {
                    if let Some(tracked) = self.tracked(&uid) {
                        tracked.standing = Standing::Queued;
                    }
                }
                effects.extend(stop_effect(self.live(), interrupts));
            }
            Phase::Waiting | Phase::Following | Phase::Ended => {}
        }
    }

    fn changed(&mut self, report: PodReport) {
        let Some(uid) = report.pod.metadata.uid.clone().and_then(|uid| PodUid::new(uid).ok()) else { return };
        let Some(tracked) = self.tracked(&uid) else { return };
        match tracked.standing {
            Standing::Queued | Standing::Offered => {
                self.before.insert(uid, report);
            }
            Standing::Rejected { .. } => {}
            Standing::Applied | Standing::Reported(_) | Standing::Gone => {
                if any_started(&report.pod) {
                    tracked.trouble = Trouble::default();
                }
                tracked.standing = Standing::Reported(report);
            }
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let Progress::Event { pod, reason, message, warning, .. } = progress else { return };
        let Some(tracked) = self.tracked(pod) else { return };
        // A kill by a probe is no warning, and the only place where it is told that it was one.
        if *warning || reason == "Killing" {
            tracked.heard(reason, message);
        }
        // While the runtime is away everything fails, and is tried again when it is back: that says nothing of the Pod.
        let away = message.contains(RuntimeError::UNANSWERED);
        if *warning && !away && TROUBLES.contains(&reason.as_str()) {
            tracked.trouble.count += 1;
            tracked.trouble.message = format!("{reason}: {message}");
        }
    }

    fn interrupt(&mut self, signal: u8, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Waiting => self.stop(Exit::Interrupted(signal), effects),
            // In the foreground this is how it ends.
            Phase::Following => self.stop(Exit::Reached, effects),
            Phase::Stopping { then, interrupts: 1 } => {
                effects.push(Effect::Say("killing; once more gives up waiting".to_owned()));
                effects.push(Effect::Stop { uids: self.live(), grace: Some(Duration::ZERO) });
                self.phase = Phase::Stopping { then, interrupts: 2 };
            }
            Phase::Stopping { then, .. } => self.end(then, effects),
            Phase::Ended => {}
        }
    }

    fn stop(&mut self, then: Exit, effects: &mut Vec<Effect>) {
        let uids = self.live();
        if !uids.is_empty() {
            effects.push(Effect::Say(format!("stopping {} pod(s); interrupt again to kill", uids.len())));
            effects.push(Effect::Stop { uids, grace: None });
        }
        self.phase = Phase::Stopping { then, interrupts: 1 };
    }

    fn end_or_stop(&mut self, exit: Exit, effects: &mut Vec<Effect>) {
        if self.wish.foreground { self.stop(exit, effects) } else { self.end(exit, effects) }
    }

    fn end(&mut self, exit: Exit, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        effects.push(Effect::End(exit));
    }

    /// Pods that this command started and that have not ended.
    fn live(&self) -> Vec<PodUid> {
        let live = |tracked: &&Tracked| self.started.contains(&tracked.key.uid) && !has_ended(tracked);
        self.pods.iter().filter(live).map(|t| t.key.uid.clone()).collect()
    }

    /// Hands over the next Pods of each group, as far as its parallelism allows.
    fn launch(&mut self, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Waiting | Phase::Following) {
            return;
        }
        let mut uids = Vec::new();
        for wave in &self.groups {
            let in_flight = |i: &&usize| self.pods[**i].standing != Standing::Queued && !has_ended(&self.pods[**i]);
            let mut free = wave.parallelism.saturating_sub(wave.pods.iter().filter(in_flight).count());
            for i in &wave.pods {
                let tracked = &mut self.pods[*i];
                if free > 0 && tracked.standing == Standing::Queued {
                    tracked.standing = Standing::Offered;
                    uids.push(tracked.key.uid.clone());
                    free -= 1;
                }
            }
        }
        if !uids.is_empty() {
            effects.push(Effect::Apply(uids));
        }
    }

    fn judge(&mut self, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Waiting => {
                self.goal = goal::evaluate(&self.pods, self.wish.until);
                match self.goal.exit() {
                    None => {}
                    Some(Exit::Reached) if self.wish.foreground && self.wish.until == Until::Running => {
                        self.phase = Phase::Following;
                        self.judge(effects);
                    }
                    Some(Exit::Reached) => self.end(Exit::Reached, effects),
                    Some(exit) => self.end_or_stop(exit, effects),
                }
            }
            Phase::Following => {
                let goal = goal::evaluate(&self.pods, Until::Completed);
                if let Some(exit) = goal.exit() {
                    self.goal = goal;
                    self.end(exit, effects);
                }
            }
            Phase::Stopping { .. } | Phase::Ended => {}
        }
        if let Phase::Stopping { then, .. } = self.phase
            && self.live().is_empty()
            && !self.pods.iter().any(|t| t.standing == Standing::Offered)
        {
            self.end(then, effects);
        }
    }
}

fn stop_effect(uids: Vec<PodUid>, interrupts: u8) -> Option<Effect> {
    let grace = (interrupts > 1).then_some(Duration::ZERO);
    (!uids.is_empty()).then_some(Effect::Stop { uids, grace })
}

fn has_ended(tracked: &Tracked) -> bool {
    match &tracked.standing {
        Standing::Queued | Standing::Offered | Standing::Applied => false,
        Standing::Rejected { .. } | Standing::Gone => true,
        Standing::Reported(report) => match report.stage {
            PodStage::Syncing | PodStage::Terminating => false,
            PodStage::Terminated | PodStage::Finished => true,
        },
    }
}

fn any_started(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let all = status.into_iter().flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses).flatten());
    all.filter_map(|s| s.state.as_ref()).any(|s| s.running.is_some() || s.terminated.is_some())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
