//! One set as the controller keeps it: its engine, its claims, and what the engine's commands mean in a cluster. Pure.
//!
//! ```text
//! news of the cluster, jobs, answers ─► Book::handle ─► Engine ─► commands ─► effects, in the cluster's terms
//! ```
//! Whoever performs the effects answers with [`Heard`]. What is made for several Pods at once is made once: their
//! configurations are one Secret a pass, which is deleted when each of its Pods has come online, or is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use minke_core::judgement::Cause;

use super::cluster::Notice;
use super::facts::{changes_at, seen_as};
use super::failures::Failures;
use super::judges::Judges;
use super::messages::{Effect, Heard, PodToMake, words};
use super::objects::{self, NewPod};
use super::stages::Stages;
use super::writes::{Write, Writes};
use crate::claims::{Claim, Claims, Policy, claim_name};
use crate::demand::{JobEvent, Poll, Told};
use crate::engine::{Command, Engine, Input, Seen, Settings, Warning};
use crate::forge::{Registration, Secret as Hidden};
use crate::ids::{RunnerId, Slot};
use crate::life::{Life, Record, Runner, Why};
use crate::set::{self, RunnerSet, RunnerSetStatus};

/// A set that is deleted waits so long for its last registrations.
const LET_GO: SignedDuration = SignedDuration::from_mins(15);
/// A status is written no more often.
const STATUS: SignedDuration = SignedDuration::from_secs(1);

/// One set.
#[derive(Debug)]
pub struct Book {
    set: Arc<RunnerSet>,
    settings: Settings,
    engine: Engine,
    pods: BTreeMap<Slot, Arc<Pod>>,
    judges: Judges,
    failures: Failures,
    claims: Claims,
    closed: BTreeSet<Slot>,
    /// Configurations of runners that are not online yet, with their names at the forge.
    given: BTreeMap<RunnerId, (String, Hidden)>,
    /// Secrets, and who still needs them.
    secrets: BTreeMap<String, BTreeSet<RunnerId>>,
    /// Those of them that are known to be there.
    confirmed: BTreeSet<String>,
    /// Which life of the controller this is: its label on them.
    session: String,
    writes: Writes,
    stages: Stages,
    /// What was last written as the status, and when; not while it is on its way.
    status: Option<(RunnerSetStatus, Timestamp)>,
    status_flies: bool,
    listed: bool,
    claim_wake: Option<Timestamp>,
    finalizer: Option<bool>,
    /// Since when nothing is left of a set that is deleted, but what may be at the forge.
    emptied: Option<Timestamp>,
    /// What is wrong with the set as it is written now.
    invalid: Option<String>,
}

impl Book {
    /// A set of which nothing is known but what it is to be.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn new(set: Arc<RunnerSet>) -> Result<Self, String> {
        let status = set.status.clone().map(|status| (status, Timestamp::MIN));
        let settings = set::settings_or_none(&set)?;
        Ok(Self {
            engine: Engine::new(settings.clone()),
            settings,
            set,
            pods: BTreeMap::new(),
            judges: Judges::default(),
            failures: Failures::default(),
            claims: Claims::default(),
            closed: BTreeSet::new(),
            given: BTreeMap::new(),
            secrets: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            session: String::new(),
            writes: Writes::default(),
            stages: Stages::default(),
            status,
            status_flies: false,
            listed: false,
            claim_wake: None,
            finalizer: None,
            emptied: None,
            invalid: None,
        })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The set as it was last seen.
    #[must_use]
    pub fn set(&self) -> &Arc<RunnerSet> {
        &self.set
    }

