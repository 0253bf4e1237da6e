//! What others see and want of a node controller that runs.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lease::NameTaken;

/// Why a node controller ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another agent has the name.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// It was dropped before it had ended.
    #[error("the node controller was dropped")]
    Dropped,
}

/// How far it is.
#[derive(Debug, Clone, Default)]
pub(super) enum Stage {
    /// The object or the lease is not there, or not any more.
    #[default]
    Unregistered,
    /// Both are, and say nothing of an end.
    Registered,
    /// The object says that the node goes down.
    GoesDown,
    /// It has ended, by itself for this reason.
    Ended(Option<Arc<NodeError>>),
}

#[derive(Debug, Clone, Default)]
struct Progress {
    stage: Stage,
    /// The API's last refusal, until a call succeeds.
    trouble: Option<String>,
}

/// Tells how far it is; says that it is over when it is dropped.
#[derive(Debug, Default)]
pub(super) struct ProgressSender(watch::Sender<Progress>);

impl ProgressSender {
    /// An end is never taken back.
    pub(super) fn stage(&self, stage: Stage) {
        self.0.send_if_modified(|progress| {
            let changed = match (&progress.stage, &stage) {
                (Stage::Ended(_), _)
                | (Stage::Unregistered, Stage::Unregistered)
                | (Stage::Registered, Stage::Registered)
                | (Stage::GoesDown, Stage::GoesDown) => false,
                (Stage::Unregistered | Stage::Registered | Stage::GoesDown, _) => true,
            };
            if changed {
                progress.stage = stage;
            }
            changed
        });
    }

    /// Whether it is another trouble than before.
    pub(super) fn trouble(&self, trouble: Option<String>) -> bool {
        self.0.send_if_modified(|progress| {
            let changed = progress.trouble != trouble;
            progress.trouble = trouble;
            changed
        })
    }
}

impl Drop for ProgressSender {
    fn drop(&mut self) {
        self.stage(Stage::Ended(Some(Arc::new(NodeError::Dropped))));
    }
}

/// What others hold of a node controller. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    progress: watch::Receiver<Progress>,
    going_down: watch::Sender<bool>,
    cancel: CancellationToken,
}

impl NodeHandle {
    pub(super) fn new(progress: &ProgressSender, going_down: watch::Sender<bool>, cancel: CancellationToken) -> Self {
        Self { progress: progress.0.subscribe(), going_down, cancel }
    }

    async fn reaches(&self, wanted: impl Fn(&Stage) -> bool) -> bool {
        let mut progress = self.progress.clone();
        let found = progress.wait_for(|p| wanted(&p.stage) || matches!(p.stage, Stage::Ended(_))).await;
        found.is_ok_and(|progress| wanted(&progress.stage))
    }

    /// Waits until the node is registered and its lease held; `false`: it has ended. Cancel-safe.
    pub async fn ready(&self) -> bool {
        self.reaches(|stage| matches!(stage, Stage::Registered | Stage::GoesDown)).await
    }

    /// What the API refuses at the moment, for people; `None`: it answers.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.progress.borrow().trouble.clone()
    }

    /// Says that the node goes down (or does not after all): it is not ready then. Returns at once.
    pub fn going_down(&self, going_down: bool) {
        self.going_down.send_replace(going_down);
    }

    /// Waits until the API knows that the node goes down; `false`: the controller has ended. Cancel-safe.
    pub async fn told_that_it_goes_down(&self) -> bool {
        self.reaches(|stage| matches!(stage, Stage::GoesDown)).await
    }

    /// Waits for the end; the error that it ended with, at any time later as well. Cancel-safe.
    pub async fn done(&self) -> Option<Arc<NodeError>> {
        let mut progress = self.progress.clone();
        let ended = progress.wait_for(|p| matches!(p.stage, Stage::Ended(_))).await.ok()?;
        match &ended.stage {
            Stage::Ended(error) => error.clone(),
            Stage::Unregistered | Stage::Registered | Stage::GoesDown => None,
        }
    }

    /// Ends it. The object and the lease stay. May be called any number of times.
    pub async fn shutdown(&self) -> Option<Arc<NodeError>> {
        self.cancel.cancel();
        self.done().await
    }
}
