//! How sessions end, and why something could not be had.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use minke_core::provider::ProviderError;
use minke_core::runtime::{RuntimeError, error_chain};

use crate::spdy::{FrameError, Violation};

/// How long a session may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A connection on which nothing goes for so long is closed; 4 hours, as the kubelet's.
    pub idle: Duration,
    /// So long a client may take to open the streams of a command, or the second half of a forwarded connection; 30 s,
    /// as the kubelet's.
    pub creation: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(4 * 60 * 60), creation: Duration::from_secs(30) }
    }
}

/// Why a command or a connection could not be had; the client reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// In words. No secrets.
    pub message: String,
}

impl Failure {
    /// In words alone.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl From<&RuntimeError> for Failure {
    fn from(error: &RuntimeError) -> Self {
        Self::new(error_chain(error))
    }
}

impl From<&ProviderError> for Failure {
    fn from(error: &ProviderError) -> Self {
        Self::new(error_chain(error))
    }
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// This side closed it; everything was written.
    Closed,
    /// The peer closed it.
    Gone,
    /// Nothing went over it for too long.
    Idle,
    /// It broke.
    Io(Arc<io::Error>),
    /// The peer's bytes are no frames.
    Frame(FrameError),
    /// The peer's frames make no sense.
    Violation(Violation),
    /// The peer's WebSocket messages can't be read.
    WebSocket(Arc<tokio_tungstenite::tungstenite::Error>),
}

/// Why a session ended otherwise than by its own end. The client was told as far as it could be; this is for logs and
/// metrics.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client went before the end. What ran for it was dropped.
    #[error("the client is gone")]
    Gone,
    /// Nothing went over the connection for [`Limits::idle`].
    #[error("nothing was sent for too long")]
    Idle,
    /// The client did not open all streams within [`Limits::creation`].
    #[error("the client did not open the streams that it asked for in time")]
    Creation,
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[source] Arc<io::Error>),
    /// The client's bytes are no SPDY.
    #[error("the client does not speak SPDY/3.1")]
    Frame(#[source] FrameError),
    /// The client's frames make no sense.
    #[error("the client breaks SPDY's rules")]
    Rules(#[source] RulesError),
    /// The client's messages can't be read.
    #[error("the client's WebSocket messages can't be read")]
    WebSocket(#[source] Arc<tokio_tungstenite::tungstenite::Error>),
}

/// How a peer breaks SPDY's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct RulesError(#[from] Violation);

impl Ended {
    /// As the result of serving.
    pub(crate) fn served(self) -> Result<(), ServeError> {
        Err(match self {
            Self::Closed => return Ok(()),
            Self::Gone => ServeError::Gone,
            Self::Idle => ServeError::Idle,
            Self::Io(error) => ServeError::Io(error),
            Self::Frame(error) => ServeError::Frame(error),
            Self::Violation(error) => ServeError::Rules(error.into()),
            Self::WebSocket(error) => ServeError::WebSocket(error),
        })
    }
}
