//! The first words with a runtime: who it is, what it can, and what is wrong when it does not answer as a runtime.
//!
//! ```text
//! socket ─► Version ─► answered: Status, RuntimeConfig ─► facts
//!              ├─ not ready yet ─► asked again for a while
//!              ├─ no such service ─► does it speak v1alpha2? too old : no CRI there
//!              ├─ not HTTP/2 ─► something else listens
//!              └─ silence ─► it hangs, or something else listens
//! ```

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Status};

use crate::connection::Connection;
use crate::error::{Words, io_error, is_starting, is_transport, transport_words};
use crate::facts::{CgroupDriver, facts};
use crate::{Endpoint, EndpointError, Facts, api, deadline};

/// No runtime can be used at the endpoint.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no socket.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It belongs to somebody else.
    #[error("{path} may not be used by this user; run this as root (sudo)")]
    NotPermitted {
        /// The socket.
        path: PathBuf,
    },
    /// The socket's owner has ended.
    #[error("nothing listens on {path}; start the container runtime that it belongs to")]
    Refused {
        /// The socket.
        path: PathBuf,
    },
    /// It can't be connected to.
    #[error("can't connect to {path}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What listens does not speak gRPC.
    #[error("what listens on {path} is no container runtime: it does not speak gRPC; check --runtime-endpoint")]
    NotGrpc {
        /// The socket.
        path: PathBuf,
        /// How it showed.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It does not answer.
    #[error(
        "{path} accepts connections and does not answer within {} s: the container runtime hangs, or something else \
         listens there; look into its log, restart it, or check --runtime-endpoint",
        after.as_secs()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// It listens already, and is not ready to serve.
    #[error("the container runtime on {path} is still starting after {} s; look into its log", after.as_secs())]
    NotReady {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        after: Duration,
        /// Its words.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It speaks gRPC, but not CRI.
    #[error(
        "what listens on {path} speaks gRPC but offers no CRI; for containerd, take \"cri\" out of disabled_plugins in \
         /etc/containerd/config.toml and restart it"
    )]
    NoCri {
        /// The socket.
        path: PathBuf,
    },
    /// It is from before CRI v1.
    #[error(
        "{name} {version} on {path} speaks CRI v1alpha2 only; Minke needs v1, which containerd has since 1.6 and CRI-O \
         since 1.20"
    )]
    TooOld {
        /// The socket.
        path: PathBuf,
        /// The runtime.
        name: String,
        /// Its version.
        version: String,
    },
    /// It answers the first questions with an error.
    #[error("the container runtime on {path} refuses the first question")]
    Refusal {
        /// The socket.
        path: PathBuf,
        /// Its words.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Greets the runtime, and again while it says that it is only starting: containerd listens before its CRI plugin is ready.
pub(crate) async fn greet(endpoint: &Endpoint, connection: &Connection) -> Result<Facts, OpenError> {
    endpoint.check().map_err(|error| not_permitted(endpoint, error))?;
    let begun = Instant::now();
    loop {
        match first_words(endpoint, connection).await {
            Err(OpenError::NotReady { .. }) if begun.elapsed() < deadline::GREETING => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            greeted => return greeted,
        }
    }
}

async fn first_words(endpoint: &Endpoint, connection: &Connection) -> Result<Facts, OpenError> {
    let version = match ask(connection.runtime().version(api::VersionRequest { version: "v1".to_owned() })).await {
        Answer::Is(version) => version,
        Answer::No(status) if status.code() == Code::Unimplemented && !is_transport(&status) => {
            return Err(without_v1(endpoint, connection).await);
        }
        other => return Err(failed(endpoint, other)),
    };
    let status = match ask(connection.runtime().status(api::StatusRequest { verbose: true })).await {
        Answer::Is(status) => status,
        other => return Err(failed(endpoint, other)),
    };
    let driver = match ask(connection.runtime().runtime_config(api::RuntimeConfigRequest {})).await {
        Answer::Is(config) => config.linux.map(|linux| match linux.cgroup_driver() {
            api::CgroupDriver::Systemd => CgroupDriver::Systemd,
            api::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        }),
        // A question that came with later versions: without an answer, its configuration is looked at.
        Answer::No(_) | Answer::Silence => None,
    };
    Ok(facts(version, status, driver))
}

enum Answer<T> {
    Is(T),
    No(Status),
    Silence,
}

async fn ask<T>(question: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Answer<T> {
    match tokio::time::timeout(deadline::GREETING, question).await {
        Ok(Ok(answer)) => Answer::Is(answer.into_inner()),
        Ok(Err(status)) => Answer::No(status),
        Err(_) => Answer::Silence,
    }
}

fn not_permitted(endpoint: &Endpoint, error: EndpointError) -> OpenError {
    match error {
        EndpointError::Unreadable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            OpenError::NotPermitted { path: endpoint.path().to_owned() }
        }
        error => OpenError::Endpoint(error),
    }
}

fn failed<T>(endpoint: &Endpoint, answer: Answer<T>) -> OpenError {
    let path = endpoint.path().to_owned();
    let status = match answer {
        Answer::No(status) => status,
        Answer::Is(_) | Answer::Silence => return OpenError::Silent { path, after: deadline::GREETING },
    };
    if !is_transport(&status) {
        return if is_starting(&status) || status.code() == Code::Unavailable {
            OpenError::NotReady {
                path,
                after: deadline::GREETING,
                source: Box::new(Words(status.message().to_owned())),
            }
        } else if is_http_answer(&status) {
            OpenError::NotGrpc { path, source: Box::new(Words(status.message().to_owned())) }
        } else {
            OpenError::Refusal { path, source: Box::new(Words(status.message().to_owned())) }
        };
    }
    match io_error(&status) {
        Some(error) => match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::NotPermitted { path },
            io::ErrorKind::ConnectionRefused => OpenError::Refused { path },
            io::ErrorKind::NotFound => OpenError::Endpoint(EndpointError::Missing { path }),
            // It was connected to, and then hung up on us or talked nonsense.
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData => OpenError::NotGrpc { path, source: Box::new(Words(error.to_string())) },
            kind => OpenError::Connect { path, source: io::Error::new(kind, error.to_string()) },
        },
        None => OpenError::NotGrpc { path, source: Box::new(Words(transport_words(&status))) },
    }
}

