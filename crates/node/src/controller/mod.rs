//! The pod controller: performs what the [`crate::book`] decides, and decides nothing.
//!
//! One task owns the book and both queues. It waits for the first of: something of the API's feed, news of the provider, the end of a
//! call, a time. Calls and writes are tasks of their own, at most one a lane and Pod, as many at once as there are workers.
//!
//! [`Controller::run`] goes on until it is cancelled; then it takes up nothing new and waits for what is in hand. Dropping
//! it at any await loses nothing: what took effect is found again by listing.

mod build;
mod feed;
mod metrics;
mod news;
mod perform;
mod run;
mod spans;

use std::sync::Arc;

use minke_core::identity::PodKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use build::{Builder, MissingPart, Options};
pub use metrics::ControllerMetrics;

use build::Parts;
use run::Running;

/// Why a controller ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A part of it ended: a fault of the program.
    #[error("the controller's {0} ended; please report this")]
    Ended(&'static str),
    /// It was dropped before it had ended.
    #[error("the controller was dropped")]
    Dropped,
}

#[derive(Debug, Clone, Default)]
enum Phase {
    #[default]
    Starting,
    Ready,
    Done(Option<Arc<ControllerError>>),
}

/// A controller that can be run once.
#[derive(Debug)]
pub struct Controller {
    parts: Parts,
    cancel: CancellationToken,
    phase: PhaseSender,
    waits: (mpsc::UnboundedSender<EndWait>, mpsc::UnboundedReceiver<EndWait>),
}

/// Somebody waits until the API knows that these have ended. The last one is looked at first.
#[derive(Debug)]
struct EndWait {
    pods: Vec<PodKey>,
    over: oneshot::Sender<()>,
}

/// Says that it is over when it is dropped.
#[derive(Debug)]
struct PhaseSender(watch::Sender<Phase>);

impl PhaseSender {
    fn ready(&self) {
        self.0.send_if_modified(|phase| {
            let starting = matches!(phase, Phase::Starting);
            if starting {
                *phase = Phase::Ready;
            }
            starting
        });
    }

    fn done(&self, error: Option<Arc<ControllerError>>) {
        self.0.send_if_modified(|phase| {
            let ended = matches!(phase, Phase::Done(_));
            if !ended {
                *phase = Phase::Done(error);
            }
            !ended
        });
    }
}

impl Drop for PhaseSender {
    fn drop(&mut self) {
        self.done(Some(Arc::new(ControllerError::Dropped)));
    }
}

/// What others hold of a controller. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    phase: watch::Receiver<Phase>,
    cancel: CancellationToken,
    waits: mpsc::UnboundedSender<EndWait>,
}

impl Controller {
    /// What it needs.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn new(parts: Parts) -> Self {
        let phase = PhaseSender(watch::Sender::default());
        Self { parts, cancel: CancellationToken::new(), phase, waits: mpsc::unbounded_channel() }
    }

    /// For others.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { phase: self.phase.0.subscribe(), cancel: self.cancel.clone(), waits: self.waits.0.clone() }
    }

    /// Runs until [`Handle::shutdown`]. Provider and API need not answer yet: it goes on trying.
    ///
    /// # Errors
    /// [`ControllerError`]; it is kept for [`Handle::done`] as well.
    pub async fn run(self) -> Result<(), Arc<ControllerError>> {
        let Self { parts, cancel, phase, waits: (_, waits) } = self;
        let result = Running::new(parts, waits).run(&cancel, || phase.ready()).await.map_err(Arc::new);
        phase.done(result.clone().err());
        result
    }
}

impl Handle {
    /// Waits until the Pods of provider and API are known; `false`: it ended before. Cancel-safe.
    pub async fn ready(&self) -> bool {
        let mut phase = self.phase.clone();
        let found = phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await;
        found.is_ok_and(|phase| matches!(*phase, Phase::Ready))
    }

    /// Waits until the API knows of each of these Pods that it has ended, or has it no more; `false`: the controller ended before.
    /// Bound it in time: an API that is away knows nothing. Cancel-safe.
    pub async fn told_ends(&self, pods: Vec<PodKey>) -> bool {
        let (over, told) = oneshot::channel();
        self.waits.send(EndWait { pods, over }).is_ok() && told.await.is_ok()
    }

    /// Waits for the end; the error that it ended with, at any time later as well. Cancel-safe.
    pub async fn done(&self) -> Option<Arc<ControllerError>> {
        let mut phase = self.phase.clone();
        match phase.wait_for(|phase| matches!(phase, Phase::Done(_))).await.as_deref() {
            Ok(Phase::Done(error)) => error.clone(),
            Ok(Phase::Starting | Phase::Ready) | Err(_) => None,
        }
    }

    /// Ends it and waits for what is in hand. May be called any number of times.
    pub async fn shutdown(&self) -> Option<Arc<ControllerError>> {
        self.cancel.cancel();
        self.done().await
    }
}
