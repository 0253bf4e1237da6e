//! How an agent that was started by a command says that it is ready: one line on its standard output, a pipe that
//! the command reads. The command waits for exactly this and nothing polls.

use std::fs::OpenOptions;
use std::io::Write;

use serde::{Deserialize, Serialize};

/// The line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ready {
    /// Commands can connect.
    Listening,
    /// It can't run.
    Failed {
        /// Why, with causes.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// Whom to tell, once.
#[derive(Debug)]
pub(crate) enum Readiness {
    /// Nobody waits.
    Nobody,
    /// The command that reads our standard output.
    Stdout,
}

impl Readiness {
    /// Tells, then lets go of the pipe so that the command's own standard output can end with it. Does nothing the
    /// second time.
    pub(crate) fn tell(&mut self, ready: &Ready) {
        match std::mem::replace(self, Self::Nobody) {
            Self::Nobody => {}
            Self::Stdout => {
                let told = serde_json::to_string(ready)
                    .map_err(std::io::Error::other)
                    .and_then(|line| writeln!(std::io::stdout(), "{line}"));
                // The command may have been interrupted meanwhile; the agent serves whoever comes next.
                if let Err(error) = told {
                    tracing::debug!(%error, "nobody waits for the agent any more");
                }
                let null = OpenOptions::new().write(true).open("/dev/null");
                if let Err(error) = null.and_then(|null| Ok(rustix::stdio::dup2_stdout(null)?)) {
                    tracing::warn!(%error, "can't let go of standard output");
                }
            }
        }
    }
}
