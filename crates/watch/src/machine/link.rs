//! The way to the cluster: which question is open, which watch flows, and what is done when neither works.

use std::time::Duration;

use minke_core::judgement::{Now, Presence};

use super::{Access, Action, ApiFault, Machine, Name, Observer, SubscriberId};

/// How many Pods are asked for by name when a watch is silent.
const SAMPLE: usize = 8;
/// How long an answer may take before the question counts as lost.
pub(super) const ANSWER: Duration = Duration::from_secs(15);
/// What a watch may be late: the server's own grace, and the network's.
const LATE: Duration = Duration::from_secs(5);
/// How long a watch may be behind what was seen by name.
const BEHIND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// Not begun.
    Idle,
    /// Asked what is allowed.
    Probing { since: Duration },
    /// Waits for a list.
    Listing { ask: u64, since: Duration },
    /// Changes flow.
    Watching {
        stream: u64,
        version: String,
        opened: Duration,
        /// The last sign of life.
        heard: Duration,
        /// The last time that the silence was checked.
        verified: Duration,
        /// Something newer was seen by name than the watch has told.
        behind: Option<Duration>,
    },
    /// Waits before the next try.
    Resting { until: Duration, version: Option<String> },
    /// Asks by name.
    Polling { next: Duration, probe: Duration, why: String },
    /// May do nothing.
    Blind { probe: Duration, why: String },
}

impl Machine {
    pub(super) fn link_wake(&self) -> Option<Duration> {
        let stale = self.blind_since.map(|since| since + self.settings.stale_after);
        let stale = stale.filter(|_| self.observer != Observer::Stale);
        let own = match &self.link {
            Link::Idle => Some(Duration::ZERO),
            Link::Probing { since } | Link::Listing { since, .. } => Some(*since + ANSWER),
            Link::Watching { opened, heard, verified, behind, .. } => {
                let end = *opened + self.settings.watch_timeout + LATE;
                let verify = (*heard).max(*verified) + self.settings.verify_after;
                [Some(end), Some(verify), behind.map(|since| since + BEHIND)].into_iter().flatten().min()
            }
            Link::Resting { until, .. } => Some(*until),
            Link::Polling { next, probe, .. } => Some((*next).min(*probe)),
            Link::Blind { probe, .. } => Some(*probe),
        };
        [own, stale].into_iter().flatten().min()
    }

    /// How well the cluster is seen.
    pub(super) fn standing(&self, now: Now) -> Observer {
        let stale = self.blind_since.is_some_and(|since| now.moment >= since + self.settings.stale_after);
        match &self.link {
            Link::Blind { why, .. } => Observer::Blind(why.clone()),
            // Whoever polls may get no answer as well; that is the worse news.
            _ if stale => Observer::Stale,
            Link::Polling { why, .. } => Observer::Polling(why.clone()),
            Link::Watching { .. } => Observer::Current,
            Link::Idle | Link::Probing { .. } | Link::Listing { .. } | Link::Resting { .. } => self.observer.clone(),
        }
    }

    /// What time alone makes due.
    pub(super) fn drive_link(&mut self, now: Now, actions: &mut Vec<Action>) {
        match self.link.clone() {
            Link::Idle => self.probe(now, actions),
            // A probe is a courtesy: a list says as much.
            Link::Probing { since } if now.moment >= since + ANSWER => self.list(now, actions),
            Link::Listing { since, .. } if now.moment >= since + ANSWER => self.rest(None, None, now),
            Link::Watching { version, opened, heard, verified, behind, .. } => {
                let overdue = now.moment >= opened + self.settings.watch_timeout + LATE;
                let dead = behind.is_some_and(|since| now.moment >= since + BEHIND);
                if overdue || dead {
                    self.watch(version, now, actions);
                } else if now.moment >= heard.max(verified) + self.settings.verify_after {
                    if let Link::Watching { verified, .. } = &mut self.link {
                        *verified = now.moment;
                    }
                    self.sample(SAMPLE, now, actions);
                }
            }
            Link::Resting { until, version } if now.moment >= until => match version {
                Some(version) => self.watch(version, now, actions),
                None => self.list(now, actions),
            },
            Link::Polling { probe, .. } | Link::Blind { probe, .. } if now.moment >= probe => self.probe(now, actions),
            Link::Polling { next, .. } if now.moment >= next => {
                if let Link::Polling { next, .. } = &mut self.link {
                    *next = now.moment + self.settings.poll_every;
                }
                self.sample(usize::MAX, now, actions);
            }
            Link::Probing { .. }
            | Link::Listing { .. }
            | Link::Resting { .. }
            | Link::Polling { .. }
            | Link::Blind { .. } => {}
        }
    }