    /// How many claims there are.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    /// Takes everything that was heard since the last call, and decides once.
    pub fn handle(&mut self, heard: impl IntoIterator<Item = Heard>, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut inputs = Vec::new();
        for heard in heard {
            self.take(heard, now, &mut inputs, &mut effects);
        }
        self.look_again(now, &mut inputs);
        self.plan_claims(now, &mut inputs, &mut effects);
        let commands = self.engine.handle(inputs, now);
        self.perform(commands, now, &mut effects);
        let took = self.stages.observe(&self.engine, now);
        effects.extend(took.into_iter().map(|(stage, took)| Effect::Took(stage, took)));
        for failed in self.failures.observe(&self.engine) {
            effects.push(Effect::Failed { cause: failed.cause(), category: failed.category() });
            let notice = self.notice(failed.slot, failed.uid.clone(), "RunnerFailed", failed.message());
            effects.push(Effect::Notice(notice));
        }
        self.spoil_claims();
        self.tidy_secrets(&mut effects);
        self.keep_finalizer(now, &mut effects);
        self.report(now, &mut effects);
        effects
    }

    /// When [`Book::handle`] is wanted if nothing is heard before.
    #[must_use]
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let pods = self.pods.values().filter_map(|pod| changes_at(pod, now)).min();
        let status = self.status_wake(now);
        let let_go = self.emptied.map(|emptied| emptied + LET_GO).filter(|_| self.finalizer != Some(false));
        let judges = self.judges.wake();
        [self.engine.wake(), self.claim_wake, pods, judges, status, let_go].into_iter().flatten().min()
    }

    fn name(&self) -> &str {
        &self.settings.set
    }

    fn take(&mut self, heard: Heard, now: Timestamp, inputs: &mut Vec<Input>, effects: &mut Vec<Effect>) {
        match heard {
            Heard::Pods(pods) => {
                let own = pods.into_iter().filter_map(|pod| Some((self.seen(&pod, now)?, pod)));
                let (seen, pods): (Vec<_>, Vec<_>) = own.unzip();
                self.pods = seen.iter().map(|seen| seen.slot).zip(pods).collect();
                self.judges.retain(&self.pods.keys().copied().collect());
                inputs.push(Input::Listed(seen));
                if !self.listed {
                    self.listed = true;
                    self.secrets = objects::needed(self.pods.values());
                    self.confirmed = self.secrets.keys().cloned().collect();
                    self.session = format!("{:x}", now.as_millisecond());
                    let keep = self.secrets.keys().cloned().collect();
                    effects.push(Effect::SweepSecrets { keep, session: self.session.clone() });
                }
            }
            Heard::Pod(pod) => {
                if let Some(seen) = self.seen(&pod, now) {
                    self.pods.insert(seen.slot, pod);
                    inputs.push(Input::Pod(seen));
                }
            }
            Heard::PodGone(pod) => {
                let (name, uid) = (pod.metadata.name.as_deref(), pod.metadata.uid.clone());
                let slot = name.and_then(|name| Slot::of_pod(self.name(), name));
                if let (Some(slot), Some(uid)) = (slot, uid) {
                    if self.pods.get(&slot).is_some_and(|known| known.metadata.uid.as_ref() == Some(&uid)) {
                        self.pods.remove(&slot);
                    }
                    self.writes.gone(slot, &uid);
                    self.judges.forget(slot, &uid);
                    inputs.push(Input::PodGone { slot, uid });
                }
            }
            Heard::Claims(claims) => {
                let own: Vec<Claim> = claims.iter().filter_map(|claim| Claim::of(self.name(), claim)).collect();
                self.claims.listed(own);
            }
            Heard::Claim(claim) => {
                if let Some(claim) = Claim::of(self.name(), &claim) {
                    self.claims.seen(claim);
                }
            }
            Heard::ClaimGone(claim) => {
                if let Some(claim) = Claim::of(self.name(), &claim) {
                    self.claims.gone(claim.slot, &claim.uid);
                }
            }
            Heard::Set(set) => {
                let (set, settings) = set::changed(&self.set, set);
                match settings {
                    Ok(settings) => {
                        self.settings = settings;
                        self.invalid = None;
                        inputs.push(Input::Settings(Box::new(self.settings.clone())));
                        self.set = set;
                    }
                    // What is valid goes on until the rest is.
                    Err(problems) => {
                        self.invalid = Some(problems);
                        let spec = self.set.spec.clone();
                        self.set = Arc::new(RunnerSet { spec, ..set.as_ref().clone() });
                    }
                }
                self.finalizer = None;
            }
            Heard::Told(told) => inputs.push(told_input(told)),
            Heard::Runners { began, runners } => {
                inputs.push(Input::Runners { began, runners: runners.as_ref().clone() });
            }
            Heard::Registered { slot, name, outcome } => {
                let outcome = outcome.map(|Registration { id, configuration }| {
                    self.given.insert(id, (name.clone(), configuration));
                    id
                });
                inputs.push(Input::Registered { slot, name, outcome });
            }
            Heard::SecretMade(name) => drop(self.confirmed.insert(name)),
            Heard::Created { slot, id, outcome } => inputs.push(Input::Created { slot, id, outcome }),
            Heard::Removed { id, outcome } => inputs.push(Input::Removed { id, outcome }),
            Heard::Written { slot, again } => {
                if let Some(write) = self.writes.finished(slot, again) {
                    effects.push(self.write(write));
                }
            }
            Heard::StatusWritten { good } => {
                self.status_flies = false;
                if !good {
                    self.status = self.status.take().map(|(_, at)| (RunnerSetStatus::default(), at));
                }
            }
        }
    }

    /// A Pod as the engine knows it; `None`: it is none of the set's own.
    fn seen(&mut self, pod: &Pod, now: Timestamp) -> Option<Seen> {
        let slot = Slot::of_pod(self.name(), pod.metadata.name.as_deref()?)?;
        let view = self.judges.look(slot, pod, now);
        seen_as(slot, pod, view, now)
    }

    /// Pods whose facts change by time alone.
    fn look_again(&mut self, now: Timestamp, inputs: &mut Vec<Input>) {
        let overdue = |pod: &Pod| pod.metadata.deletion_timestamp.is_some() && changes_at(pod, now).is_none();
        let mut slots: BTreeSet<Slot> = self.judges.due(now).into_iter().collect();
        slots.extend(self.pods.iter().filter(|(_, pod)| overdue(pod)).map(|(slot, _)| *slot));
        let pods: Vec<Arc<Pod>> = slots.iter().filter_map(|slot| self.pods.get(slot).cloned()).collect();
        inputs.extend(pods.iter().filter_map(|pod| self.seen(pod, now)).map(Input::Pod));
    }

    fn plan_claims(&mut self, now: Timestamp, inputs: &mut Vec<Input>, effects: &mut Vec<Effect>) {
        let mut occupied: BTreeSet<Slot> = self.engine.runners().map(|runner| runner.slot).collect();
        occupied.extend(self.pods.keys());
        let mut policy = Policy::of(&self.set.spec);
        if self.deleting() {
            policy.template = None;
        }
        let plan = self.claims.plan(&policy, &occupied, now);
        self.claim_wake = plan.wake_at;
        for (slot, uid) in plan.delete {
            // It is on its way out from now on, whatever a stale cache says.
            self.claims.deleting(slot, &uid);
            effects.push(Effect::DeleteClaim { name: claim_name(self.name(), slot), uid });
        }
        if plan.closed != self.closed {
            self.closed = plan.closed;
            inputs.push(Input::Closed(self.closed.clone()));
        }
    }

    fn perform(&mut self, commands: Vec<Command>, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut new = Vec::new();
        for command in commands {
            match command {
                Command::Register { slot, name } => effects.push(Effect::Register { slot, name }),
                Command::CreatePod { slot, id, record } => new.push((slot, id, record)),
                Command::Persist { slot, uid, record } => {
                    if let Some(write) = self.writes.submit(slot, uid, record) {
                        effects.push(self.write(write));
                    }
                }
                Command::Remove { id } => effects.push(Effect::Remove { id }),
                Command::DeletePod { slot, uid } => {
                    effects.push(Effect::Delete { pod: slot.pod_name(self.name()), uid, force: false });
                }
                Command::ForceDelete { slot, uid } => {
                    effects.push(Effect::Delete { pod: slot.pod_name(self.name()), uid, force: true });
                }
                Command::ListRunners => effects.push(Effect::ListRunners),
                Command::Warn { slot, warning } => effects.extend(self.warn(slot, warning).map(Effect::Notice)),
            }
        }
        self.create(&new, now, effects);
    }

    /// Pods whose configurations are in a Secret already (the answer to their creation was lost) are made from that one; if
    /// nobody knows whether it is there, from another, and what there may be goes.
    fn create(&mut self, new: &[(Slot, RunnerId, Record)], now: Timestamp, effects: &mut Vec<Effect>) {
        let confirmed = &self.confirmed;
        for (_, ids) in self.secrets.iter_mut().filter(|(name, _)| !confirmed.contains(*name)) {
            ids.retain(|id| !new.iter().any(|(_, again, _)| again == id));
        }
        let in_secret = |secrets: &BTreeMap<String, BTreeSet<RunnerId>>, id: RunnerId| {
            secrets.iter().find(|(_, ids)| ids.contains(&id)).map(|(name, _)| name.clone())
        };
        let fresh: Vec<RunnerId> =
            new.iter().map(|(_, id, _)| *id).filter(|id| in_secret(&self.secrets, *id).is_none()).collect();
        let Some(first) = new.first().map(|(_, id, _)| *id) else { return };
        // A name that no other batch has: the registration is this one's alone, and the time tells tries apart.
        let batch = format!("{}-jit-{first}-{:x}", self.name(), now.as_millisecond());
        let configurations: Vec<(RunnerId, Hidden)> =
            fresh.iter().filter_map(|id| Some((*id, self.given.get(id)?.1.clone()))).collect();
        if !configurations.is_empty() {
            self.secrets.insert(batch.clone(), configurations.iter().map(|(id, _)| *id).collect());
        }
        let secret = (!configurations.is_empty())
            .then(|| Box::new(objects::configurations(&self.set, &batch, &self.session, &configurations)));
        let policy = Policy::of(&self.set.spec);
        let mut pods = Vec::new();
        for (slot, id, record) in new {
            let (Some(secret), Some((runner, _))) = (in_secret(&self.secrets, *id), self.given.get(id)) else {
                continue;
            };
            let new = NewPod { slot: *slot, record, runner, id: *id, secret: &secret };
            let pod = Box::new(objects::pod(&self.set, new));
            let claim = policy.template.as_ref().filter(|_| !self.claims.has(*slot));
            let claim = claim.and_then(|hash| objects::claim(&self.set, *slot, hash)).map(Box::new);
            pods.push(PodToMake { slot: *slot, id: *id, pod, claim });
        }
        effects.push(Effect::Create { secret, pods });
    }

    fn write(&self, write: Write) -> Effect {
        let patch = objects::state_patch(&write.uid, &write.record);
        Effect::Write { pod: write.slot.pod_name(self.name()), write, patch }
    }

    fn warn(&self, slot: Slot, warning: Warning) -> Option<Notice> {
        let uid = self.pods.get(&slot).and_then(|pod| pod.metadata.uid.clone())?;
        let (reason, message) = words(warning);
        Some(self.notice(slot, uid, reason, message.to_owned()))
    }

    fn notice(&self, slot: Slot, uid: String, reason: &'static str, message: String) -> Notice {
        let namespace = self.set.metadata.namespace.clone().unwrap_or_default();
        Notice { namespace, kind: "Pod", name: slot.pod_name(self.name()), uid, reason, message }
    }

    /// A claim on which a Pod never started may be why, unless that is known to be something else.
    fn spoil_claims(&mut self) {
        let by_claim = |runner: &&Runner| {
            matches!(
                runner.life.why(),
                Some(
                    Why::NeverStarted
                        | Why::NeverWorks(Cause::VolumeMissing | Cause::VolumeAttach | Cause::VolumeMount)
                )
            )
        };
        let spoilt: Vec<Slot> = self.engine.runners().filter(by_claim).map(|runner| runner.slot).collect();
        for slot in spoilt {
            self.claims.spoil(slot);
        }
    }

    /// A configuration is good for one start: once its runner is online, or gone, nobody needs it.
    fn tidy_secrets(&mut self, effects: &mut Vec<Effect>) {
        let unstarted =
            |runner: &Runner| runner.pod.as_ref().is_none_or(|pod| pod.running_since.is_none() && pod.ended.is_none());
        let waits = |runner: &Runner| match runner.life {
            Life::Registered { id } => Some(id),
            // Its Pod may be starting, and must not hang for want of it.
            Life::Draining { id, .. } => unstarted(runner).then_some(id),
            Life::Requested | Life::Idle { .. } | Life::Busy { .. } | Life::Deregistered { .. } | Life::Gone => None,
        };
        let waiting: BTreeSet<RunnerId> = self.engine.runners().filter_map(waits).collect();
        self.given.retain(|id, _| waiting.contains(id));
        if !self.listed {
            return;
        }
        self.secrets.retain(|name, ids| {
            ids.retain(|id| waiting.contains(id));
            if ids.is_empty() {
                effects.push(Effect::DeleteSecret { name: name.clone() });
            }
            !ids.is_empty()
        });
        let secrets = &self.secrets;
        self.confirmed.retain(|name| secrets.contains_key(name));
    }

    fn deleting(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// The set stays until its runners are gone and a list of the forge has none of theirs; if the forge can't be asked, until
    /// that has been tried for long.
    fn keep_finalizer(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let here = self.engine.runners().next().is_some() || !self.pods.is_empty() || !self.claims.is_empty();
        if !self.deleting() || here || !self.listed {
            self.emptied = None;
            if !self.deleting() && self.finalizer != Some(true) {
                self.finalizer = Some(true);
                effects.extend(objects::set_finalizer_patch(&self.set, true).map(|patch| Effect::PatchSet { patch }));
            }
            return;
        }
        let emptied = *self.emptied.get_or_insert(now);
        let clean = self.engine.clean().is_some_and(|clean| emptied <= clean);
        let gives_up = emptied + LET_GO <= now;
        if !clean && !gives_up {
            self.engine.look();
            return;
        }
        if self.finalizer == Some(false) {
            return;
        }
        self.finalizer = Some(false);
        if !clean {
            let metadata = &self.set.metadata;
            effects.push(Effect::Notice(Notice {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                kind: "RunnerSet",
                name: self.settings.set.clone(),
                uid: metadata.uid.clone().unwrap_or_default(),
                reason: "RegistrationsLeft",
                message: "the set goes, and registrations of its runners may stay at GitHub: it could not be asked"
                    .to_owned(),
            }));
        }
        effects.extend(objects::set_finalizer_patch(&self.set, false).map(|patch| Effect::PatchSet { patch }));
    }

    fn report(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if !self.listed || self.status_flies {
            return;
        }
        let status = self.new_status(now);
        match &self.status {
            Some((written, _)) if *written == status => {}
            Some((_, at)) if now < at.saturating_add(STATUS).unwrap_or(*at) => {}
            Some(_) | None => {
                self.status = Some((status.clone(), now));
                self.status_flies = true;
                effects.push(Effect::Status(Box::new(status)));
            }
        }
    }

    fn new_status(&self, now: Timestamp) -> RunnerSetStatus {
        let written = self.status.as_ref().map(|(status, _)| status);
        let status = set::status(&self.set, written, &self.engine, now);
        match &self.invalid {
            None => status,
            Some(problems) => set::invalid_status(&self.set, Some(status), problems, now),
        }
    }

    /// A status that was held back is written when its time has come.
    fn status_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let (written, at) = self.status.as_ref().filter(|_| self.listed && !self.status_flies)?;
        (self.new_status(now) != *written).then(|| at.saturating_add(STATUS).unwrap_or(now))
    }
}

fn told_input(told: Told) -> Input {
    match told {
        Told::Job(event @ JobEvent { .. }) => Input::Job(event),
        Told::Elsewhere(job) => Input::Elsewhere(job),
        Told::Polled(poll @ Poll { .. }) => Input::Polled(poll),
    }
}

#[cfg(test)]
mod tests;
