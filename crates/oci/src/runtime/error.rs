//! Why the runtime could not be opened, and how failures of its parts become the port's errors.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use minke_core::runtime::{Operation, RuntimeError, error_chain};

use crate::cgroup::CgroupError;
use crate::image::StoreError;
use crate::network::NetworkError;
use crate::shim::ClientError;
use crate::shim::protocol::RefusalKind;

/// The runtime can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not root.
    #[error("the embedded runtime needs root to make namespaces, mounts and cgroups; run it as root (sudo)")]
    NotRoot,
    /// A capability is missing although this is root.
    #[error("the embedded runtime needs the capability {capability}, which this process lacks; {advice}")]
    NoCapability {
        /// The capability.
        capability: &'static str,
        /// How to get it.
        advice: &'static str,
    },
    /// No overlay file system.
    #[error("the kernel has no overlay file system; load it (`modprobe overlay`) or use a kernel that has it")]
    NoOverlay,
    /// No usable control groups.
    #[error("control groups can't be used")]
    Cgroups(#[source] Box<dyn StdError + Send + Sync>),
    /// Another runtime uses the state directory.
    #[error("the state directory {path} is in use by another process; stop that or choose another --state-dir")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A directory or file can't be made or read.
    #[error("can't {action} {path}")]
    Io {
        /// What was done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The image store can't be opened.
    #[error("can't open the image store")]
    Images(#[source] StoreError),
    /// The network can't be opened.
    #[error("can't prepare the Pod network")]
    Network(#[source] NetworkError),
}

pub(super) fn shim(operation: Operation, error: ClientError) -> RuntimeError {
    match error {
        ClientError::Refused(refusal) => {
            let message = refusal.message;
            match refusal.kind {
                RefusalKind::Invalid => RuntimeError::Invalid { operation, message },
                RefusalKind::NotPermitted => RuntimeError::NotPermitted { operation, message },
                RefusalKind::NotFound
                | RefusalKind::Exists
                | RefusalKind::State
                | RefusalKind::NoProgram
                | RefusalKind::NotExecutable
                | RefusalKind::Failed => RuntimeError::failed(operation, message),
            }
        }
        ClientError::Gone(source) => RuntimeError::Unavailable { operation, source: Box::new(source) },
        error @ (ClientError::Version { .. } | ClientError::Frame(_)) => RuntimeError::failed(operation, error),
    }
}

pub(super) fn cgroup(operation: Operation, error: CgroupError) -> RuntimeError {
    if error.is_not_permitted() {
        RuntimeError::NotPermitted { operation, message: error_chain(&error) }
    } else {
        RuntimeError::failed(operation, error)
    }
}

/// A step with a name, and what went wrong in it.
#[derive(Debug, thiserror::Error)]
#[error("can't {step}")]
pub(super) struct StepError {
    step: String,
    #[source]
    source: Box<dyn StdError + Send + Sync>,
}

pub(super) fn step<E: Into<Box<dyn StdError + Send + Sync>>>(
    operation: Operation,
    step: impl Into<String>,
) -> impl FnOnce(E) -> RuntimeError {
    let step = step.into();
    move |source| RuntimeError::failed(operation, StepError { step, source: source.into() })
}
