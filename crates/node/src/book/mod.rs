//! All Pods of a node: who is here, under which name, what they refer to. Routes what happens to the machine that it concerns,
//! and completes what the machine decides. Pure, as the machines are.
//!
//! - **A uid is a Pod**: an object with another uid under a known name means that the former one is gone.
//! - **Absence is doubted**: a Pod that a list lacks, or that only the provider has, is ended only after a direct look at the
//!   API, a grace after the list, and never many at once ([`doubts`]). A deletion that the watch tells of is believed.
//! - **Environments are made once** for each container: what a ConfigMap becomes later changes volumes, not what runs.

mod doubts;
mod prepare;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::provider::{DesiredPod, Environment, HeldPod};
use tokio::time::Instant;

use crate::Now;
use crate::environment::NodeFacts;
use crate::pod::{Action, Call, CallResult, Lane, PodEvent, PodMachine, Wish, Write};
use crate::queue::{Outcome, Urgency};
use crate::references::{Known, ObjectRef, References, Watches};

use doubts::Doubts;
pub use doubts::{Caution, Implausible};
use prepare::{Given, Prepared};

type Name = (Arc<str>, Arc<str>);

/// A call on the provider, complete.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderCall {
    /// Create this; `raw` is how the API has it.
    Create {
        /// What the provider gets.
        pod: DesiredPod,
        /// As it is in the API.
        raw: Arc<Pod>,
    },
    /// Make it this.
    Update {
        /// What the provider gets.
        pod: DesiredPod,
        /// As it is in the API.
        raw: Arc<Pod>,
    },
    /// End it.
    Delete(Duration),
    /// Look.
    Get,
}

/// What is to be done about a Pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Give it a turn.
    Look(PodKey, Lane, Urgency, Instant),
    /// Its turn is over.
    Finish(PodKey, Lane, Outcome),
    /// Call the provider.
    Call(PodKey, ProviderCall),
    /// Write to the API.
    Write(PodKey, Write),
    /// Record an event.
    Tell {
        /// About it.
        pod: Arc<Pod>,
        /// Something is wrong.
        warning: bool,
        /// Upstream's.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// Nothing is left of it.
    Forget(PodKey),
    /// Other objects are of interest now.
    Watch(Watches),
}

/// The Pods. See the module.
#[derive(Debug)]
pub struct Book {
    node: NodeFacts,
    environment: Environment,
    pods: HashMap<PodKey, PodMachine>,
    names: HashMap<Name, Vec<PodKey>>,
    /// What the provider has and no machine knows of yet.
    found: HashMap<PodKey, Arc<Pod>>,
    /// Their names; what is not in [`Self::found`] any more does not count.
    found_names: HashMap<Name, Vec<PodKey>>,
    references: References,
    given: HashMap<PodKey, Given>,
    doubts: Doubts,
    revision: u64,
}

fn name_of(key: &PodKey) -> Name {
    (key.namespace.clone(), key.name.clone())
}

impl Book {
    /// An empty book for a node.
    #[must_use]
    pub fn new(node: NodeFacts, environment: Environment, caution: Caution) -> Self {
        Self {
            node,
            environment,
            pods: HashMap::new(),
            names: HashMap::new(),
            found: HashMap::new(),
            found_names: HashMap::new(),
            references: References::default(),
            given: HashMap::new(),
            doubts: Doubts::new(caution),
            revision: 0,
        }
    }

    /// How many Pods are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The machine of a Pod.
    #[must_use]
    pub fn pod(&self, key: &PodKey) -> Option<&PodMachine> {
        self.pods.get(key)
    }

