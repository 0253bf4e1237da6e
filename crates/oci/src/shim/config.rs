//! What a shim is started with, and what it says when it is ready.

use std::collections::BTreeMap;
use std::path::PathBuf;

use minke_core::runtime::SandboxId;
use serde::{Deserialize, Serialize};

use crate::create::SandboxFacts;

/// Content of `shim.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ShimConfig {
    pub(crate) id: SandboxId,
    pub(crate) sandbox: SandboxFacts,
    /// Kernel parameters of the sandbox's namespaces.
    pub(crate) sysctls: BTreeMap<String, String>,
    /// The directory of the socket.
    pub(crate) run: PathBuf,
    /// How many files may be open in containers, where the agent has raised its own limit.
    #[serde(default)]
    pub(crate) open_files: Option<u64>,
}

/// The one line that a shim writes to its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ready {
    /// It answers on its socket.
    Ready {
        /// The process that holds the namespaces.
        holder: i32,
    },
    /// It could not start; the text says why.
    Failed {
        /// Whether the machine refuses.
        not_permitted: bool,
        /// Why.
        message: String,
    },
}
