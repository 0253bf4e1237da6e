//! The machine of one Pod (namespace, name and uid): what the API wants, what the provider has, and what follows.
//!
//! ```text
//!             API:  Wanted ──deletion timestamp──► Leaving ──object gone──► Gone
//!        provider:  Absent ──create──► Held ──delete──► Ending ──forgotten──► Absent
//!                     │  └─ failed, perhaps ─► Unknown ─get─► Held | Absent
//!                     └─ (had run, is not held) ─► Lost ◄─ not held any more ─┘
//! ```
//!
//! Three flows meet here: *desired* (create, update), *deletion* (delete at the provider, then remove the API object the moment
//! that nothing of it runs) and *status* (patch what differs). The first two take turns in the [`Lane::Provider`], the last and
//! the removal in the [`Lane::Api`]: each lane has at most one call in flight, and is looked at when its queue says so. A turn looks
//! at all that is known and decides anew, so that nothing hangs on an event that was lost.
//!
//! [`PodMachine::step`] is synchronous. Who holds the machine performs its [`Action`]s and says how they went.

mod desired;
mod grace;
mod patch;
mod status;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use minke_core::identity::PodKey;
use serde_json::Value;
use tokio::time::Instant;

use crate::Now;
use crate::queue::{Outcome, Urgency};

pub(crate) use desired::differs_resolved;
pub use patch::status_patch;

/// Where a turn belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Calls on the provider.
    Provider,
    /// Writes to the API.
    Api,
}

/// What the API wants of the Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To be here.
    Wanted,
    /// To end; its object is to be removed when it has.
    Leaving,
    /// Its object is gone: what is left of it ends.
    Gone,
}

/// What the provider has of the Pod.
#[derive(Debug, Clone, PartialEq)]
enum Holding {
    /// A call may or may not have taken effect: it is asked first.
    Unknown,
    /// Nothing, and it was never started: it may be created.
    Absent,
    /// The Pod, as it was last told.
    Held(Applied),
    /// The Pod, which was told to end until then.
    Ending { until: Instant },
    /// Nothing any more: it is not started a second time.
    Lost,
}

/// What the provider was last told of a Pod.
#[derive(Debug, Clone, PartialEq)]
enum Applied {
    /// This, by us.
    Ours { raw: Arc<Pod>, objects: u64 },
    /// This, with its environment resolved, by an earlier controller.
    Theirs(Arc<Pod>),
}

/// Why the provider does not do what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It never will.
    Rejected {
        /// `status.reason`.
        reason: String,
        /// `status.message`.
        message: String,
    },
    /// A call failed; it is tried again.
    Failed {
        /// With its causes.
        message: String,
        /// The same call fails again until something changes.
        permanent: bool,
    },
    /// Something that the Pod refers to is missing or can't be used.
    Config {
        /// The container that waits for it.
        container: String,
        /// What.
        message: String,
    },
}

/// What happens to a Pod.
#[derive(Debug, Clone)]
pub enum PodEvent {
    /// The API has it like this.
    Seen(Arc<Pod>),
    /// The API has it no more.
    Gone,
    /// The provider says that its status is this.
    Status(Box<PodStatus>),
    /// The provider says that it holds it no more.
    Forgotten,
    /// The provider ends it.
    Evicted(Duration),
    /// A list of the provider that was asked for at that time has it like this, or lacks it.
    Listed {
        /// As listed.
        held: Option<Arc<Pod>>,
        /// When the list was asked for.
        asked: Instant,
    },
    /// What it refers to has changed; the number tells one state from another.
    ObjectsChanged(u64),
    /// Its turn to call the provider.
    ProviderTurn {
        /// No former Pod of its name is in the way, and what it refers to is known.
        clear: bool,
    },
    /// How the call on the provider went.
    Called(CallResult),
    /// Its turn to write to the API.
    ApiTurn,
    /// How the write went.
    Wrote(WriteResult),
}

/// A call on the provider.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Create this Pod, its environment resolved.
    Create(Arc<Pod>),
    /// Make it this. Not if it is the same as what an earlier controller had applied.
    Update {
        /// The Pod.
        pod: Arc<Pod>,
        /// What it is now, as the provider has it.
        unless: Option<Arc<Pod>>,
    },
    /// End it.
    Delete(Duration),
    /// Look.
    Get,
}

/// How a call on the provider went.
#[derive(Debug, Clone, PartialEq)]
pub enum CallResult {
    /// Well: created or updated (or the same already).
    Applied {
        /// What it was told.
        pod: Arc<Pod>,
        /// The call was made, rather than found to be needless.
        called: bool,
    },
    /// Well: it ends.
    Deleted,
    /// It holds this, or nothing.
    Got(Option<Arc<Pod>>),
    /// There is nothing of it (a delete or an update).
    NotFound,
    /// Badly.
    Failed {
        /// Why.
        trouble: Trouble,
        /// It may have taken effect.
        perhaps: bool,
    },
}

