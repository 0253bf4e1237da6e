//! One pull for all who want the same at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use minke_core::runtime::{Credential, ImageId, PullError, PullProgress, PullRequest};
use tokio::sync::watch;
use tokio::task::AbortHandle;

type Outcome = Result<ImageId, PullError>;
/// The image as it was asked for, and the logins to try. Two Pods with different secrets never share a pull.
type Key = (String, Vec<Credential>);

/// Pulls that are under way.
#[derive(Default)]
pub(super) struct Flights {
    flights: Mutex<HashMap<Key, Weak<Flight>>>,
}

impl std::fmt::Debug for Flights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flights(…)")
    }
}

/// One pull. It ends when the last one who waits for it is gone.
struct Flight {
    outcome: watch::Receiver<Option<Outcome>>,
    listeners: Arc<Listeners>,
    task: AbortHandle,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Everybody who watches one pull.
#[derive(Default)]
struct Listeners(Mutex<Vec<Arc<dyn PullProgress>>>);

impl PullProgress for Listeners {
    fn layer(&self, digest: &str, done: u64, total: u64) {
        for listener in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener.layer(digest, done, total);
        }
    }
}

impl Flights {
    /// Waits for the pull that is under way, or starts one with `pull`.
    pub(super) async fn join<F>(&self, request: &PullRequest, pull: impl FnOnce(PullRequest) -> F) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let flight = self.board(request, pull);
        let mut outcome = flight.outcome.clone();
        match outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            // The task panicked; its message is in the log.
            Ok(None) | Err(_) => {
                Err(PullError::Storage { image: request.image.clone(), message: "the pull ended early".to_owned() })
            }
        }
    }

    fn board<F>(&self, request: &PullRequest, pull: impl FnOnce(PullRequest) -> F) -> Arc<Flight>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.strong_count() > 0);
        let key = (request.image.clone(), request.credentials.clone());
        // One that has landed already would answer with what was true before.
        let current = flights.get(&key).and_then(Weak::upgrade).filter(|flight| flight.outcome.borrow().is_none());
        if let Some(flight) = current {
            flight.listeners.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&request.progress));
            return flight;
        }
        let listeners = Arc::new(Listeners(Mutex::new(vec![Arc::clone(&request.progress)])));
        let (sender, outcome) = watch::channel(None);
        let future = pull(PullRequest {
            image: request.image.clone(),
            credentials: request.credentials.clone(),
            progress: Arc::<Listeners>::clone(&listeners),
        });
        let task = tokio::spawn(async move {
            let _ = sender.send(Some(future.await));
        });
        let flight = Arc::new(Flight { outcome, listeners, task: task.abort_handle() });
        flights.insert(key, Arc::downgrade(&flight));
        flight
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use minke_core::runtime::NoProgress;
    use tokio::sync::Notify;

    use super::*;

    fn request(image: &str, password: Option<&str>) -> PullRequest {
        let credentials = password.map(|p| Credential::RegistryToken(p.into())).into_iter().collect();
        PullRequest { image: image.into(), credentials, progress: Arc::new(NoProgress) }
    }

    /// Pulls that count themselves and wait for `go`.
    #[derive(Default)]
    struct Pulls {
        flights: Flights,
        started: AtomicUsize,
        dropped: Arc<AtomicUsize>,
        go: Arc<Notify>,
    }

    struct CountDrop(Arc<AtomicUsize>);

    impl Drop for CountDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Pulls {
        async fn pull(self: Arc<Self>, request: PullRequest) -> Outcome {
            let (go, dropped) = (Arc::clone(&self.go), Arc::clone(&self.dropped));
            self.flights
                .join(&request, |_| {
                    self.started.fetch_add(1, Ordering::SeqCst);
                    let count = CountDrop(dropped);
                    async move {
                        let _count = count;
                        go.notified().await;
                        Ok(ImageId("x".into()))
                    }
                })
                .await
        }
    }

    #[tokio::test]
    async fn equal_pulls_are_one_and_others_are_not() {
        let pulls = Arc::new(Pulls::default());
        let same: Vec<_> = (0..10).map(|_| tokio::spawn(Arc::clone(&pulls).pull(request("a", None)))).collect();
        let other = tokio::spawn(Arc::clone(&pulls).pull(request("a", Some("secret"))));
        while pulls.started.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        pulls.go.notify_waiters();
        for task in same {
            assert_eq!(task.await.unwrap(), Ok(ImageId("x".into())));
        }
        assert_eq!(other.await.unwrap(), Ok(ImageId("x".into())));
        assert_eq!(pulls.started.load(Ordering::SeqCst), 2);
        assert_eq!(pulls.dropped.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_pull_ends_with_its_last_caller_and_can_start_again() {
        let pulls = Arc::new(Pulls::default());
        let first = tokio::spawn(Arc::clone(&pulls).pull(request("a", None)));
        let second = tokio::spawn(Arc::clone(&pulls).pull(request("a", None)));
        while pulls.started.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        first.abort();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pulls.dropped.load(Ordering::SeqCst), 0, "somebody still waits");
        second.abort();
        while pulls.dropped.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let third = tokio::spawn(Arc::clone(&pulls).pull(request("a", None)));
        while pulls.started.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        pulls.go.notify_one();
        assert_eq!(third.await.unwrap(), Ok(ImageId("x".into())));
    }

    #[tokio::test]
    async fn a_pull_that_panics_is_an_error_of_its_callers() {
        let flights = Flights::default();
        let outcome = flights.join(&request("a", None), |_| async { panic!("on purpose") }).await;
        assert!(matches!(outcome, Err(PullError::Storage { .. })));
    }
}
