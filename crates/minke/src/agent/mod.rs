//! The agent: the process that holds the kubelet core over the instance's runtime and supervises Pods.
//!
//! ```text
//! lock the state directory ─► open the runtime, adopt what runs ─► listen ─► ready ─► serve ─► end
//!                                                                                      │
//!                     told to (signal, Shutdown), or started on demand and idle ◄──────┘
//! ```
//!
//! It ends without touching Pods: their shims go on, and the next agent adopts them. [`lock`] keeps it the only one
//! of its state directory, [`companion`] is what goes on beside it in its process, [`mod@idle`] says when one that was
//! started on demand has nothing left to do, [`end`] why it ends. [`connection`] serves one client, [`exec`] one whose
//! connection carries a command's or program's streams, [`connect`] one whose carries a port's bytes.
//!
//! An instance that `minke down` has ended is begun again by an agent that somebody wants for itself, not by one that a
//! command starts on its way.

mod companion;
mod connect;
mod connection;
mod core;
mod end;
mod exec;
mod idle;
mod input;
mod listener;
pub(crate) mod lock;
mod notify;
mod ready;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use minke_kubelet::{Kubelet, StaticSource};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::end::End;
use self::idle::Idle;
use self::listener::Listener;
use self::lock::{Lock, LockError};
use self::notify::Notifier;
use crate::exit::Failure;
use crate::place::Place;
use crate::protocol::Identity;

pub(crate) use self::companion::{Alone, Companion};
#[cfg(test)]
use self::core::settings;
pub(crate) use self::core::{CoreError, Overrides, Settings, node_name, open_runtime};
pub(crate) use ready::{Readiness, Ready};

/// Clients get so long to take their last messages when the agent ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// An agent that was told to end has let go of its lock by then.
const LONGEST_END: Duration = Duration::from_secs(15);
/// One that begins answers by then. Less than what a command waits for the agent that it starts.
const LONGEST_BEGINNING: Duration = Duration::from_secs(25);
/// Between two looks whether it does.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How this agent was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By an operator or a service manager: stays until told otherwise.
    Service,
    /// The same, in the place of one that was told to end a moment ago.
    Replacement,
    /// By a command that needed it: ends when nobody does.
    OnDemand,
}

