//! The watching core of one scope: a synchronous machine over inputs of the cluster, of subscribers and of time.
//!
//! ```text
//! Probing ─► Listing ─► Watching ──(ended, cut, silent too long)──► Watching again from its version
//!    │          ▲          │ 410                └─(unreachable)─► Resting ─► Watching or Listing
//!    │          └──────────┘
//!    ├─ only get allowed ─► Polling ──(a minute)──► Probing
//!    └─ nothing allowed ──► Blind ────(a minute)──► Probing
//! ```
//!
//! Level-triggered: what counts is the last object, judged on subscribing, on every change, after every list and when a
//! budget ends. Absence after a complete list is a deletion; nothing depends on receiving one. A Pod that leaves a
//! selector's scope is asked for by name before it counts as gone. Every list and stream has a number, so that answers to
//! questions of yesterday change nothing.

mod extras;
mod link;
mod subscriber;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use minke_core::judgement::{Now, Presence};

use link::{ANSWER, Link};
use subscriber::Subscriber;
pub use types::{
    Access, Action, ApiFault, Counters, Input, Observer, Report, Scope, Settings, SubscriberId, Target, Whereabouts,
};

/// Namespace and name.
type Name = (String, String);

/// See the module.
#[derive(Debug)]
pub struct Machine {
    scope: Scope,
    settings: Settings,
    link: Link,
    /// Failures in a row, for the back-off.
    failures: u32,
    /// A complete list has been seen.
    synced: bool,
    /// Since when what is known may be out of date.
    blind_since: Option<Duration>,
    asks: u64,
    /// When questions for Pods by name were asked that have no answer yet.
    questions: BTreeMap<u64, Duration>,
    /// Up to when everything in the scope is known: the newest sign of the watch, or the list that it began with.
    known_at: Duration,
    pods: BTreeMap<Name, Arc<Pod>>,
    nodes: BTreeMap<String, (Duration, Option<Arc<Node>>)>,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    by_name: BTreeMap<Name, BTreeSet<SubscriberId>>,
    wakes: BTreeSet<(Duration, SubscriberId)>,
    ids: SubscriberId,
    observer: Observer,
    events_asked: Option<Duration>,
    /// Who wants events and has to wait for a turn.
    puzzled: VecDeque<SubscriberId>,
    rotation: SubscriberId,
    counters: Counters,
}

fn name_of(pod: &Pod) -> Name {
    let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (namespace, pod.metadata.name.clone().unwrap_or_default())
}

/// Resource versions of one resource are numbers that grow; those that are none can't be compared.
fn version_of(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}

/// Versions grow over all Pods of a cluster, whoever has the name.
fn is_older(a: &Pod, b: &Pod) -> bool {
    version_of(a).zip(version_of(b)).is_some_and(|(a, b)| a < b)
}

impl Machine {
    /// A machine that has not begun; the first [`Input::Tick`] starts it.
    #[must_use]
    pub fn new(scope: Scope, mut settings: Settings) -> Self {
        if settings.events_every.is_none() {
            // Nothing that is not read explains anything.
            settings.policy.budgets.explain = Duration::ZERO;
        }
        Self {
            scope,
            settings,
            link: Link::Idle,
            failures: 0,
            synced: false,
            blind_since: None,
            asks: 0,
            questions: BTreeMap::new(),
            known_at: Duration::ZERO,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            by_name: BTreeMap::new(),
            wakes: BTreeSet::new(),
            ids: 0,
            observer: Observer::Starting,
            events_asked: None,
            puzzled: VecDeque::new(),
            rotation: 0,
            counters: Counters::default(),
        }
    }

