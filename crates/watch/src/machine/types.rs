//! What goes into the machine and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use minke_core::judgement::{Cause, Policy, Verdict};

/// Which Pods are watched together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// One namespace; `None`: all.
    pub namespace: Option<String>,
    /// A label selector; empty: all Pods.
    pub labels: String,
    /// A field selector; empty: all Pods.
    pub fields: String,
}

impl Scope {
    /// All Pods of a namespace.
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), labels: String::new(), fields: String::new() }
    }

    /// The Pods of a namespace with these labels.
    #[must_use]
    pub fn labelled(namespace: impl Into<String>, labels: impl Into<String>) -> Self {
        Self { labels: labels.into(), ..Self::namespace(namespace) }
    }

    /// One Pod, by name: what a namespace's worth of traffic is too much for.
    #[must_use]
    pub fn one(namespace: impl Into<String>, name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..Self::namespace(namespace) }
    }

    /// All Pods of a node, in all namespaces.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self { namespace: None, labels: String::new(), fields: format!("spec.nodeName={name}") }
    }

    /// Whether a Pod can leave it while it lives. Names and namespaces don't change; labels do.
    pub(super) fn is_selective(&self) -> bool {
        !self.labels.is_empty()
    }
}

/// Who is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This very Pod.
    Uid {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Uid.
        uid: String,
    },
    /// Whoever has this name when first seen.
    Named {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// Someone who is about to be created under this name; told later by binding a uid. Until then nobody: a Pod of
    /// that name which is still going is not meant.
    Expected {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
}

impl Target {
    /// Whoever has this name.
    #[must_use]
    pub fn named(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Named { namespace: namespace.into(), name: name.into() }
    }
}

/// Who asked; chosen by whoever subscribes.
pub type SubscriberId = u64;

/// How a machine watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How patient the judge is.
    pub policy: Policy,
    /// Every Pod of the scope is a subscriber of its own.
    pub follow_all: bool,
    /// How long the server keeps a watch open; after a little more it counts as half-open.
    pub watch_timeout: Duration,
    /// After so much silence some Pods are asked for by name: has the watch gone quiet, or died?
    pub verify_after: Duration,
    /// How often Pods are asked for where lists are not allowed.
    pub poll_every: Duration,
    /// When to look again whether more is allowed.
    pub probe_every: Duration,
    /// Without news for so long the view counts as stale.
    pub stale_after: Duration,
    /// How often the events of a Pod that waits without saying why are read; `None`: never.
    pub events_every: Option<Duration>,
    /// The least time between two questions for events, of all Pods together.
    pub events_gap: Duration,
    /// How often the nodes of Pods are looked at; `None`: never.
    pub nodes_every: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            follow_all: false,
            watch_timeout: Duration::from_secs(60),
            verify_after: Duration::from_secs(5),
            poll_every: Duration::from_secs(3),
            probe_every: Duration::from_secs(60),
            stale_after: Duration::from_secs(10),
            events_every: Some(Duration::from_secs(3)),
            events_gap: Duration::from_millis(200),
            nodes_every: None,
        }
    }
}

/// What one may do with the Pods of a scope, and, for people, what is missing for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// List and watch them.
    Watch,
    /// Only get them by name.
    Get(String),
    /// Not even that.
    Nothing(String),
}