/// The agent can't run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// A directory can't be made.
    #[error("can't make the directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is an agent already, or the lock file is unusable.
    #[error("this state directory has an agent already")]
    Lock(#[source] LockError),
    /// `minke down` has ended the instance.
    #[error("this instance is down")]
    Down,
    /// The instance can't be begun again.
    #[error("can't begin the instance again")]
    Revive(#[source] std::io::Error),
    /// The runtime or the kubelet core can't start.
    #[error("the agent can't start")]
    Core(#[source] CoreError),
    /// The socket can't be made.
    #[error("can't listen on {path}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Signals can't be watched.
    #[error("can't watch for signals")]
    Signals(#[source] std::io::Error),
    /// What goes on beside the agent can't begin, or can't go on.
    #[error("{}", .0.message)]
    Companion(Failure),
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    kubelet: Kubelet,
    identity: Identity,
    clients: watch::Sender<usize>,
    ending: CancellationToken,
}

/// Runs an agent until it ends. `ready` is told once commands can connect and the companion is of use.
pub(crate) async fn run(
    place: &Place,
    mode: Mode,
    settings: &Settings,
    ready: &mut Readiness,
    companion: &mut dyn Companion,
) -> Result<(), AgentError> {
    // Each command and connection with streams takes some.
    minke_oci::raise_open_files();
    for directory in [&place.state, &place.run, &place.logs] {
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, if *directory == place.logs { 0o755 } else { 0o700 });
        builder
            .recursive(true)
            .create(directory)
            .map_err(|source| AgentError::Directory { path: directory.clone(), source })?;
    }
    let lock = match mode {
        Mode::Service => Lock::try_take(&place.agent_lock()).map(Some),
        // The one before was told to end.
        Mode::Replacement => lock::wait_bounded(place.agent_lock(), LONGEST_END).await.map(Some),
        Mode::OnDemand => free_or_answered(place).await,
    };
    let Some(lock) = lock.map_err(AgentError::Lock)? else {
        tracing::info!("another agent answers by now; this one is not needed");
        ready.tell(&Ready::Listening);
        return Ok(());
    };
    match mode {
        Mode::Service | Mode::Replacement => place.set_down(false).map_err(AgentError::Revive)?,
        // It would start the Pods again that were stopped. Looked at under the lock: what ends an instance has marked it before
        // its agent lets go.
        Mode::OnDemand if place.is_down() => return Err(AgentError::Down),
        Mode::OnDemand => {}
    }
    lock.until_exit();
    let (kubelet, backend) = core::start(place, settings).await.map_err(AgentError::Core)?;
    let notifier = match mode {
        Mode::Service | Mode::Replacement => Notifier::from_environment(),
        // What the environment says is meant for the command that started it.
        Mode::OnDemand => Notifier::default(),
    };
    let served = match companion.start(&kubelet).await {
        Ok(()) => companion.served(),
        Err(failure) => {
            companion.stop().await;
            kubelet.shutdown().await;
            return Err(AgentError::Companion(failure));
        }
    };
    let identity = Identity { runtime: Some(backend.to_string()), served, ..Identity::own() };
    let ended =
        serve(place, mode, &settings.static_sources, &notifier, ready, (kubelet.clone(), identity), companion).await;
    companion.stop().await;
    kubelet.shutdown().await;
    ended
}

/// The lock, once it is free. Whoever starts an agent on demand has seen none answer, so a holder of the lock is about
/// to end, or about to answer: a service that takes the place of another. `None` if one answers.
async fn free_or_answered(place: &Place) -> Result<Option<Lock>, LockError> {
    let answered = async {
        while tokio::net::UnixStream::connect(place.socket()).await.is_err() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        lock = lock::wait_bounded(place.agent_lock(), LONGEST_BEGINNING) => lock.map(Some),
        () = answered => Ok(None),
    }
}

/// Serves commands until the agent ends.
async fn serve(
    place: &Place,
    mode: Mode,
    sources: &[StaticSource],
    notifier: &Notifier,
    ready: &mut Readiness,
    (kubelet, identity): (Kubelet, Identity),
    companion: &mut dyn Companion,
) -> Result<(), AgentError> {
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt()]
        .map(|kind| signal(kind).map_err(AgentError::Signals))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let listener =
        Listener::bind(&place.socket()).map_err(|source| AgentError::Listen { path: place.socket(), source })?;
    let shared = Arc::new(Shared {
        kubelet: kubelet.clone(),
        identity,
        clients: watch::Sender::new(0),
        ending: CancellationToken::new(),
    });
    tracing::info!(state = %place.state.display(), pods = kubelet.reports().len(), "the agent is ready");
    let _static_pods = (!sources.is_empty()).then(|| kubelet.keep_static(sources.to_vec()));
    ready.tell(&Ready::Listening);
    notifier.ready(kubelet.reports().len());

    let connections = TaskTracker::new();
    let accept = accept(&listener, &shared, &connections);
    let told = async {
        let [terminate, interrupt] = signals.as_mut_slice() else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => End::Terminated,
            _ = interrupt.recv() => End::Interrupted,
            () = shared.ending.cancelled() => End::Asked,
        }
    };
    let end = tokio::select! {
        never = accept => match never {},
        never = notifier.alive() => match never {},
        end = told => end,
        () = idle(&shared), if mode == Mode::OnDemand => End::Idle,
        failure = companion.run() => End::Companion(failure),
    };
    if matches!(end, End::Terminated) {
        companion.terminating();
    }
    tracing::info!(reason = %end, "the agent ends");
    notifier.stopping();
    // Nobody new: a command that connected but was not greeted finds the socket gone and starts the next agent.
    drop(listener);
    shared.ending.cancel();
    connections.close();
    if tokio::time::timeout(LAST_WORDS, connections.wait()).await.is_err() {
        tracing::warn!(clients = connections.len(), "clients did not take their last messages");
    }
    match end {
        End::Companion(failure) => Err(AgentError::Companion(failure)),
        End::Terminated | End::Interrupted | End::Asked | End::Idle => Ok(()),
    }
}

async fn accept(listener: &Listener, shared: &Arc<Shared>, connections: &TaskTracker) -> std::convert::Infallible {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let guard = ClientGuard::new(shared);
                let shared = shared.clone();
                connections.spawn(async move {
                    connection::serve(stream, &shared).await;
                    drop(guard);
                });
            }
            // Out of file descriptors, most likely; accepting again at once would spin.
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Counts a client as long as it lives.
struct ClientGuard(Arc<Shared>);

impl ClientGuard {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.clients.send_modify(|n| *n += 1);
        Self(shared.clone())
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.clients.send_modify(|n| *n -= 1);
    }
}

/// Returns when nobody has needed the agent for a while.
async fn idle(shared: &Shared) {
    let mut clients = shared.clients.subscribe();
    let mut pods = shared.kubelet.subscribe();
    let mut idle = Idle::Needed;
    loop {
        let now = Instant::now();
        let count = *clients.borrow_and_update();
        idle = idle.step(count, !shared.kubelet.is_idle(), now);
        // Whether Pods are live is not told, only their changes are; so it is looked at again every now and then.
        let wake = idle.deadline().unwrap_or(now + idle::LINGER);
        tokio::select! {
            () = tokio::time::sleep_until(wake) => {
                if idle.is_over(Instant::now()) && shared.kubelet.is_idle() {
                    return;
                }
            }
            _ = clients.changed() => {}
            _ = pods.next() => {}
        }
    }
}

#[cfg(test)]
mod tests;