    /// Asks by name for so many Pods that are still of interest, another lot each time.
    fn sample(&mut self, most: usize, now: Now, actions: &mut Vec<Action>) {
        let open = |id: &SubscriberId| {
            let here = self.presence_of(*id) == Some(Presence::Here);
            here && self.subscribers.get(id).is_some_and(|s| !s.is_settled())
        };
        let after = self.subscribers.range(self.rotation.saturating_add(1)..).map(|(id, _)| *id);
        let before = self.subscribers.range(..=self.rotation).map(|(id, _)| *id);
        let chosen: Vec<SubscriberId> = after.chain(before).filter(open).take(most).collect();
        self.rotation = chosen.last().copied().unwrap_or(0);
        let mut names: Vec<Name> =
            chosen.iter().filter_map(|id| Some(self.subscribers.get(id)?.name.clone())).collect();
        names.sort();
        names.dedup();
        for name in names {
            self.ask(&name, now, actions);
        }
    }

    fn probe(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.link = Link::Probing { since: now.moment };
        self.counters.probes += 1;
        actions.push(Action::Probe);
    }

    fn list(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.asks += 1;
        self.link = Link::Listing { ask: self.asks, since: now.moment };
        self.counters.lists += 1;
        actions.push(Action::List { ask: self.asks });
    }

    fn watch(&mut self, version: String, now: Now, actions: &mut Vec<Action>) {
        self.asks += 1;
        self.counters.watches += 1;
        actions.push(Action::Watch { stream: self.asks, version: version.clone() });
        self.link = Link::Watching {
            stream: self.asks,
            version,
            opened: now.moment,
            heard: now.moment,
            verified: now.moment,
            behind: None,
        };
    }

    fn rest(&mut self, version: Option<String>, at_least: Option<Duration>, now: Now) {
        // From a fifth of a second, doubling, to ten seconds.
        let back_off = Duration::from_millis(200).saturating_mul(1 << self.failures.min(6));
        self.failures += 1;
        let wait = back_off.min(Duration::from_secs(10)).max(at_least.unwrap_or_default());
        // After some failures the version is of no use: what is the truth is asked anew.
        let version = version.filter(|_| self.failures < 3);
        self.link = Link::Resting { until: now.moment + wait, version };
        self.blind_since.get_or_insert(now.moment);
    }

    pub(super) fn probed(&mut self, access: Access, now: Now, actions: &mut Vec<Action>) {
        if !matches!(self.link, Link::Probing { .. }) {
            return;
        }
        let probe = now.moment + self.settings.probe_every;
        match access {
            Access::Watch => self.list(now, actions),
            Access::Get(why) => {
                self.blind_since = None;
                self.link = Link::Polling { next: now.moment, probe, why };
                self.drive_link(now, actions);
            }
            Access::Nothing(why) => {
                self.blind_since = None;
                self.link = Link::Blind { probe, why };
            }
        }
    }

    /// Whether this list is the one that was asked for; then the watch begins where it ends.
    pub(super) fn list_done(&mut self, ask: u64, version: String, now: Now, actions: &mut Vec<Action>) -> bool {
        let Link::Listing { ask: asked, since } = &self.link else { return false };
        if *asked != ask {
            return false;
        }
        // What happened while the list was on its way is for the watch to tell.
        self.known_at = self.known_at.max(*since);
        self.synced = true;
        self.failures = 0;
        self.blind_since = None;
        self.watch(version, now, actions);
        true
    }

