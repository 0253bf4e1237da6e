//! The handle to the network: callers' side of the network thread.
//!
//! ```text
//! attach, detach, recover ──► queue ──► network thread (worker.rs) ──► reply
//! ```
//! The thread belongs to the network namespace in which [`Network::open`] was called, and so do its sockets. A call
//! that is dropped while it waits is carried out to its end all the same, so nothing is left half-made; a later
//! [`Network::detach`] finds it on disk.

use std::collections::HashSet;

use minke_core::runtime::SandboxId;
use tokio::sync::{mpsc, oneshot};

use super::config::NetworkConfig;
use super::error::NetworkError;
use super::request::{AttachRequest, Attachment};
use super::worker;

/// One call on its way to the network thread.
pub(super) enum Command {
    Attach(AttachRequest, oneshot::Sender<Result<Attachment, NetworkError>>),
    Detach(SandboxId, oneshot::Sender<Result<(), NetworkError>>),
    Recover(HashSet<SandboxId>, oneshot::Sender<Result<(), NetworkError>>),
}

/// The Pod network of one state directory. Cheap to clone; the thread ends after the last clone is gone and the calls
/// under way are done.
#[derive(Debug, Clone)]
pub struct Network {
    commands: mpsc::UnboundedSender<Command>,
}

impl Network {
    /// Starts the network thread in the calling thread's network namespace and prepares the directories. Nothing on
    /// the machine is changed before the first attach. Blocks for about a millisecond.
    ///
    /// # Errors
    /// The state directory can't be written, a bridge name is impossible, or no thread can be started.
    pub fn open(config: NetworkConfig) -> Result<Self, NetworkError> {
        let (commands, queue) = mpsc::unbounded_channel();
        worker::start(config, queue)?;
        Ok(Self { commands })
    }

    /// Gives a sandbox its network: addresses, routes, loopback, host ports. What an earlier attach of the same
    /// sandbox left is undone first.
    ///
    /// # Errors
    /// Says what failed; whatever was made until then is undone.
    pub async fn attach(&self, request: &AttachRequest) -> Result<Attachment, NetworkError> {
        let request = request.clone();
        self.call(|reply| Command::Attach(request, reply)).await
    }

    /// Takes a sandbox's network away, from the records on disk alone: its namespace may be gone, and an attach may
    /// have stopped half-way. Idempotent; after an error a second call continues where the first stopped.
    ///
    /// # Errors
    /// Says what could not be undone; its record stays.
    pub async fn detach(&self, sandbox: &SandboxId) -> Result<(), NetworkError> {
        let sandbox = sandbox.clone();
        self.call(|reply| Command::Detach(sandbox, reply)).await
    }

    /// Undoes everything of sandboxes that are not in `live`, and repairs what the live ones need (bridge, address
    /// translation) where somebody removed it.
    ///
    /// # Errors
    /// The first failure, after everything else was tried.
    pub async fn recover(&self, live: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        let live = live.clone();
        self.call(|reply| Command::Recover(live, reply)).await
    }

    async fn call<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, NetworkError>>) -> Command,
    ) -> Result<T, NetworkError> {
        let stopped = || NetworkError::Stopped { source: None };
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}