/// Whether the answer was HTTP without gRPC's trailers.
fn is_http_answer(status: &Status) -> bool {
    let message = status.message();
    message.contains("grpc-status header missing") || message.contains("invalid compression flag")
}

/// What a peer is that does not know CRI v1.
async fn without_v1(endpoint: &Endpoint, connection: &Connection) -> OpenError {
    let path = endpoint.path().to_owned();
    match ask(version_v1alpha2(connection)).await {
        Answer::Is(answer) => OpenError::TooOld { path, name: answer.runtime_name, version: answer.runtime_version },
        Answer::No(_) | Answer::Silence => OpenError::NoCri { path },
    }
}

/// The one call of CRI v1alpha2 whose messages are v1's.
async fn version_v1alpha2(connection: &Connection) -> Result<tonic::Response<api::VersionResponse>, Status> {
    let mut client = tonic::client::Grpc::new(connection.channel());
    client.ready().await.map_err(|e| Status::from_error(Box::new(e)))?;
    let codec = tonic_prost::ProstCodec::default();
    let path = http::uri::PathAndQuery::from_static("/runtime.v1alpha2.RuntimeService/Version");
    let request = tonic::Request::new(api::VersionRequest { version: "v1alpha2".to_owned() });
    client.unary(request, path, codec).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root passes every permission, so the kernel's answer is made here.
    #[test]
    fn a_socket_that_this_user_may_not_use() {
        let endpoint = Endpoint::parse("/run/x.sock").unwrap();
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let unreadable = EndpointError::Unreadable { path: endpoint.path().to_owned(), source: denied() };
        for error in [
            not_permitted(&endpoint, unreadable),
            failed(&endpoint, Answer::<()>::No(Status::from_error(Box::new(denied())))),
        ] {
            assert!(matches!(error, OpenError::NotPermitted { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("/run/x.sock") && text.contains("root"), "it says what to do: {text}");
        }
    }
}
