//! The forge: where runners register and jobs come from.
//!
//! [`Forge`] is the port, [`github`] GitHub. What an answer means is decided purely ([`judge`](answer::judge),
//! [`Budget`]); what became of a removal or a registration is one of few words that the [engine](crate::engine) knows.

pub mod answer;
mod budget;
pub mod github;
pub mod lookalike;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::demand::{Access, Status};
use crate::engine::{ForgeRunner, Refused};
use crate::ids::{JobId, RunnerId};
use crate::life::Removal;

pub use budget::{Budget, Priority};

/// A call to the forge failed.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// No answer.
    #[error("the forge can't be reached")]
    Unreachable(#[source] reqwest::Error),
    /// No answer in time.
    #[error("the forge did not answer in time")]
    TimedOut,
    /// An answer that says nothing.
    #[error("the forge answered {0}")]
    Unavailable(u16),
    /// The budget of the credential is used up until then.
    #[error("the forge's rate limit is used up until {0}")]
    Limited(Timestamp),
    /// The credential is refused.
    #[error("the forge refuses the credential: {0}")]
    Unauthorized(String),
    /// The credential is none.
    #[error("the credential can't be used: {0}")]
    Credential(String),
    /// The credential must not do that.
    #[error("the forge forbids it: {0}")]
    Forbidden(String),
    /// There is no such thing.
    #[error("the forge knows nothing of the kind")]
    NotFound,
    /// There is one of this name.
    #[error("the forge has one of this name already")]
    Conflict,
    /// It can't be done as things are; for a removal: it has a job.
    #[error("the forge can't do that: {0}")]
    Unprocessable(String),
    /// What came is not what was asked for.
    #[error("the forge's answer can't be understood: {0}")]
    Malformed(String),
    /// A list changed each time that it was read.
    #[error("the forge's list changed while it was read; it is read again later")]
    Changing,
}

impl ForgeError {
    /// What it means for a registration.
    #[must_use]
    pub fn refused(&self) -> Refused {
        match self {
            Self::Conflict => Refused::Conflict,
            Self::Limited(until) => Refused::Limited(*until),
            Self::Unauthorized(_) | Self::Credential(_) | Self::Forbidden(_) => Refused::Credential,
            Self::Unreachable(_)
            | Self::TimedOut
            | Self::Unavailable(_)
            | Self::NotFound
            | Self::Unprocessable(_)
            | Self::Malformed(_)
            | Self::Changing => Refused::Unavailable,
        }
    }

    /// What it means for a removal.
    #[must_use]
    pub fn removal(&self) -> Removal {
        match self {
            Self::NotFound => Removal::Gone,
            Self::Unprocessable(_) => Removal::Busy,
            Self::Forbidden(_) => Removal::Forbidden,
            Self::Limited(until) => Removal::Limited(*until),
            Self::Unauthorized(_) | Self::Credential(_) => Removal::NoCredential,
            Self::Unreachable(_)
            | Self::TimedOut
            | Self::Unavailable(_)
            | Self::Conflict
            | Self::Malformed(_)
            | Self::Changing => Removal::Failed,
        }
    }
}

/// Something that appears in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// It, for who hands it on to where it belongs.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A registration that nobody has used yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its number.
    pub id: RunnerId,
    /// What the runner starts with: one start, one job.
    pub configuration: Secret,
}

/// A job as the forge lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// Its number.
    pub id: JobId,
    /// What it does.
    pub status: Status,
    /// What it asks for.
    pub labels: Vec<String>,
}

/// The port. Calls may run at the same time, end by themselves within their time-outs, and may be cancelled at any await:
/// what the forge did then is found out by the next list.
#[async_trait]
pub trait Forge: std::fmt::Debug + Send + Sync {
    /// A registration of this name, before there is a Pod.
    async fn register(&self, name: &str) -> Result<Registration, ForgeError>;

    /// All runners of the scope.
    async fn runners(&self) -> Result<Vec<ForgeRunner>, ForgeError>;

    /// Removes a registration; what the forge says decides.
    async fn remove(&self, id: RunnerId) -> Result<(), ForgeError>;

    /// The jobs of a repository that are queued or running.
    async fn jobs(&self, repository: &str) -> Result<Vec<ListedJob>, ForgeError>;

    /// Whose jobs the runners of the scope's group may get.
    async fn access(&self) -> Result<Access, ForgeError>;
}