    /// The provider's list: at the start before anything else, and in each sweep. Pods of other nodes are none of ours.
    pub fn swept(&mut self, held: Vec<HeldPod>, asked: Instant, now: Now) -> Vec<Effect> {
        let own = |held: &HeldPod| {
            held.pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).is_none_or(|name| name == self.node.name)
        };
        let mut listed: HashMap<PodKey, Arc<Pod>> =
            held.into_iter().filter(own).map(|held| (held.key, held.pod)).collect();
        let mut effects = Vec::new();
        let known: Vec<PodKey> = self.pods.keys().cloned().collect();
        for key in known {
            let held = listed.remove(&key);
            effects.extend(self.event(&key, PodEvent::Listed { held, asked }, now));
        }
        self.found = listed;
        self.found_names.clear();
        for key in self.found.keys() {
            self.found_names.entry(name_of(key)).or_default().push(key.clone());
        }
        // A name is one Pod's at a time: who has it now is not in doubt, so neither is who had it.
        let live = |key: &PodKey| self.others(key).any(|other| other.wish() != Wish::Gone);
        let former: Vec<PodKey> = self.found.keys().filter(|key| live(key)).cloned().collect();
        for key in former {
            effects.extend(self.gone(&key, now));
        }
        self.doubts.keep(|key| self.pods.contains_key(key) || self.found.contains_key(key));
        for key in self.found.keys() {
            self.doubts.raise(key, now.instant);
        }
        effects
    }

    /// The API's list of this node's Pods.
    pub fn listed(&mut self, pods: Vec<Arc<Pod>>, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut present = HashSet::new();
        for pod in pods {
            present.extend(PodKey::of(&pod).ok());
            effects.extend(self.seen(pod, now));
        }
        let missing = self.pods.values().filter(|pod| pod.wish() != Wish::Gone && !present.contains(pod.key()));
        for pod in missing {
            self.doubts.raise(pod.key(), now.instant);
        }
        effects
    }

    /// The API has a Pod like this.
    pub fn seen(&mut self, pod: Arc<Pod>, now: Now) -> Vec<Effect> {
        let key = match PodKey::of(&pod) {
            Ok(key) => key,
            Err(error) => {
                tracing::warn!(%error, "the API sent a pod without identity; ignored");
                return Vec::new();
            }
        };
        self.doubts.settle(&key);
        let mut effects = Vec::new();
        let name = name_of(&key);
        let former = [self.names.get(&name), self.found_names.get(&name)].into_iter().flatten().flatten();
        let former: Vec<PodKey> = former.filter(|former| former.uid != key.uid).cloned().collect();
        for former in former {
            effects.extend(self.gone(&former, now));
        }
        effects.push(Effect::Watch(self.references.follow(&key, &pod)));
        if self.pods.contains_key(&key) {
            effects.extend(self.event(&key, PodEvent::Seen(pod), now));
            return effects;
        }
        let held = self.found.remove(&key);
        let (machine, actions) = PodMachine::new(key.clone(), pod, held, now);
        self.insert(&key, machine, actions, &mut effects, now);
        effects
    }

    /// The API has a Pod no more. Known by its key alone, so that a tombstone will do.
    pub fn gone(&mut self, key: &PodKey, now: Now) -> Vec<Effect> {
        self.doubts.settle(key);
        if self.pods.contains_key(key) {
            return self.event(key, PodEvent::Gone, now);
        }
        let Some(held) = self.found.remove(key) else { return Vec::new() };
        let mut effects = Vec::new();
        let (machine, actions) = PodMachine::leftover(key.clone(), held, now);
        self.insert(key, machine, actions, &mut effects, now);
        effects
    }

    /// Which Pods to look for in the API, since a list lacked them and their grace is over: [`Self::gone`] or
    /// [`Self::seen`] ends the doubt.
    ///
    /// # Errors
    /// [`Implausible`]: so many are missing that the list is doubted rather than the Pods.
    pub fn doubtful(&self, now: Instant) -> Result<Vec<PodKey>, Implausible> {
        self.doubts.due(now, self.pods.len() + self.found.len())
    }

    /// When [`Self::doubtful`] has something new to say.
    #[must_use]
    pub fn next_doubt(&self) -> Option<Instant> {
        self.doubts.next()
    }

    /// Something was learned of an object that Pods refer to.
    pub fn learned(&mut self, reference: &ObjectRef, known: Known, now: Now) -> Vec<Effect> {
        let users = self.references.learned(reference, known);
        self.revision += 1;
        let revision = self.revision;
        users.iter().flat_map(|key| self.event(key, PodEvent::ObjectsChanged(revision), now)).collect()
    }

    /// A lane of a Pod has its turn.
    pub fn turn(&mut self, key: &PodKey, lane: Lane, now: Now) -> Vec<Effect> {
        if !self.pods.contains_key(key) {
            return vec![Effect::Finish(key.clone(), lane, Outcome::Done), Effect::Forget(key.clone())];
        }
        match lane {
            Lane::Api => self.event(key, PodEvent::ApiTurn, now),
            Lane::Provider => {
                let clear = self.references.ready(key) && !self.others(key).any(PodMachine::is_held);
                self.event(key, PodEvent::ProviderTurn { clear }, now)
            }
        }
    }

    /// Something happened to a Pod. What the provider says of one that the API did not speak of yet is kept for it.
    pub fn event(&mut self, key: &PodKey, event: PodEvent, now: Now) -> Vec<Effect> {
        let Some(machine) = self.pods.get_mut(key) else {
            match (self.found.get_mut(key), event) {
                (Some(found), PodEvent::Status(status)) => Arc::make_mut(found).status = Some(*status),
                (Some(_), PodEvent::Forgotten) => drop(self.found.remove(key)),
                (Some(_), _) | (None, _) => {}
            }
            return Vec::new();
        };
        let was_held = machine.is_held();
        let actions = machine.step(event, now);
        let is_held = machine.is_held();
        let mut effects = Vec::new();
        self.complete(key, actions, &mut effects, now);
        if was_held && !is_held {
            self.way_is_clear(key, &mut effects, now);
        }
        effects
    }

    fn insert(&mut self, key: &PodKey, machine: PodMachine, actions: Vec<Action>, effects: &mut Vec<Effect>, now: Now) {
        self.names.entry(name_of(key)).or_default().push(key.clone());
        self.pods.insert(key.clone(), machine);
        self.complete(key, actions, effects, now);
    }

    /// The other Pods of the same name.
    fn others(&self, key: &PodKey) -> impl Iterator<Item = &PodMachine> {
        let named = self.names.get(&name_of(key)).into_iter().flatten();
        named.filter(move |other| *other != key).filter_map(|other| self.pods.get(other))
    }

    fn way_is_clear(&self, key: &PodKey, effects: &mut Vec<Effect>, now: Now) {
        let look = |other: &PodMachine| Effect::Look(other.key().clone(), Lane::Provider, Urgency::Cure, now.instant);
        effects.extend(self.others(key).map(look));
    }

    /// Turns a machine's actions into effects.
    fn complete(&mut self, key: &PodKey, actions: Vec<Action>, effects: &mut Vec<Effect>, now: Now) {
        for action in actions {
            match action {
                Action::Look(lane, urgency, at) => effects.push(Effect::Look(key.clone(), lane, urgency, at)),
                Action::Finish(lane, outcome) => effects.push(Effect::Finish(key.clone(), lane, outcome)),
                Action::Write(write) => effects.push(Effect::Write(key.clone(), write)),
                Action::Tell { warning, reason, message } => {
                    let Some(machine) = self.pods.get(key) else { continue };
                    effects.push(Effect::Tell { pod: machine.object().clone(), warning, reason, message });
                }
                Action::Call(call) => self.call(key, call, effects, now),
                Action::Drop => {
                    self.forget(key);
                    effects.push(Effect::Forget(key.clone()));
                    effects.push(Effect::Watch(self.references.leave(key)));
                    self.way_is_clear(key, effects, now);
                }
            }
        }
    }

    fn call(&mut self, key: &PodKey, call: Call, effects: &mut Vec<Effect>, now: Now) {
        let (raw, unless, creates) = match call {
            Call::Delete(grace) => return effects.push(Effect::Call(key.clone(), ProviderCall::Delete(grace))),
            Call::Get => return effects.push(Effect::Call(key.clone(), ProviderCall::Get)),
            Call::Create(raw) => (raw, None, true),
            Call::Update { pod, unless } => (pod, unless, false),
        };
        let (told, prepared) =
            prepare::prepare(key, &raw, self.given.get(key), &self.references, &self.node, self.environment);
        for told in told {
            let (reason, message) = (told.reason, told.message);
            effects.push(Effect::Tell { pod: raw.clone(), warning: true, reason, message });
        }
        let result = match prepared {
            Ok(Prepared { sent: pod, given }) => {
                self.given.insert(key.clone(), given);
                if unless.is_none_or(|theirs| crate::pod::differs_resolved(&theirs, &pod)) {
                    let objects = Arc::new(self.references.objects(key));
                    let pod = DesiredPod { pod, objects };
                    let call = match creates {
                        true => ProviderCall::Create { pod, raw },
                        false => ProviderCall::Update { pod, raw },
                    };
                    return effects.push(Effect::Call(key.clone(), call));
                }
                CallResult::Applied { pod: raw, called: false }
            }
            Err(trouble) => CallResult::Failed { trouble, perhaps: false },
        };
        effects.extend(self.event(key, PodEvent::Called(result), now));
    }

    fn forget(&mut self, key: &PodKey) {
        self.pods.remove(key);
        self.given.remove(key);
        self.doubts.settle(key);
        let name = name_of(key);
        if let Some(named) = self.names.get_mut(&name) {
            named.retain(|other| other != key);
            if named.is_empty() {
                self.names.remove(&name);
            }
        }
    }
}