    /// What it asked of the cluster so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many subscribers there are, Pods of a scope that is followed included.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.subscribers.len()
    }

    /// How many Pods are kept.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// How well the cluster is seen.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// The next moment at which it wants a [`Input::Tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        let subscribers = self.wakes.first().map(|(at, _)| *at);
        [self.link_wake(), subscribers, self.explain_at()].into_iter().flatten().min()
    }

    /// Takes an input, returns what is to be done.
    #[must_use]
    pub fn handle(&mut self, input: Input, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Tick => {}
            Input::Probed(access) => self.probed(access, now, &mut actions),
            Input::Listed { ask, pods, version } => self.listed(ask, pods, version, now, &mut actions),
            Input::ListFailed { ask, fault } => self.list_failed(ask, fault, now, &mut actions),
            Input::Seen { stream, pod } => {
                if self.heard(stream, pod.metadata.resource_version.clone(), now) {
                    self.see(*pod, now, &mut actions);
                }
            }
            Input::Gone { stream, pod } => {
                if self.heard(stream, pod.metadata.resource_version.clone(), now) {
                    self.left(*pod, now, &mut actions);
                }
            }
            Input::Bookmark { stream, version } => {
                let _ = self.heard(stream, Some(version), now);
            }
            Input::WatchEnded { stream } => self.watch_ended(stream, now, &mut actions),
            Input::WatchFailed { stream, fault } => self.watch_failed(stream, fault, now, &mut actions),
            Input::Got { ask, namespace, name, pod } => {
                self.got(ask, &(namespace, name), pod.map(|p| *p), now, &mut actions);
            }
            Input::GetFailed { ask, namespace, name, fault } => {
                self.questions.remove(&ask);
                tracing::debug!(namespace, name, %fault, "no answer about a pod");
                self.get_failed(fault, now);
            }
            Input::Events { uid, events } => self.events(&uid, &events, now, &mut actions),
            Input::Node { name, node } => self.node(name, node, now, &mut actions),
            Input::Subscribe { id, target, attempt } => self.subscribe(id, target, attempt, now, &mut actions),
            Input::Bind { id, uid } => {
                if let Some(subscriber) = self.subscribers.get_mut(&id) {
                    subscriber.bind(uid);
                    let name = subscriber.name.clone();
                    self.look(id, &name, now, &mut actions);
                }
            }
            Input::OwnDeletion { id } => {
                if let Some(subscriber) = self.subscribers.get_mut(&id) {
                    subscriber.own_deletion = true;
                    self.judge(id, now, &mut actions);
                }
            }
            Input::Unsubscribe { id } => self.unsubscribe(id),
        }
        self.keep_going(now, &mut actions);
        actions
    }

    fn subscribe(&mut self, id: SubscriberId, target: Target, attempt: u32, now: Now, actions: &mut Vec<Action>) {
        let subscriber = Subscriber::new(target, attempt);
        let name = subscriber.name.clone();
        self.ids = self.ids.max(id);
        self.by_name.entry(name.clone()).or_default().insert(id);
        self.subscribers.insert(id, subscriber);
        self.look(id, &name, now, actions);
    }

    fn unsubscribe(&mut self, id: SubscriberId) {
        let Some(subscriber) = self.subscribers.remove(&id) else { return };
        if let Some(wake) = subscriber.wake {
            self.wakes.remove(&(wake, id));
        }
        if let Some(ids) = self.by_name.get_mut(&subscriber.name) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_name.remove(&subscriber.name);
            }
        }
    }

    /// Shows a subscriber what is known already, or asks for its Pod by name.
    fn look(&mut self, id: SubscriberId, name: &Name, now: Now, actions: &mut Vec<Action>) {
        let known = self.pods.get(name).cloned();
        let Some(subscriber) = self.subscribers.get_mut(&id) else { return };
        if let Some(pod) = known {
            subscriber.see(&pod, self.asks);
        }
        let unseen = subscriber.pod.is_none();
        self.judge(id, now, actions);
        if unseen && (self.synced || matches!(self.link, Link::Polling { .. })) {
            self.ask(name, now, actions);
        }
    }

    /// Asks for a Pod by name; the answer counts for all who subscribed before.
    fn ask(&mut self, name: &Name, now: Now, actions: &mut Vec<Action>) {
        self.counters.gets += 1;
        self.asks += 1;
        // Answers that have not come by now never will.
        self.questions.retain(|_, asked| *asked + ANSWER > now.moment);
        self.questions.insert(self.asks, now.moment);
        for id in self.ids_of(name) {
            if let Some(subscriber) = self.subscribers.get_mut(&id) {
                subscriber.asked.get_or_insert(self.asks);
            }
        }
        actions.push(Action::Get { ask: self.asks, namespace: name.0.clone(), name: name.1.clone() });
    }

    /// A Pod as it is now.
    fn see(&mut self, mut pod: Pod, now: Now, actions: &mut Vec<Action>) {
        // Nobody judges by who wrote which field, and it is half of the object.
        pod.metadata.managed_fields = None;
        let name = name_of(&pod);
        if self.pods.get(&name).is_some_and(|known| is_older(&pod, known)) {
            return;
        }
        let pod = Arc::new(pod);
        self.pods.insert(name.clone(), Arc::clone(&pod));
        self.discover(&name, &pod);
        for id in self.ids_of(&name) {
            if let Some(subscriber) = self.subscribers.get_mut(&id) {
                subscriber.outside = None;
            }
        }
        self.show(&name, &pod, now, actions);
    }

    /// In a scope that is followed as a whole, each uid is a subscriber.
    fn discover(&mut self, name: &Name, pod: &Pod) {
        if !self.settings.follow_all {
            return;
        }
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let mut known = self.by_name.get(name).into_iter().flatten().filter_map(|id| self.subscribers.get(id));
        if known.any(|subscriber| subscriber.uid.as_deref() == Some(&uid)) {
            return;
        }
        self.ids += 1;
        let target = Target::Uid { namespace: name.0.clone(), name: name.1.clone(), uid };
        self.by_name.entry(name.clone()).or_default().insert(self.ids);
        self.subscribers.insert(self.ids, Subscriber::followed(target));
    }

    fn show(&mut self, name: &Name, pod: &Arc<Pod>, now: Now, actions: &mut Vec<Action>) {
        let asks = self.asks;
        for id in self.ids_of(name) {
            let concerned = self.subscribers.get_mut(&id).is_some_and(|subscriber| subscriber.see(pod, asks));
            if concerned {
                self.judge(id, now, actions);
            }
        }
    }

    fn ids_of(&self, name: &Name) -> Vec<SubscriberId> {
        self.by_name.get(name).into_iter().flatten().copied().collect()
    }

    /// A Pod left the scope: it is gone, unless only its labels changed.
    fn left(&mut self, mut last: Pod, now: Now, actions: &mut Vec<Action>) {
        last.metadata.managed_fields = None;
        let name = name_of(&last);
        let known = self.pods.get(&name).is_some_and(|pod| pod.metadata.uid == last.metadata.uid);
        if known {
            self.pods.remove(&name);
        }
        // Its last state may hold more than was seen before: an exit code, a mark.
        self.show(&name, &Arc::new(last.clone()), now, actions);
        self.absent(&name, last.metadata.uid.as_deref(), now, actions);
    }

    /// A name that a complete view does not have any more.
    fn absent(&mut self, name: &Name, uid: Option<&str>, now: Now, actions: &mut Vec<Action>) {
        let mut ask = false;
        for id in self.ids_of(name) {
            let Some(subscriber) = self.subscribers.get_mut(&id) else { continue };
            if uid.is_some() && subscriber.uid.as_deref() != uid {
                continue;
            }
            if self.scope.is_selective() || subscriber.pod.is_none() {
                ask |= !subscriber.is_settled();
            } else if subscriber.gone() {
                self.judge(id, now, actions);
            }
        }
        if ask {
            self.ask(name, now, actions);
        }
    }

    fn got(&mut self, ask: u64, name: &Name, pod: Option<Pod>, now: Now, actions: &mut Vec<Action>) {
        self.answered();
        if let Some(asked) = self.questions.remove(&ask) {
            for id in self.ids_of(name) {
                if let Some(subscriber) = self.subscribers.get_mut(&id) {
                    subscriber.known_at = subscriber.known_at.max(asked);
                }
            }
        }
        let known = self.pods.get(name);
        let differs = match (known, &pod) {
            (Some(known), Some(pod)) => is_older(known, pod) || known.metadata.uid != pod.metadata.uid,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let inside = known.is_some() || !self.scope.is_selective();
        if differs {
            self.overtaken(now);
        }
        let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
        match pod {
            Some(pod) if inside => self.see(pod, now, actions),
            // Outside of the scope it is shown and not kept: the next list would not have it.
            Some(pod) => {
                for id in self.ids_of(name) {
                    if let Some(subscriber) = self.subscribers.get_mut(&id) {
                        subscriber.outside = Some(now.moment + self.settings.poll_every);
                    }
                }
                self.show(name, &Arc::new(pod), now, actions);
            }
            None => {
                self.pods.remove(name);
            }
        }
        for id in self.ids_of(name) {
            let changed = self.subscribers.get_mut(&id).is_some_and(|s| s.not_found(ask, uid.as_deref()));
            if changed {
                self.judge(id, now, actions);
            }
        }
    }

    fn listed(&mut self, ask: u64, pods: Vec<Pod>, version: String, now: Now, actions: &mut Vec<Action>) {
        let reached: Option<u64> = version.parse().ok();
        if !self.list_done(ask, version, now, actions) {
            return;
        }
        let present: BTreeSet<Name> = pods.iter().map(name_of).collect();
        for pod in pods {
            self.see(pod, now, actions);
        }
        // What was seen by name since the list was made is not missing from it.
        let newer = |pod: &Pod| reached.zip(version_of(pod)).is_some_and(|(list, pod)| pod > list);
        self.pods.retain(|name, pod| present.contains(name) || newer(pod));
        let kept = &self.pods;
        let absent = self.by_name.keys().filter(|name| !kept.contains_key(*name)).cloned();
        for name in absent.collect::<Vec<_>>() {
            self.absent(&name, None, now, actions);
        }
    }

    /// Judges a subscriber's Pod, and publishes what has changed.
    fn judge(&mut self, id: SubscriberId, now: Now, actions: &mut Vec<Action>) {
        let observer = self.observer.clone();
        let Some(subscriber) = self.subscribers.get_mut(&id) else { return };
        let node = subscriber.node_name().and_then(|name| self.nodes.get(name)).and_then(|(_, node)| node.clone());
        let inside = self.pods.get(&subscriber.name).is_some_and(|pod| pod.metadata.uid == subscriber.uid);
        let known_at = inside.then_some(self.known_at);
        let wake = subscriber.judge(node.as_deref(), known_at, &self.settings, now);
        if let Some(old) = std::mem::replace(&mut subscriber.wake, wake) {
            self.wakes.remove(&(old, id));
        }
        if let Some(wake) = wake {
            self.wakes.insert((wake, id));
        }
        actions.extend(subscriber.count());
        if let Some(report) = subscriber.report(observer, now) {
            actions.push(Action::Publish { id, report: Box::new(report) });
        }
        // A scope that is followed for months must not remember everybody who ever was in it.
        if subscriber.is_over() {
            self.unsubscribe(id);
        }
    }

    /// Whatever time has brought: ended budgets, questions that are due, a new view of the own standing.
    fn keep_going(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.drive_link(now, actions);
        while let Some((at, id)) = self.wakes.first().copied().filter(|(at, _)| *at <= now.moment) {
            self.wakes.remove(&(at, id));
            let Some(subscriber) = self.subscribers.get_mut(&id) else { continue };
            subscriber.wake = None;
            if !subscriber.queued && subscriber.wants_events(&self.settings, now) {
                subscriber.queued = true;
                if subscriber.is_urgent() {
                    self.puzzled.push_front(id);
                } else {
                    self.puzzled.push_back(id);
                }
            }
            let node = subscriber.node_name().filter(|_| !subscriber.is_settled()).map(str::to_owned);
            let due = |at: Option<Duration>| at.is_some_and(|at| at <= now.moment);
            let (outside, confirm) = (due(subscriber.outside), due(subscriber.confirm));
            let later = Some(now.moment + self.settings.poll_every);
            if outside {
                subscriber.outside = later;
            }
            if confirm {
                subscriber.confirm = later;
            }
            if outside || confirm {
                let name = subscriber.name.clone();
                self.ask(&name, now, actions);
            }
            if let (Some(node), Some(every)) = (node, self.settings.nodes_every) {
                let due = self.nodes.get(&node).is_none_or(|(at, _)| now.moment >= *at + every);
                if due {
                    let before = self.nodes.get(&node).and_then(|(_, node)| node.clone());
                    self.nodes.insert(node.clone(), (now.moment, before));
                    self.counters.nodes += 1;
                    actions.push(Action::Node { name: node });
                }
            }
            self.judge(id, now, actions);
        }
        self.explain(now, actions);
        let observer = self.standing(now);
        if observer != self.observer {
            self.observer = observer;
            let ids: Vec<SubscriberId> = self.subscribers.keys().copied().collect();
            for id in ids {
                self.judge(id, now, actions);
            }
        }
    }

    fn presence_of(&self, id: SubscriberId) -> Option<Presence> {
        self.subscribers.get(&id).map(|s| s.presence)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
