//! One subscriber: bound to a uid and an attempt, with a history of its own.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use minke_core::judgement::{History, Now, Presence, Sight, Stage, Verdict, judge};

use super::{Action, Name, Observer, Report, Settings, Target, Whereabouts, is_older};

/// What a report is about; told once.
#[derive(Debug, PartialEq)]
struct News {
    verdict: Option<Verdict>,
    pod: Option<Arc<Pod>>,
    observer: Observer,
    whereabouts: Whereabouts,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) name: Name,
    pub(super) uid: Option<String>,
    pub(super) attempt: u32,
    /// Waits to be told a uid.
    expects: bool,
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) presence: Presence,
    pub(super) events: Vec<Event>,
    pub(super) events_asked: Option<Duration>,
    /// Since when a container's end settles: events may tell why it was killed.
    doomed_at: Option<Duration>,
    /// Waits for its turn to ask.
    pub(super) queued: bool,
    pub(super) own_deletion: bool,
    pub(super) wake: Option<Duration>,
    /// Up to when it is known, by asking for it by name.
    pub(super) known_at: Duration,
    /// A budget has ended out of sight: when to ask whether the trouble lasts.
    pub(super) confirm: Option<Duration>,
    /// It lives outside of the scope's selector: when to ask for it by name.
    pub(super) outside: Option<Duration>,
    /// The first question for its name after it subscribed.
    pub(super) asked: Option<u64>,
    /// The newest question of all when it was seen last: what was asked before knows less.
    sighted: u64,
    /// Nobody of that name was found, by asking.
    missing: bool,
    history: History,
    verdict: Option<Verdict>,
    told: Option<News>,
    /// Its end has been counted.
    counted: bool,
    /// Nobody asked for it: it was found in a scope that is followed.
    pub(super) followed: bool,
}

impl Subscriber {
    pub(super) fn new(target: Target, attempt: u32) -> Self {
        let (name, uid, expects) = match target {
            Target::Uid { namespace, name, uid } => ((namespace, name), Some(uid), false),
            Target::Named { namespace, name } => ((namespace, name), None, false),
            Target::Expected { namespace, name } => ((namespace, name), None, true),
        };
        Self {
            name,
            uid,
            attempt,
            expects,
            pod: None,
            presence: Presence::Here,
            events: Vec::new(),
            events_asked: None,
            doomed_at: None,
            queued: false,
            own_deletion: false,
            wake: None,
            known_at: Duration::ZERO,
            confirm: None,
            outside: None,
            asked: None,
            sighted: 0,
            missing: false,
            history: History::default(),
            verdict: None,
            told: None,
            counted: false,
            followed: false,
        }
    }

    /// One that a scope that is followed has.
    pub(super) fn followed(target: Target) -> Self {
        Self { followed: true, ..Self::new(target, 1) }
    }

    /// Its end, the first time that it is asked for.
    pub(super) fn count(&mut self) -> Option<Action> {
        let (cause, at) = match self.verdict.as_ref()? {
            Verdict::Failed(failure) => (Some(failure.cause), failure.evidence.at),
            Verdict::Succeeded => (None, None),
            Verdict::Healthy(_) | Verdict::Waiting { .. } | Verdict::Doomed { .. } => return None,
        };
        (!std::mem::replace(&mut self.counted, true)).then_some(Action::Count { cause, at })
    }

    /// Whether there is nothing more to tell of it: its end has been told, and it is gone.
    pub(super) fn is_over(&self) -> bool {
        self.followed && self.is_settled() && self.presence != Presence::Here
    }

    /// The expected Pod is this one.
    pub(super) fn bind(&mut self, uid: String) {
        if self.expects {
            self.expects = false;
            self.missing = false;
            self.asked = None;
            self.uid = Some(uid);
        }
    }

    /// Whether nothing that is seen can change anything any more.
    pub(super) fn is_settled(&self) -> bool {
        self.verdict.as_ref().is_some_and(Verdict::is_final)
    }

