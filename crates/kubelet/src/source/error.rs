//! Why sources give no manifests.

use std::error::Error as StdError;

use minke_core::manifest::Invalid;

/// One source that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {name}")]
pub struct ReadError {
    /// The source, as typed or found.
    pub name: String,
    /// Why.
    #[source]
    pub source: Box<dyn StdError + Send + Sync>,
}

impl ReadError {
    pub(super) fn new(name: impl Into<String>, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { name: name.into(), source: source.into() }
    }
}

/// Why nothing can be started from the given sources.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Sources that can't be read; at least one.
    #[error("{} of the sources can't be read", .0.len())]
    Read(Vec<ReadError>),
    /// There is no object in any source.
    #[error("nothing to run: no Pod, Job or Deployment in {}", sources.join(", "))]
    Empty {
        /// The sources, as typed.
        sources: Vec<String>,
    },
    /// The manifests are wrong. Its diagnostics are for people.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The parser did not come to an end, which is a fault of Minke.
    #[error("reading the manifests was interrupted; please report this")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// A source is larger than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is larger than {} MiB, the most that a manifest may have; split it", limit / (1024 * 1024))]
pub(super) struct TooLarge {
    pub(super) limit: usize,
}
