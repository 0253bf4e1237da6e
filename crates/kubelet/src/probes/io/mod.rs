//! Asking: HTTP, TCP, gRPC, and commands in the container. Each module performs one question and says what came of it
//! in upstream's words; none keeps anything.

pub(crate) mod address;
mod exec;
mod grpc;
pub(crate) mod http;
mod tcp;
mod tls;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Probe};
use minke_core::runtime::{ContainerId, ExecService};

use super::Timing;

/// What asking once came to, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Yes.
    Success,
    /// Yes, but.
    Warning(String),
    /// No.
    Failure(String),
    /// It could not be asked. `state` is what upstream's event calls the result.
    Error {
        /// `unknown` or `failure`.
        state: &'static str,
        /// Why.
        message: String,
    },
}

impl Answer {
    fn unknown(message: impl Into<String>) -> Self {
        Self::Error { state: "unknown", message: message.into() }
    }
}

/// Asks once, for at most the probe's timeout.
pub(super) async fn ask(
    runtime: &dyn ExecService,
    probe: &Probe,
    timing: &Timing,
    container: &Container,
    id: &ContainerId,
    ips: &[IpAddr],
) -> Answer {
    if let Some(action) = &probe.exec {
        return exec::ask(runtime, id, action.command.as_deref().unwrap_or_default(), timing.timeout).await;
    }
    if let Some(action) = &probe.http_get {
        return match http::Get::new(action, container, ips, "probe") {
            Ok(get) => http::ask(&get, timing.timeout).await,
            Err(message) => Answer::unknown(message),
        };
    }
    if let Some(action) = &probe.tcp_socket {
        return match address::of(action.host.as_deref(), &action.port, container, ips) {
            Ok(address) => tcp::ask(&address, timing.timeout).await,
            Err(message) => Answer::unknown(message),
        };
    }
    if let Some(action) = &probe.grpc {
        let Some((host, port)) = ips.first().zip(u16::try_from(action.port).ok()) else {
            return Answer::unknown("the pod has no address");
        };
        let address = address::Address { host: host.to_string(), port };
        return grpc::ask(&address, action.service.as_deref().unwrap_or_default(), timing.timeout).await;
    }
    Answer::unknown(format!("missing probe handler for {}", container.name))
}
