//! The semantics of GitLab Runner's pod watcher, for those who move over: one name at a time, one stream of errors, an
//! emit that never blocks, a variant that does nothing.
//!
//! Where it is better on purpose: a name that is updated takes the error of the one before along, deletions that nobody saw
//! happen count, and what leaves the selector and still lives is not deleted.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minke_core::judgement::{Category, Cause, Finding, Verdict};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::{Observer, Report, Subscription, Target, Watcher};

/// Why a Pod is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodError {
    /// `namespace/name`.
    pub pod: String,
    /// The cause.
    pub cause: Cause,
    /// The container and image, where the image is to blame: another pull policy may help.
    pub image: Option<(String, String)>,
    /// What happened.
    pub message: String,
}

impl PodError {
    fn new(report: &Report, cause: Cause, text: String) -> Self {
        let evidence = match &report.verdict {
            Some(Verdict::Failed(failure)) => Some(&failure.evidence),
            Some(Verdict::Doomed { why, .. }) => Some(&why.evidence),
            Some(Verdict::Healthy(_) | Verdict::Waiting { .. } | Verdict::Succeeded) | None => None,
        };
        let pulls = cause.is_pull() && cause != Cause::InvalidImageName;
        let image = evidence.filter(|_| pulls).and_then(|e| e.container.clone().zip(e.image.clone()));
        Self { pod: format!("{}/{}", report.name.0, report.name.1), cause, image, message: text }
    }

    /// The runner's failure reason for it.
    #[must_use]
    pub fn failure_reason(&self) -> &'static str {
        match (self.cause, self.cause.category()) {
            (Cause::ImagePullFailed, _) => "image_pull_failure",
            (Cause::DeadlineExceeded, _) => "job_execution_timeout",
            (Cause::CrashLoop, _) | (_, Category::Configuration) => "runner_configuration_error",
            (_, Category::External) => "runner_external_dependency_failure",
            (_, Category::Program) => "script_failure",
            (_, Category::Infrastructure | Category::Cancelled) => "runner_system_failure",
        }
    }
}

impl fmt::Display for PodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.cause.is_disruption() { "is disrupted: " } else { "" };
        write!(f, "pod {:?} {what}{}", self.pod, self.message)
    }
}

impl std::error::Error for PodError {}

/// The slot of one error: the first that is not read stays, later ones are dropped.
#[derive(Debug, Default)]
struct Slot {
    error: Mutex<Option<PodError>>,
    filled: Notify,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<PodError>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, error: PodError) {
        let mut slot = self.lock();
        if slot.is_some() {
            tracing::debug!(%error, "dropped: the error before has not been read");
            return;
        }
        *slot = Some(error);
        drop(slot);
        self.filled.notify_one();
    }
}

/// A watcher as GitLab Runner has it.
#[derive(Debug)]
pub struct PodWatcher {
    namespace: String,
    /// `None`: watches nothing.
    watcher: Option<Watcher>,
    slot: Arc<Slot>,
    current: Mutex<(u32, Option<AbortHandle>)>,
}

impl PodWatcher {
    /// Over a watcher that has been started.
    #[must_use]
    pub fn new(watcher: Watcher, namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            watcher: Some(watcher),
            slot: Arc::default(),
            current: Mutex::new((0, None)),
        }
    }

    /// One that never yields an error.
    #[must_use]
    pub fn no_op() -> Self {
        Self { namespace: String::new(), watcher: None, slot: Arc::default(), current: Mutex::new((0, None)) }
    }

    /// From now on this Pod is meant. What was found about the one before is forgotten.
    pub fn update_pod_name(&self, name: &str) {
        let Some(watcher) = &self.watcher else { return };
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = current.1.take() {
            before.abort();
        }
        current.0 += 1;
        *self.slot.lock() = None;
        let subscription = watcher.subscribe(Target::named(self.namespace.clone(), name), current.0);
        let task = tokio::spawn(pass_on(subscription, Arc::clone(&self.slot)));
        current.1 = Some(task.abort_handle());
    }

    /// The next error. Waits for ever where there is none.
    ///
    /// # Cancel safety
    /// A dropped call loses nothing.
    pub async fn next_error(&self) -> PodError {
        loop {
            let filled = self.slot.filled.notified();
            if let Some(error) = self.slot.lock().take() {
                return error;
            }
            filled.await;
        }
    }

    /// Stops watching.
    pub fn stop(&mut self) {
        self.watcher = None;
        if let Some(task) = self.current.lock().unwrap_or_else(PoisonError::into_inner).1.take() {
            task.abort();
        }
    }
}

impl Drop for PodWatcher {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn pass_on(mut subscription: Subscription, slot: Arc<Slot>) {
    let mut foretold: Option<Finding> = None;
    loop {
        let report = subscription.changed().await;
        if let Observer::Blind(why) = &report.observer {
            tracing::warn!(why, "pods can't be watched; failures will be found later");
        }
        match &report.verdict {
            Some(Verdict::Failed(failure)) => {
                slot.emit(PodError::new(&report, failure.cause, failure.to_string()));
                return;
            }
            // The runner wants to know of a disruption when it is announced, and once.
            Some(Verdict::Doomed { why, .. }) if why.cause.is_disruption() && why.cause != Cause::NodeGoing => {
                if foretold.as_ref().is_none_or(|before| before.cause != why.cause) {
                    slot.emit(PodError::new(&report, why.cause, why.to_string()));
                    foretold = Some(why.clone());
                }
            }
            Some(Verdict::Doomed { .. } | Verdict::Healthy(_) | Verdict::Waiting { .. }) | None => {}
            Some(Verdict::Succeeded) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> PodError {
        PodError { pod: "ns/a".to_owned(), cause: Cause::Deleted, image: None, message: message.to_owned() }
    }

    #[tokio::test]
    async fn without_a_consumer_the_first_error_stays_and_the_second_is_dropped() {
        let watcher = PodWatcher::no_op();
        watcher.slot.emit(error("first"));
        watcher.slot.emit(error("second"));
        assert_eq!(watcher.next_error().await.message, "first");
        watcher.slot.emit(error("third"));
        assert_eq!(watcher.next_error().await.message, "third");
    }
}