    pub(super) fn node_name(&self) -> Option<&str> {
        self.pod.as_ref()?.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Somebody of its name, seen when so many questions had been asked. Whether that concerns it.
    pub(super) fn see(&mut self, pod: &Arc<Pod>, asks: u64) -> bool {
        let uid = pod.metadata.uid.as_ref();
        match (&self.uid, uid) {
            (None, Some(uid)) if !self.expects => self.uid = Some(uid.clone()),
            (None, _) => return false,
            (Some(own), Some(uid)) if own == uid => {}
            (Some(_), _) => {
                // Before it was seen, that is the one that had the name before.
                let newer = self.pod.as_ref().is_some_and(|known| !is_older(pod, known));
                let newcomer = newer && self.presence == Presence::Here;
                if newcomer {
                    self.presence = Presence::Replaced;
                }
                return newcomer;
            }
        }
        if self.pod.as_ref().is_some_and(|known| is_older(pod, known)) {
            return false;
        }
        self.missing = false;
        self.sighted = asks;
        self.pod = Some(Arc::clone(pod));
        true
    }

    /// The answer to a question for its name: nobody, or who has this uid. Whether that is news.
    pub(super) fn not_found(&mut self, ask: u64, uid: Option<&str>) -> bool {
        // What was asked before it subscribed, or was bound, says nothing about its Pod.
        // Nor what was asked before it was seen.
        let answers = self.asked.is_some_and(|asked| asked <= ask) && self.sighted < ask;
        if !answers || (uid.is_some() && (uid == self.uid.as_deref() || self.pod.is_some())) {
            return false;
        }
        let news = self.gone();
        if news && uid.is_some() {
            self.presence = Presence::Replaced;
        }
        news
    }

    /// There is no such Pod. Whether that is news.
    pub(super) fn gone(&mut self) -> bool {
        if self.expects {
            return false;
        }
        let Some(uid) = self.uid.clone() else { return !std::mem::replace(&mut self.missing, true) };
        if self.presence != Presence::Here {
            return false;
        }
        self.presence = Presence::Gone;
        if self.pod.is_none() {
            // Deleted before anybody saw it.
            let mut pod = Pod::default();
            pod.metadata.namespace = Some(self.name.0.clone());
            pod.metadata.name = Some(self.name.1.clone());
            pod.metadata.uid = Some(uid);
            self.pod = Some(Arc::new(pod));
        }
        true
    }

    /// Judges; returns when to look again. `known_at`: up to when the whole scope is known, if it has the Pod.
    pub(super) fn judge(
        &mut self,
        node: Option<&Node>,
        known_at: Option<Duration>,
        settings: &Settings,
        now: Now,
    ) -> Option<Duration> {
        let pod = self.pod.clone()?;
        let sight = Sight {
            pod: &pod,
            node,
            events: &self.events,
            presence: self.presence,
            own_deletion: self.own_deletion,
            as_of: Some(self.known_at.max(known_at.unwrap_or_default())),
        };
        let judged = judge(&sight, &settings.policy, std::mem::take(&mut self.history), now);
        self.history = judged.history;
        let until = judged.verdict.until();
        self.verdict = Some(judged.verdict);
        if self.is_settled() {
            return None;
        }
        self.doomed_at = self.exit_settles().then(|| self.doomed_at.unwrap_or(now.moment));
        let overdue = until.is_some_and(|at| at <= now.moment);
        self.confirm = overdue.then(|| self.confirm.unwrap_or(now.moment));
        let events = self.events_due(settings, now);
        let nodes = settings.nodes_every.map(|every| match node {
            Some(_) => now.moment + every,
            None => now.moment + every.min(Duration::from_secs(1)),
        });
        let nodes = nodes.filter(|_| self.node_name().is_some());
        // A moment that has come is dealt with now; only later ones wake.
        [until.filter(|at| *at > now.moment), events, nodes, self.outside, self.confirm].into_iter().flatten().min()
    }

    /// Events are asked for while the status itself does not say what it waits for.
    fn is_puzzling(&self) -> bool {
        match &self.verdict {
            Some(Verdict::Waiting { stage: Stage::Scheduling | Stage::Creating | Stage::Initializing, .. }) => true,
            Some(Verdict::Doomed { why, .. }) => why.evidence.exit_code.is_some(),
            Some(Verdict::Waiting { .. } | Verdict::Healthy(_) | Verdict::Failed(_) | Verdict::Succeeded) | None => {
                false
            }
        }
    }

    fn exit_settles(&self) -> bool {
        matches!(&self.verdict, Some(Verdict::Doomed { why, .. }) if why.evidence.exit_code.is_some())
    }

    /// Events are wanted before the end settles: those from before it say nothing of it.
    pub(super) fn is_urgent(&self) -> bool {
        self.doomed_at.is_some_and(|doomed| self.events_asked.is_none_or(|asked| asked < doomed))
    }

    fn events_due(&self, settings: &Settings, now: Now) -> Option<Duration> {
        let every = settings.events_every.filter(|_| self.is_puzzling() && !self.queued)?;
        let next = match self.events_asked {
            _ if self.is_urgent() => now.moment,
            // Most Pods start within a second and need no explanation.
            None => now.moment + every.min(Duration::from_secs(1)),
            Some(asked) => asked + every,
        };
        Some(next.max(now.moment + Duration::from_millis(1)))
    }

    pub(super) fn wants_events(&self, settings: &Settings, now: Now) -> bool {
        let rested = |every| self.is_urgent() || self.events_asked.is_none_or(|asked| now.moment >= asked + every);
        self.uid.is_some() && self.is_puzzling() && settings.events_every.is_some_and(rested)
    }

    fn whereabouts(&self) -> Whereabouts {
        match (&self.pod, self.presence) {
            (None, _) if self.missing => Whereabouts::Missing,
            (None, _) => Whereabouts::Unseen,
            (Some(_), Presence::Here) => Whereabouts::Present,
            (Some(_), Presence::Gone | Presence::Replaced) => Whereabouts::Gone,
        }
    }

    /// What is to be told, if it is news.
    pub(super) fn report(&mut self, observer: Observer, now: Now) -> Option<Report> {
        let news = News {
            verdict: self.verdict.clone(),
            pod: self.pod.clone(),
            observer: observer.clone(),
            whereabouts: self.whereabouts(),
        };
        if self.told.as_ref() == Some(&news) {
            return None;
        }
        self.told = Some(news);
        Some(Report {
            attempt: self.attempt,
            name: self.name.clone(),
            uid: self.uid.clone(),
            verdict: self.verdict.clone(),
            pod: self.pod.clone(),
            whereabouts: self.whereabouts(),
            observer,
            moment: now.moment,
            at: now.wall,
        })
    }
}