    pub(super) fn list_failed(&mut self, ask: u64, fault: ApiFault, now: Now, actions: &mut Vec<Action>) {
        if matches!(&self.link, Link::Listing { ask: asked, .. } if *asked == ask) {
            self.fault(fault, None, now, actions);
        }
    }

    fn is_flowing(&self, stream: u64) -> bool {
        matches!(&self.link, Link::Watching { stream: own, .. } if *own == stream)
    }

    /// A sign of life of a watch, and how far it is. Whether it is the one that counts.
    pub(super) fn heard(&mut self, stream: u64, reached: Option<String>, now: Now) -> bool {
        let Link::Watching { stream: own, version, heard, behind, .. } = &mut self.link else { return false };
        if *own != stream {
            return false;
        }
        if let Some(reached) = reached.filter(|v| !v.is_empty()) {
            *version = reached;
        }
        *heard = now.moment;
        *behind = None;
        self.known_at = now.moment;
        self.failures = 0;
        self.blind_since = None;
        true
    }

    /// A question by name was answered: where that is all there is, the view is good.
    pub(super) fn answered(&mut self) {
        if matches!(self.link, Link::Polling { .. }) {
            self.blind_since = None;
        }
    }

    /// Something was seen by name that the watch has not told.
    pub(super) fn overtaken(&mut self, now: Now) {
        if let Link::Watching { behind, .. } = &mut self.link {
            behind.get_or_insert(now.moment);
        }
    }

    pub(super) fn watch_ended(&mut self, stream: u64, now: Now, actions: &mut Vec<Action>) {
        if !self.is_flowing(stream) {
            return;
        }
        let Link::Watching { version, opened, .. } = self.link.clone() else { return };
        // One that ends as it begins is no watch.
        if now.moment < opened + Duration::from_secs(1) {
            self.rest(Some(version), None, now);
        } else {
            self.watch(version, now, actions);
        }
    }

    pub(super) fn watch_failed(&mut self, stream: u64, fault: ApiFault, now: Now, actions: &mut Vec<Action>) {
        if let Link::Watching { version, .. } = self.link.clone()
            && self.is_flowing(stream)
        {
            self.fault(fault, Some(version), now, actions);
        }
    }

    fn fault(&mut self, fault: ApiFault, version: Option<String>, now: Now, actions: &mut Vec<Action>) {
        match fault {
            ApiFault::Expired if version.is_some() => self.list(now, actions),
            // A right was taken away, or never was there; what is left decides.
            ApiFault::Denied(_) if self.failures == 0 => {
                self.failures = 1;
                self.probe(now, actions);
            }
            ApiFault::Denied(why) => {
                let probe = now.moment + self.settings.probe_every;
                self.blind_since = None;
                self.link = Link::Polling { next: now.moment, probe, why };
            }
            ApiFault::Throttled(wait) => self.rest(version, Some(wait), now),
            ApiFault::Expired | ApiFault::Unreachable(_) | ApiFault::Other(_) => self.rest(version, None, now),
        }
    }

    pub(super) fn get_failed(&mut self, fault: ApiFault, now: Now) {
        match (&self.link, fault) {
            (Link::Polling { .. }, ApiFault::Denied(why)) => {
                self.blind_since = None;
                self.link = Link::Blind { probe: now.moment + self.settings.probe_every, why };
            }
            (Link::Polling { .. }, ApiFault::Unreachable(_)) => {
                self.blind_since.get_or_insert(now.moment);
            }
            // Silence, and no answer either: the way to the cluster is broken.
            (Link::Watching { version, heard, .. }, ApiFault::Unreachable(_)) if *heard < now.moment => {
                self.rest(Some(version.clone()), None, now);
            }
            // Asked again with the next sample, or the next list tells.
            (
                Link::Idle
                | Link::Probing { .. }
                | Link::Listing { .. }
                | Link::Watching { .. }
                | Link::Resting { .. }
                | Link::Polling { .. }
                | Link::Blind { .. },
                _,
            ) => {}
        }
    }
}
