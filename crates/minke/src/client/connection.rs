//! One connection to the agent: requests and their answers.

use std::collections::VecDeque;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::{AttachRequest, ExecRequest};
use minke_kubelet::timeline::Timelines;
use minke_kubelet::{NodeReport, PodReport, PodUse};
use tokio::net::UnixStream;

use crate::exit::Failure;
use crate::protocol::{Channel, ChannelError, Identity, PieceReader, PieceWriter, Reply, Request};

/// The agent answers a greeting at once, or it is stuck.
const GREETING: Duration = Duration::from_secs(10);

/// A request that was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The connection failed.
    #[error("the agent can't be asked to {what}")]
    Channel {
        /// The request.
        what: &'static str,
        /// Why.
        #[source]
        source: ChannelError,
    },
    /// The agent refused.
    #[error("the agent can't {what}: {message}")]
    Refused {
        /// The request.
        what: &'static str,
        /// Why.
        message: String,
    },
    /// The agent gave an answer that does not fit the question.
    #[error("the agent answers a request to {what} with something else; it may be another version")]
    Unexpected {
        /// The request.
        what: &'static str,
    },
    /// The agent does not know the Pod.
    #[error("the agent knows no pod with uid {0}")]
    UnknownPod(PodUid),
}

impl RequestError {
    /// Whether the agent may simply be gone.
    pub(crate) fn is_disconnect(&self) -> bool {
        matches!(self, Self::Channel { source, .. } if source.is_disconnect())
    }

    fn unexpected(what: &'static str, reply: Reply) -> Self {
        match reply {
            Reply::Error(message) => Self::Refused { what, message },
            Reply::UnknownPod(uid) => Self::UnknownPod(uid),
            Reply::Hello(_)
            | Reply::Admissions(_)
            | Reply::Reports(_)
            | Reply::Change(_)
            | Reply::Removed(_)
            | Reply::Progress(_)
            | Reply::Usage(..)
            | Reply::Node(_)
            | Reply::Metrics(_)
            | Reply::ExecRefused { .. }
            | Reply::Timelines(_)
            | Reply::Done => Self::Unexpected { what },
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::from_error(&error)
    }
}

/// A command that was not started.
#[derive(Debug)]
pub(crate) struct Refused {
    /// What a shell would return, where the program is at fault.
    pub(crate) exit_code: Option<u8>,
    /// Why.
    pub(crate) message: String,
}

/// A greeted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    agent: Identity,
}

async fn ask(channel: &mut Channel, what: &'static str, request: &Request) -> Result<Reply, RequestError> {
    let failed = |source| RequestError::Channel { what, source };
    channel.send(request).await.map_err(failed)?;
    channel.receive().await.map_err(failed)
}

impl Connection {
    pub(super) async fn greet(stream: UnixStream, own: &Identity) -> Result<Self, RequestError> {
        let mut channel = Channel::new(stream);
        let hello = Request::Hello(own.clone());
        let ask = ask(&mut channel, "greet", &hello);
        let timed_out = |_| RequestError::Refused { what: "greet", message: "no answer in time".to_owned() };
        match tokio::time::timeout(GREETING, ask).await.map_err(timed_out)?? {
            Reply::Hello(agent) => Ok(Self { channel, agent }),
            other => Err(RequestError::unexpected("greet", other)),
        }
    }

    /// Whom it is to.
    pub(crate) fn agent(&self) -> &Identity {
        &self.agent
    }

    async fn ask(&mut self, what: &'static str, request: &Request) -> Result<Reply, RequestError> {
        ask(&mut self.channel, what, request).await
    }

    /// All Pods.
    pub(crate) async fn list(&mut self) -> Result<Vec<PodReport>, RequestError> {
        match self.ask("list pods", &Request::List).await? {
            Reply::Reports(reports) => Ok(reports),
            other => Err(RequestError::unexpected("list pods", other)),
        }
    }

    /// What Pods use, and what is left of the machine.
    pub(crate) async fn usage(&mut self) -> Result<(Vec<PodUse>, NodeReport), RequestError> {
        match self.ask("tell what pods use", &Request::Usage).await? {
            Reply::Usage(pods, node) => Ok((pods, node)),
            other => Err(RequestError::unexpected("tell what pods use", other)),
        }
    }

    /// What the machine is short of.
    pub(crate) async fn node(&mut self) -> Result<NodeReport, RequestError> {
        match self.ask("tell about the machine", &Request::Node).await? {
            Reply::Node(node) => Ok(node),
            other => Err(RequestError::unexpected("tell about the machine", other)),
        }
    }

