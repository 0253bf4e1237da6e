//! The commands' side of the agent's socket.
//!
//! [`Client::connect`] finds the agent of a state directory or starts one ([`start`]), greets it and gives a
//! [`Connection`]. [`Watch`] is a stream of changes that outlives agents: when one is killed, it starts or finds
//! the next and goes on from a fresh list.

mod connection;
mod start;
mod watch;

use std::io;
use std::path::PathBuf;

use minke_core::runtime::error_chain;
use tokio::net::UnixStream;

pub(crate) use connection::{Connection, RequestError};
pub(crate) use start::StartError;

pub(crate) use watch::{Update, Watch};

use crate::backend::{self, Backend, Wanted};
use crate::exit::Failure;
use crate::place::Place;
use crate::protocol::{Identity, Skew};

/// An agent that ends just as a command connects is found gone; this many times in a row is not chance.
const ATTEMPTS: usize = 5;

/// How to reach the agent of one state directory.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    place: Place,
    log_level: String,
    /// The subcommand that agents are started by, with its arguments.
    subcommand: Vec<String>,
    identity: Identity,
}

/// The agent can't be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The socket is there and can't be used.
    #[error("can't connect to the agent at {path}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No agent can be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The agent speaks another protocol.
    #[error("the agent (process {pid}) is version {agent} and can't talk to this command, version {command}")]
    Incompatible {
        /// The agent's process.
        pid: u32,
        /// Its version.
        agent: String,
        /// Ours.
        command: String,
    },
    /// The agent has another container runtime.
    #[error("the agent (process {pid}) has the container runtime {has}, not {wanted}")]
    OtherRuntime {
        /// The agent's process.
        pid: u32,
        /// What it has.
        has: String,
        /// What was asked for.
        wanted: Wanted,
    },
    /// Every agent that was reached went away before it answered.
    #[error("the agent at {path} ends before it answers, again and again")]
    NoAnswer {
        /// The socket.
        path: PathBuf,
    },
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let failure = Self::from_error(&error);
        match &error {
            ConnectError::Socket { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                failure.hint("the agent belongs to another user; run this as root, for example with sudo")
            }
            ConnectError::Socket { .. } => failure,
            ConnectError::Start(error) => match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
            ConnectError::Incompatible { .. } => failure.hint(
                "`minke agent --replace --background` puts this version in its place; Pods keep running meanwhile",
            ),
            ConnectError::OtherRuntime { .. } => failure.hint(
                "leave --runtime out to use the agent's; for another runtime remove its pods (`minke rm --all --force`) and end \
                 it, or use another --state-dir",
            ),
            ConnectError::NoAnswer { .. } => failure.hint("look into agent.log in the state directory"),
        }
    }
}

impl Client {
    /// A client for this instance; agents that it starts log at this level.
    pub(crate) fn new(place: Place, log_level: impl Into<String>) -> Self {
        let subcommand = vec!["agent".to_owned(), "--on-demand".to_owned()];
        Self { place, log_level: log_level.into(), subcommand, identity: Identity::own() }
    }

    /// The same, and agents that it starts get these settings.
    pub(crate) fn with_agent_arguments(&self, arguments: Vec<String>) -> Self {
        let mut changed = self.clone();
        changed.subcommand.extend(arguments);
        changed
    }

    /// The same, and agents that it starts are started by this subcommand, which says on its standard output when it is
    /// ready, as `agent --on-demand` does.
    pub(crate) fn starting(&self, subcommand: Vec<String>) -> Self {
        Self { subcommand, ..self.clone() }
    }

    /// The instance.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Connects to the agent, starting one if none answers.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        let mut failed = ConnectError::NoAnswer { path: self.place.socket() };
        for _ in 0..ATTEMPTS {
            if let Some(connection) = self.connect_running().await? {
                return Ok(connection);
            }
            match start::start(&self.place, &self.log_level, &self.subcommand).await {
                Ok(()) => {}
                Err(error) if error.may_pass() => failed = error.into(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(failed)
    }

    /// Asks the agent something that can be asked again: if the agent goes away meanwhile, the next one is asked.
    /// Starts one if none answers.
    pub(crate) async fn ask<T>(
        &self,
        question: impl AsyncFn(&mut Connection) -> Result<T, RequestError>,
    ) -> Result<T, Failure> {
        for _ in 1..ATTEMPTS {
            match question(&mut self.connect().await?).await {
                Err(error) if error.is_disconnect() => {
                    tracing::debug!(error = %error_chain(&error), "the agent went away; asking the next");
                }
                answer => return Ok(answer?),
            }
        }
        Ok(question(&mut self.connect().await?).await?)
    }

    /// Connects to the agent if one answers.
    pub(crate) async fn connect_running(&self) -> Result<Option<Connection>, ConnectError> {
        let Some(connection) = self.greet_running().await? else { return Ok(None) };
        self.fits(connection.agent())?;
        Ok(Some(connection))
    }

    /// Whether commands can talk to this agent, and it has the container runtime that is asked for.
    fn fits(&self, agent: &Identity) -> Result<(), ConnectError> {
        match agent.skew(&self.identity) {
            Skew::None => {}
            Skew::Different => tracing::warn!(
                agent = agent.version,
                command = self.identity.version,
                "the agent (process {}) is another build of minke; `minke agent --replace --background` takes over",
                agent.pid
            ),
            Skew::Incompatible => {
                return Err(ConnectError::Incompatible {
                    pid: agent.pid,
                    agent: agent.version.clone(),
                    command: self.identity.version.clone(),
                });
            }
        }
        if let Some(has) = self.other_runtime(agent)
            && let Some(wanted) = self.place.backend.clone()
        {
            return Err(ConnectError::OtherRuntime { pid: agent.pid, has, wanted });
        }
        Ok(())
    }

    /// The agent's container runtime, if another one is asked for.
    pub(crate) fn other_runtime(&self, agent: &Identity) -> Option<String> {
        let (wanted, has) = (self.place.backend.as_ref()?, agent.runtime.as_ref()?);
        let is_wanted = Backend::parse(has).is_some_and(|backend| wanted.is(&backend));
        (!is_wanted).then(|| has.clone())
    }

    /// Connects to the agent if one answers, whatever its version.
    pub(crate) async fn greet_running(&self) -> Result<Option<Connection>, ConnectError> {
        let path = self.place.socket();
        let stream = match UnixStream::connect(&path).await {
            Ok(stream) => stream,
            Err(error) if nobody_listens(&error) => return Ok(None),
            Err(source) => return Err(ConnectError::Socket { path, source }),
        };
        match Connection::greet(stream, &self.identity).await {
            Ok(greeted) => Ok(Some(greeted)),
            Err(error) => {
                tracing::debug!(error = %error_chain(&error), "the agent went away before it answered");
                Ok(None)
            }
        }
    }

    /// Whether the state directory may hold Pods. Without any, there is nothing to start an agent for.
    pub(crate) fn may_have_pods(&self) -> bool {
        backend::may_have_pods(&self.place.state)
    }
}

/// Whether there is no agent. A reset is one that closed its socket while the connection waited to be accepted.
fn nobody_listens(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset)
}
