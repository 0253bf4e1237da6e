//! Why a measurement could not be made. A peer that is not installed is no failure.

use std::io;
use std::path::{Path, PathBuf};

/// A measurement that could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("containers need root: run this with sudo")]
    NotRoot,
    #[error("no {}: build it with `cargo build --release -p minke`, or name another with --minke", .0.display())]
    NoBinary(PathBuf),
    #[error("{action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("can't run {program}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{program} ended with {status}: {errors}")]
    Ended { program: String, status: String, errors: String },
    #[error("{what}")]
    Runtime {
        what: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{0}")]
    Unexpected(String),
}

impl Failure {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn runtime<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Runtime { what, source: source.into() }
    }
}