/// Why a call failed, in the kinds that decide what is done next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiFault {
    /// The version is too old: list again.
    #[error("the version is too old")]
    Expired,
    /// Not allowed.
    #[error("not allowed: {0}")]
    Denied(String),
    /// Too many requests.
    #[error("the server asks to wait {} s", .0.as_secs())]
    Throttled(Duration),
    /// No answer.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// Any other answer.
    #[error("{0}")]
    Other(String),
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// What is allowed.
    Probed(Access),
    /// A complete list.
    Listed {
        /// Which question it answers.
        ask: u64,
        /// All Pods of the scope.
        pods: Vec<Pod>,
        /// Where to watch from.
        version: String,
    },
    /// No list.
    ListFailed {
        /// Which question it answers.
        ask: u64,
        /// Why.
        fault: ApiFault,
    },
    /// A Pod was added or changed.
    Seen {
        /// Of which watch.
        stream: u64,
        /// As it is now.
        pod: Box<Pod>,
    },
    /// A Pod left the scope.
    Gone {
        /// Of which watch.
        stream: u64,
        /// As it was last.
        pod: Box<Pod>,
    },
    /// Nothing happened up to this version.
    Bookmark {
        /// Of which watch.
        stream: u64,
        /// The version.
        version: String,
    },
    /// The server ended a watch as it should.
    WatchEnded {
        /// Which.
        stream: u64,
    },
    /// A watch broke, or could not be opened.
    WatchFailed {
        /// Which.
        stream: u64,
        /// Why.
        fault: ApiFault,
    },
    /// A Pod by name, or that there is none.
    Got {
        /// Which question it answers.
        ask: u64,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The Pod.
        pod: Option<Box<Pod>>,
    },
    /// No answer about a Pod.
    GetFailed {
        /// Which question it answers.
        ask: u64,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Why.
        fault: ApiFault,
    },
    /// The events of a Pod.
    Events {
        /// Whose.
        uid: String,
        /// All of them.
        events: Vec<Event>,
    },
    /// A node, or that it can't be seen.
    Node {
        /// Its name.
        name: String,
        /// The node.
        node: Option<Box<Node>>,
    },
    /// Somebody wants to know about a Pod.
    Subscribe {
        /// Who.
        id: SubscriberId,
        /// About whom.
        target: Target,
        /// Which attempt this is, for the reports.
        attempt: u32,
    },
    /// The uid of an expected Pod is known.
    Bind {
        /// Whose.
        id: SubscriberId,
        /// The uid.
        uid: String,
    },
    /// The subscriber deletes its Pod itself.
    OwnDeletion {
        /// Who.
        id: SubscriberId,
    },
    /// Nobody wants to know any more.
    Unsubscribe {
        /// Who.
        id: SubscriberId,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Find out what is allowed.
    Probe,
    /// List the scope.
    List {
        /// The number of the question.
        ask: u64,
    },
    /// Watch the scope; the watch before, if any, is over.
    Watch {
        /// The number of the watch.
        stream: u64,
        /// From here.
        version: String,
    },
    /// Get a Pod by name.
    Get {
        /// The number of the question.
        ask: u64,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// Read a Pod's events.
    Events {
        /// Namespace.
        namespace: String,
        /// Whose.
        uid: String,
    },
    /// Get a node.
    Node {
        /// Its name.
        name: String,
    },
    /// Count a verdict that is final, once for each subscriber. Not for the cluster.
    Count {
        /// Why it failed; `None`: it succeeded.
        cause: Option<Cause>,
        /// When the cluster says that it happened.
        at: Option<Timestamp>,
    },
    /// Tell a subscriber.
    Publish {
        /// Whom.
        id: SubscriberId,
        /// What.
        report: Box<Report>,
    },
}

/// How well the cluster is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observer {
    /// Not looked yet.
    Starting,
    /// Every change is seen.
    Current,
    /// The cluster does not answer; what is known may be out of date.
    Stale,
    /// Watching is not allowed: Pods are asked for every few seconds.
    Polling(String),
    /// Nothing is allowed: there will be no verdict.
    Blind(String),
}

/// Whether a Pod is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whereabouts {
    /// Nobody has seen it, nor looked at everything.
    Unseen,
    /// It was never seen, and a complete view did not have it.
    Missing,
    /// It was there when it was seen last.
    Present,
    /// It is not there any more.
    Gone,
}

/// What a subscriber is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The attempt given when subscribing.
    pub attempt: u32,
    /// Namespace and name.
    pub name: (String, String),
    /// The uid, once it is known.
    pub uid: Option<String>,
    /// The verdict; `None`: the Pod has not been seen.
    pub verdict: Option<Verdict>,
    /// The Pod as it was seen last.
    pub pod: Option<Arc<Pod>>,
    /// Whether it is there.
    pub whereabouts: Whereabouts,
    /// How well the cluster is seen.
    pub observer: Observer,
    /// When, on the watcher's monotonic clock.
    pub moment: Duration,
    /// When, on the wall.
    pub at: Timestamp,
}

impl Report {
    /// Of a Pod of which nothing is known; with an empty name, of the observer alone.
    #[must_use]
    pub fn unseen(namespace: impl Into<String>, name: impl Into<String>, attempt: u32, at: Timestamp) -> Self {
        Self {
            attempt,
            name: (namespace.into(), name.into()),
            uid: None,
            verdict: None,
            pod: None,
            whereabouts: Whereabouts::Unseen,
            observer: Observer::Starting,
            moment: Duration::ZERO,
            at,
        }
    }
}

/// What a machine has asked of the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Probes of what is allowed.
    pub probes: u64,
    /// Lists.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Pods asked for by name.
    pub gets: u64,
    /// Events asked for.
    pub events: u64,
    /// Nodes asked for.
    pub nodes: u64,
}
