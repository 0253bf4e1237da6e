//! A stream of changes that goes on over the end of agents.

use std::collections::VecDeque;
use std::time::Duration;

use minke_core::identity::PodUid;
use minke_core::runtime::error_chain;
use minke_kubelet::{Admission, PodReport, Progress};

use super::{Client, ConnectError, Connection, RequestError};
use crate::protocol::{Reply, Request};

/// Waits between attempts to find an agent again: it may be killed as often as it starts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After so many failures in a row the watch fails.
const ATTEMPTS: u32 = 8;

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Update {
    /// These are all Pods there are; what is not among them is gone. First of all, and after each reconnection:
    /// requests that were not answered by then never will be.
    All(Vec<PodReport>),
    /// A Pod changed.
    Changed(Box<PodReport>),
    /// A Pod was forgotten.
    Removed(PodUid),
    /// For people; lossy.
    Progress(Progress),
    /// The answer to the oldest [`Request::Apply`] that was not answered yet.
    Admissions(Vec<Admission>),
    /// The agent refused a request.
    Refused(String),
}

/// A watch of some Pods, or of all.
#[derive(Debug)]
pub(crate) struct Watch {
    client: Client,
    uids: Option<Vec<PodUid>>,
    connection: Option<Connection>,
    ready: VecDeque<Reply>,
}

impl Watch {
    /// Watches these Pods, or all. The first update is an [`Update::All`].
    pub(crate) async fn begin(client: &Client, uids: Option<Vec<PodUid>>) -> Result<Self, ConnectError> {
        let mut watch = Self { client: client.clone(), uids, connection: None, ready: VecDeque::new() };
        watch.reconnect().await?;
        Ok(watch)
    }

    /// Sends a request in between. Its answer comes as an update, unless the agent goes away before: then the next
    /// update is an [`Update::All`]. Not cancel-safe.
    pub(crate) async fn send(&mut self, request: &Request) -> Result<(), RequestError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        match connection.send(request, &mut self.ready).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_disconnect() => {
                tracing::debug!(error = %error_chain(&error), "the agent is gone; looking for the next");
                self.connection = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The next update. Cancel-safe: a call dropped while it reconnects starts over with the next one.
    pub(crate) async fn next(&mut self) -> Result<Update, ConnectError> {
        loop {
            let reply = match (self.ready.pop_front(), &mut self.connection) {
                (Some(reply), _) => reply,
                (None, None) => {
                    self.reconnect().await?;
                    continue;
                }
                (None, Some(connection)) => match connection.next().await {
                    Ok(reply) => reply,
                    Err(error) => {
                        tracing::debug!(error = %error_chain(&error), "the agent is gone; looking for the next");
                        self.connection = None;
                        continue;
                    }
                },
            };
            return Ok(match reply {
                Reply::Reports(reports) => Update::All(reports),
                Reply::Change(report) => Update::Changed(report),
                Reply::Removed(uid) => Update::Removed(uid),
                Reply::Progress(progress) => Update::Progress(progress),
                Reply::Admissions(admissions) => Update::Admissions(admissions),
                Reply::Error(message) => Update::Refused(message),
                // A Pod that is not there needs no stopping, and stops are seen by what they do.
                Reply::Done
                | Reply::UnknownPod(_)
                | Reply::ExecRefused { .. }
                | Reply::Hello(_)
                | Reply::Metrics(_)
                | Reply::Usage(..)
                | Reply::Node(_)
                | Reply::Timelines(_) => continue,
            });
        }
    }

    async fn reconnect(&mut self) -> Result<(), ConnectError> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let error = match self.client.connect().await {
                Ok(mut connection) => match connection.begin_watch(self.uids.clone()).await {
                    Ok(reports) => {
                        self.connection = Some(connection);
                        self.ready = VecDeque::from([Reply::Reports(reports)]);
                        return Ok(());
                    }
                    Err(error) => {
                        tracing::debug!(error = %error_chain(&error), "the agent went away");
                        ConnectError::NoAnswer { path: self.client.place().socket() }
                    }
                },
                // Neither gets better by trying again.
                Err(error @ (ConnectError::Incompatible { .. } | ConnectError::Socket { .. })) => return Err(error),
                Err(error) => error,
            };
            if attempt == ATTEMPTS || !error.may_pass() {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl ConnectError {
    /// Whether another attempt can succeed without anybody acting.
    fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { .. } => true,
            Self::Start(error) => error.may_pass(),
            Self::Socket { .. } | Self::Incompatible { .. } | Self::OtherRuntime { .. } => false,
        }
    }
}