/// A write to the API, guarded by the uid.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Patch the status (strategic merge).
    Patch(Value),
    /// Remove the object; nothing of the Pod runs.
    Remove,
    /// Mark it deleted, with this grace: the provider ends it.
    Evict(Duration),
}

/// How a write went.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteResult {
    /// Well; the object is like this now (a patch), or is being removed.
    Done(Option<Arc<Pod>>),
    /// The object is gone, or is another Pod's.
    Gone,
    /// Badly; not before so long.
    Failed {
        /// As the API asked, or zero.
        at_least: Duration,
    },
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Give this lane a turn.
    Look(Lane, Urgency, Instant),
    /// Call the provider; [`PodEvent::Called`] says how it went.
    Call(Call),
    /// Write to the API; [`PodEvent::Wrote`] says how it went.
    Write(Write),
    /// The lane's turn is over.
    Finish(Lane, Outcome),
    /// Record an event about the Pod.
    Tell {
        /// Something is wrong.
        warning: bool,
        /// Upstream's.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// Nothing is left of it: forget the machine.
    Drop,
}

/// The machine. See the module.
#[derive(Debug, Clone)]
pub struct PodMachine {
    key: PodKey,
    /// The API's object, or the provider's for a Pod that the API does not have.
    object: Arc<Pod>,
    wish: Wish,
    holding: Holding,
    /// When [`Self::holding`] last changed or a call on the provider last ended: older lists say nothing.
    changed: Instant,
    /// The provider's newest word.
    status: Option<PodStatus>,
    trouble: Option<Trouble>,
    calling: bool,
    evicted: Option<Duration>,
    /// By when it has to have ended, once it is deleted.
    ends_by: Option<Instant>,
    removed: bool,
    objects: u64,
    sent: Option<Sent>,
}

/// The last patch: it is not sent again for the same.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    /// As text, which takes a tenth of the room.
    patch: Box<str>,
    /// The object after it, whose status counts. Nearly always the one that the machine has anyway.
    after: Arc<Pod>,
}

impl PodMachine {
    /// A Pod that the API wants. `held` is what the provider has of it.
    #[must_use]
    pub fn new(key: PodKey, object: Arc<Pod>, held: Option<Arc<Pod>>, now: Now) -> (Self, Vec<Action>) {
        let had_run = object.status.as_ref().is_some_and(status::has_run);
        let holding = match held.clone() {
            Some(pod) => Holding::Held(Applied::Theirs(pod)),
            None if had_run => Holding::Lost,
            None => Holding::Absent,
        };
        let machine = Self {
            key,
            wish: wish_of(&object),
            ends_by: grace::ends_by(&object, now),
            object,
            holding,
            changed: now.instant,
            status: held.and_then(|pod| pod.status.clone()),
            trouble: None,
            calling: false,
            evicted: None,
            removed: false,
            objects: 0,
            sent: None,
        };
        let actions = machine.look_both(Urgency::Cure, now);
        (machine, actions)
    }

    /// A Pod that only the provider has: it is ended.
    #[must_use]
    pub fn leftover(key: PodKey, held: Arc<Pod>, now: Now) -> (Self, Vec<Action>) {
        let (mut machine, actions) = Self::new(key, held.clone(), Some(held), now);
        machine.wish = Wish::Gone;
        (machine, actions)
    }

    /// Who it is.
    #[must_use]
    pub fn key(&self) -> &PodKey {
        &self.key
    }

    /// What the API wants of it.
    #[must_use]
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// The API's object as it was last seen.
    #[must_use]
    pub fn object(&self) -> &Arc<Pod> {
        &self.object
    }

    /// Whether the provider has, or may have, something of it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self.holding {
            Holding::Unknown | Holding::Held(_) | Holding::Ending { .. } => true,
            Holding::Absent | Holding::Lost => self.calling,
        }
    }

    /// Whether the API says that it is over, or does not have it any more.
    #[must_use]
    pub fn api_knows_its_end(&self) -> bool {
        self.wish == Wish::Gone || self.object.status.as_ref().is_some_and(status::is_terminal)
    }

    /// Why it is not as it is wanted.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    fn look_both(&self, urgency: Urgency, now: Now) -> Vec<Action> {
        vec![Action::Look(Lane::Provider, urgency, now.instant), Action::Look(Lane::Api, urgency, now.instant)]
    }
}

fn wish_of(object: &Pod) -> Wish {
    if object.metadata.deletion_timestamp.is_some() { Wish::Leaving } else { Wish::Wanted }
}