    /// The agent's metrics as text.
    pub(crate) async fn metrics(&mut self) -> Result<String, RequestError> {
        match self.ask("tell its metrics", &Request::Metrics).await? {
            Reply::Metrics(text) => Ok(text),
            other => Err(RequestError::unexpected("tell its metrics", other)),
        }
    }

    /// When things happened to these Pods (`None`: to all).
    pub(crate) async fn timelines(&mut self, uids: Option<Vec<PodUid>>) -> Result<Timelines, RequestError> {
        match self.ask("tell a timeline", &Request::Timeline { uids }).await? {
            Reply::Timelines(timelines) => Ok(timelines),
            other => Err(RequestError::unexpected("tell a timeline", other)),
        }
    }

    /// Begins to stop a Pod, and to forget it if `remove`.
    pub(crate) async fn stop(
        &mut self,
        uid: &PodUid,
        grace: Option<Duration>,
        remove: bool,
    ) -> Result<(), RequestError> {
        let grace_ms = grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
        match self.ask("stop a pod", &Request::Stop { uid: uid.clone(), grace_ms, remove }).await? {
            Reply::Done => Ok(()),
            other => Err(RequestError::unexpected("stop a pod", other)),
        }
    }

    /// Ends the agent; returns when it has closed the connection.
    pub(crate) async fn shutdown(mut self) -> Result<(), RequestError> {
        match self.ask("end", &Request::Shutdown).await? {
            Reply::Done => {}
            other => return Err(RequestError::unexpected("end", other)),
        }
        match self.channel.receive::<Reply>().await {
            Err(error) if error.is_disconnect() => Ok(()),
            Ok(_) | Err(_) => Err(RequestError::Unexpected { what: "end" }),
        }
    }

    /// Starts a command. The connection then carries its streams: see [`Connection::pieces`].
    pub(crate) async fn exec(
        &mut self,
        uid: &PodUid,
        container: &str,
        request: &ExecRequest,
    ) -> Result<Result<(), Refused>, RequestError> {
        let request = Request::Exec { uid: uid.clone(), container: container.to_owned(), request: request.clone() };
        self.begin("run a command", &request).await
    }

    /// Joins a program. The connection then carries its streams.
    pub(crate) async fn attach(
        &mut self,
        uid: &PodUid,
        container: &str,
        request: AttachRequest,
    ) -> Result<Result<(), Refused>, RequestError> {
        let request = Request::Attach { uid: uid.clone(), container: container.to_owned(), request };
        self.begin("join a container", &request).await
    }

    /// Connects to a port of a Pod. The connection then carries its bytes.
    pub(crate) async fn connect_port(&mut self, uid: &PodUid, port: u16) -> Result<Result<(), Refused>, RequestError> {
        self.begin("connect to a port", &Request::Connect { uid: uid.clone(), port }).await
    }

    async fn begin(&mut self, what: &'static str, request: &Request) -> Result<Result<(), Refused>, RequestError> {
        match self.ask(what, request).await? {
            Reply::Done => Ok(Ok(())),
            Reply::ExecRefused { exit_code, message } => Ok(Err(Refused { exit_code, message })),
            other => Err(RequestError::unexpected(what, other)),
        }
    }

    /// Both directions of a connection that carries streams.
    pub(crate) fn pieces(&mut self) -> (PieceReader<'_>, PieceWriter<'_>) {
        self.channel.pieces()
    }

    /// Sends without waiting for the answer, and takes in meanwhile what comes. Not cancel-safe.
    pub(super) async fn send(&mut self, request: &Request, received: &mut VecDeque<Reply>) -> Result<(), RequestError> {
        let failed = |source| RequestError::Channel { what: "send a request", source };
        self.channel.send_and_receive(request, received).await.map_err(failed)
    }

    pub(super) async fn begin_watch(&mut self, uids: Option<Vec<PodUid>>) -> Result<Vec<PodReport>, RequestError> {
        match self.ask("watch pods", &Request::Watch { uids }).await? {
            Reply::Reports(reports) => Ok(reports),
            other => Err(RequestError::unexpected("watch pods", other)),
        }
    }

    /// The next message of a watch. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Reply, RequestError> {
        self.channel.receive().await.map_err(|source| RequestError::Channel { what: "watch pods", source })
    }
}
