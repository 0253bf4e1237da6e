//! Commands, attached programs and forwarded ports: everything that can be refused is refused before the connection is
//! upgraded; then [`minke_streams`] serves it, in a task of its own.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use minke_core::identity::PodKey;
use minke_core::provider::{AttachRequest, Duplex};
use minke_core::runtime::{ExecRequest, TerminalSize, error_chain};
use minke_streams::negotiate::{self, ExecStreams, Refusal};
use minke_streams::{Connect, Failure, serve_exec, serve_port_forward};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, full, text, unsupported};
use super::handle::{Context, find, has_container};
use super::metrics::OpenSession;
use super::route::Target;

/// A terminal's size until its client tells it.
const SIZE: TerminalSize = TerminalSize { width: 80, height: 24 };

fn refuse(refusal: Refusal) -> Answer {
    let mut answer = text(refusal.status.as_u16(), refusal.message);
    answer.headers_mut().extend(*refusal.headers);
    answer
}

/// 101, with what was agreed on.
fn switch(headers: HeaderMap) -> Answer {
    let mut answer = Answer::new(full(""));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().extend(headers);
    answer
}

/// What a stream holds while it is open.
struct Open {
    context: Arc<Context>,
    ended: CancellationToken,
    _permit: OwnedSemaphorePermit,
    _session: OpenSession,
}

/// Room for one more stream; `None`: there is none.
fn open(context: &Arc<Context>, ended: CancellationToken, path: &'static str) -> Option<Open> {
    let permit = context.streams.clone().try_acquire_owned().ok()?;
    Some(Open { context: context.clone(), ended, _permit: permit, _session: context.counted.session(path) })
}

fn busy() -> Answer {
    text(429, "there are too many streams; try again later")
}

/// The upgraded connection, once the answer is on its way; `None` if the client has gone.
async fn upgraded(request: Request<Incoming>) -> Option<TokioIo<hyper::upgrade::Upgraded>> {
    match hyper::upgrade::on(request).await {
        Ok(upgraded) => Some(TokioIo::new(upgraded)),
        Err(error) => {
            tracing::debug!(%error, "a stream's client left before it began");
            None
        }
    }
}

fn ended_badly(what: &'static str, error: &(dyn std::error::Error + 'static)) {
    tracing::debug!(what, error = error_chain(error), "a stream ended early");
}

/// A command in a container.
pub(crate) async fn exec(
    context: &Arc<Context>,
    ended: CancellationToken,
    target: &Target,
    container: &str,
    request: Request<Incoming>,
) -> Answer {
    remote_command(context, ended, target, container, request, Kind::Exec).await.unwrap_or_else(|answer| answer)
}

/// The streams of a container's program.
pub(crate) async fn attach(
    context: &Arc<Context>,
    ended: CancellationToken,
    target: &Target,
    container: &str,
    request: Request<Incoming>,
) -> Answer {
    remote_command(context, ended, target, container, request, Kind::Attach).await.unwrap_or_else(|answer| answer)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exec,
    Attach,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
        }
    }

    fn offered(self, context: &Context) -> bool {
        let extras = context.api.provider.extras();
        match self {
            Self::Exec => extras.exec.is_some(),
            Self::Attach => extras.attach.is_some(),
        }
    }
}

async fn remote_command(
    context: &Arc<Context>,
    ended: CancellationToken,
    target: &Target,
    container: &str,
    request: Request<Incoming>,
    kind: Kind,
) -> Result<Answer, Answer> {
    let query = request.uri().query().unwrap_or_default();
    let streams = ExecStreams::of_kubelet_query(query).map_err(refuse)?;
    let command = negotiate::command(query);
    if kind == Kind::Exec && command.is_empty() {
        return Err(text(400, "a command is required: ?command=PROGRAM&command=ARGUMENT…"));
    }
    let (key, pod) = find(context, target, "pod does not exist").await?;
    if !has_container(&pod, container) {
        return Err(text(404, format!("container not found ({container:?})")));
    }
    if !kind.offered(context) {
        return Err(unsupported(kind.name()));
    }
    let upgrade = negotiate::exec(request.method(), request.headers()).map_err(refuse)?;
    let open = open(context, ended, kind.name()).ok_or_else(busy)?;
    let container = container.to_owned();
    tokio::spawn(async move {
        let Some(io) = upgraded(request).await else { return };
        let (provider, limits) = (open.context.api.provider.clone(), open.context.limits.stream);
        let stdin = streams.stdin;
        let start = async move {
            let extras = provider.extras();
            let session = match (kind, extras.exec, extras.attach) {
                (Kind::Exec, Some(exec), _) => {
                    let tty = streams.tty.then_some(SIZE);
                    exec.exec(&key, &container, &ExecRequest { command, stdin, tty }).await
                }
                (Kind::Attach, _, Some(attach)) => {
                    // Its size is the client's to tell: who only watches must not change it for others.
                    let request = AttachRequest { stdin, tty: streams.tty, size: None };
                    attach.attach(&key, &container, request).await
                }
                (Kind::Exec, None, _) | (Kind::Attach, _, None) => {
                    return Err(Failure::new("not supported by this provider"));
                }
            };
            session.map_err(|error| Failure::from(&error))
        };
        tokio::select! {
            () = open.ended.cancelled() => {}
            served = serve_exec(io, upgrade.protocol, streams, start, limits) => {
                if let Err(error) = served {
                    ended_badly(kind.name(), &error);
                }
            }
        }
        // Whole: what it holds is held until here.
        drop(open);
    });
    Ok(switch(upgrade.answer))
}

/// Ports of one Pod.
struct Ports {
    context: Arc<Context>,
    key: PodKey,
}

#[async_trait]
impl Connect for Ports {
    async fn connect(&self, port: u16) -> Result<Pin<Box<dyn Duplex>>, Failure> {
        match self.context.api.provider.extras().port_forward {
            Some(ports) => ports.connect(&self.key, port).await.map_err(|error| Failure::from(&error)),
            None => Err(Failure::new("not supported by this provider")),
        }
    }
}

/// Connections to ports of a Pod.
pub(crate) async fn port_forward(
    context: &Arc<Context>,
    ended: CancellationToken,
    target: &Target,
    request: Request<Incoming>,
) -> Answer {
    forward(context, ended, target, request).await.unwrap_or_else(|answer| answer)
}

async fn forward(
    context: &Arc<Context>,
    ended: CancellationToken,
    target: &Target,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let upgrade = negotiate::port_forward(request.method(), request.headers()).map_err(refuse)?;
    let ports = negotiate::ports(upgrade.protocol, request.uri().query().unwrap_or_default()).map_err(refuse)?;
    let (key, _) = find(context, target, "pod does not exist").await?;
    if context.api.provider.extras().port_forward.is_none() {
        return Err(unsupported("port-forward"));
    }
    let open = open(context, ended, "portForward").ok_or_else(busy)?;
    tokio::spawn(async move {
        let Some(io) = upgraded(request).await else { return };
        let connect = Arc::new(Ports { context: open.context.clone(), key });
        tokio::select! {
            () = open.ended.cancelled() => {}
            served = serve_port_forward(io, upgrade.protocol, &ports, connect, open.context.limits.stream) => {
                if let Err(error) = served {
                    ended_badly("portForward", &error);
                }
            }
        }
        drop(open);
    });
    Ok(switch(upgrade.answer))
}
