//! The runtime itself: what it owns, and how each call is made.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use minke_core::clock::Clock;
use minke_core::identity::PodUid;
use minke_core::runtime::{Operation, RuntimeError};
use tonic::{Response, Status};

use crate::cgroup::Groups;
use crate::connection::Connection;
use crate::error::{Subject, is_starting, is_transport, runtime_error, transport_words};
use crate::events::Events;
use crate::greeting::{OpenError, greet};
use crate::health::{Watchman, late, pulse};
use crate::{Endpoint, Facts, deadline};

/// How the runtime is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriConfig {
    /// Its socket.
    pub endpoint: Endpoint,
}

/// A container runtime behind CRI v1: the whole Runtime port. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CriRuntime {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Connection,
    pub(crate) facts: Facts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watchman: Watchman,
    pub(crate) events: Events,
    pub(crate) groups: Groups,
    pods: Mutex<HashMap<String, PodUid>>,
}

impl CriRuntime {
    /// Connects and learns what the runtime is and can. Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// What is in the way and what to do about it.
    pub async fn open(config: CriConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let CriConfig { endpoint } = config;
        let connection = Connection::new(endpoint.path());
        Self::over(endpoint, connection, clock).await
    }

    /// The same over this connection.
    pub(crate) async fn over(
        endpoint: Endpoint,
        connection: Connection,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let facts = greet(&endpoint, &connection).await?;
        tracing::info!(
            runtime = facts.name,
            version = facts.version,
            endpoint = %endpoint,
            cgroups = ?facts.cgroup_driver,
            "connected to the container runtime"
        );
        for unmet in &facts.unmet {
            tracing::warn!(unmet, "the container runtime is not ready for everything");
        }
        let watchman = Watchman::new();
        let groups = Groups::of_this_machine(facts.cgroup_driver);
        let (events, pods) = (Events::default(), Mutex::default());
        let inner = Arc::new(Inner { endpoint, connection, facts, clock, watchman, events, groups, pods });
        tokio::spawn(pulse(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// What the runtime said of itself when it was greeted.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// Its socket.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// Makes a call that changes something to its end in a task of its own, so that a caller who stops waiting cuts
    /// nothing off in the runtime's middle.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        operation: Operation,
        change: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        match tokio::spawn(change).await {
            Ok(result) => result,
            Err(e) => Err(RuntimeError::failed(operation, e)),
        }
    }
}

/// A call that was not answered as it should be.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The runtime refused, or can't be reached.
    Status(Status),
    /// No answer in time.
    TimedOut(Duration),
}

impl CallError {
    pub(crate) fn into_runtime(self, operation: Operation, subject: Subject<'_>) -> RuntimeError {
        match self {
            Self::Status(status) => runtime_error(operation, subject, None, &status),
            Self::TimedOut(after) => RuntimeError::TimedOut { operation, after },
        }
    }

    /// The runtime's refusal, if it is one.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::TimedOut(_) => None,
        }
    }
}

impl Inner {
    /// Makes a call within a bound. Dropping it cancels it at the runtime.
    pub(crate) async fn bounded<T>(
        &self,
        bound: Option<Duration>,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CallError> {
        let answer = match bound {
            Some(bound) => tokio::time::timeout(bound, call).await.map_err(|_| CallError::TimedOut(bound)),
            None => Ok(call.await),
        };
        match answer {
            Ok(Ok(response)) => {
                self.watchman.answered();
                Ok(response.into_inner())
            }
            Ok(Err(status)) => {
                if is_transport(&status) {
                    self.watchman.silent(|| transport_words(&status));
                } else if is_starting(&status) {
                    self.watchman.silent(|| "it is starting".to_owned());
                } else {
                    self.watchman.answered();
                }
                Err(CallError::Status(status))
            }
            Err(error) => {
                self.watchman.silent(|| late(bound.unwrap_or_default()));
                Err(error)
            }
        }
    }

    /// Makes a call with the usual bound.
    pub(crate) async fn call<T>(
        &self,
        operation: Operation,
        subject: Subject<'_>,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RuntimeError> {
        self.bounded(Some(deadline::CALL), call).await.map_err(|e| e.into_runtime(operation, subject))
    }

    /// Makes a call that changes nothing and that a runtime answers at once. One that hangs is known long before the bound.
    pub(crate) async fn question<T>(
        &self,
        operation: Operation,
        subject: Subject<'_>,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RuntimeError> {
        let mut call = pin!(self.call(operation, subject, call));
        if let Ok(answer) = tokio::time::timeout(deadline::QUIET, &mut call).await {
            return answer;
        }
        let _hanging = self.watchman.hangs(|| format!("{operation}: {}", late(deadline::QUIET)));
        call.await
    }

    /// Which Pod each sandbox is of, as last seen: events of a removed one don't say.
    pub(crate) fn pods(&self) -> MutexGuard<'_, HashMap<String, PodUid>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
