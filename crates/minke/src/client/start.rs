//! Starts an agent in the background: this program again, in a session of its own, its standard error in
//! `agent.log`. It says on a pipe when it listens, so nothing polls and a failed start is told in its own words.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::agent::Ready;
use crate::agent::lock::{self, LockError};
use crate::place::Place;

/// An agent that adopts hundreds of Pods from a slow disk is ready well within this.
const LONGEST_START: Duration = Duration::from_secs(30);
/// Another command that starts one is about to have done so.
const LONGEST_OTHER: Duration = Duration::from_secs(15);
/// `agent.log` is moved aside beyond this many bytes when an agent starts.
const LOG_LIMIT: u64 = 8 << 20;

/// No agent could be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Not root.
    #[error("the agent needs root: for containers' namespaces, cgroups and mounts, or the container runtime's socket")]
    NotRoot,
    /// The state directory can't be used.
    #[error("can't use {path}")]
    State {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else seems to start one and does not come to an end.
    #[error("another command starts the agent and does not finish")]
    Busy(#[source] LockError),
    /// The process can't be started.
    #[error("can't start the agent process")]
    Spawn(#[source] io::Error),
    /// It started and said why it can't go on.
    #[error("{message}")]
    Refused {
        /// Its words.
        message: String,
        /// And what to do about it.
        hint: Option<String>,
    },
    /// It ended, or stayed silent.
    #[error("the agent {what}; its last words in {log}: {tail}")]
    Silent {
        /// What it did instead of getting ready.
        what: &'static str,
        /// Its log.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
}

impl StartError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot => Some("run this as root, for example with sudo".to_owned()),
            Self::State { .. } => Some("choose another --state-dir, or make that one writable".to_owned()),
            Self::Busy(_) | Self::Spawn(_) | Self::Silent { .. } => None,
            Self::Refused { hint, .. } => hint.clone(),
        }
    }

    /// Whether another attempt can succeed without anybody acting: an agent that was killed while it started.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Silent { .. } | Self::Spawn(_) | Self::Busy(_) => true,
            Self::NotRoot | Self::State { .. } | Self::Refused { .. } => false,
        }
    }
}

/// Starts an agent unless one answers by now: by a subcommand with arguments that says on its standard output when it is
/// ready. Of several commands at once, one starts it and the others wait.
pub(super) async fn start(place: &Place, log_level: &str, subcommand: &[String]) -> Result<(), StartError> {
    if !rustix::process::geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let state = |path: &Path| {
        let path = path.to_owned();
        move |source| StartError::State { path, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&place.state).map_err(state(&place.state))?;
    let _starting = lock::wait_bounded(place.start_lock(), LONGEST_OTHER).await.map_err(StartError::Busy)?;
    if tokio::net::UnixStream::connect(place.socket()).await.is_ok() {
        return Ok(());
    }
    let log = open_log(&place.agent_log()).map_err(state(&place.agent_log()))?;
    let mut command = std::process::Command::new("/proc/self/exe");
    command
        .arg0("minke")
        .args(place.as_arguments())
        .args(["--log-level", log_level])
        .args(subcommand)
        .current_dir("/")
        // Threads of the runtime would otherwise each get an arena that is never given back.
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = tokio::process::Command::from(command).spawn().map_err(StartError::Spawn)?;
    let silent = |what| StartError::Silent { what, log: place.agent_log(), tail: tail(&place.agent_log()) };
    let Some(stdout) = child.stdout.take() else { return Err(silent("can't be heard")) };
    let mut line = String::new();
    let mut reader = BufReader::new(stdout).take(64 << 10);
    match tokio::time::timeout(LONGEST_START, reader.read_line(&mut line)).await {
        Err(_) => Err(silent("is not ready in time")),
        Ok(Err(source)) => Err(StartError::Spawn(source)),
        Ok(Ok(0)) => Err(silent("ended while it started")),
        Ok(Ok(_)) => match serde_json::from_str(&line) {
            Ok(Ready::Listening) => Ok(()),
            Ok(Ready::Failed { message, hint }) => Err(StartError::Refused { message, hint }),
            Err(_) => Err(silent("said something that can't be understood")),
        },
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > LOG_LIMIT) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The last lines of the log, on one line.
fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_log_is_moved_aside_and_a_small_one_is_continued() {
        use std::io::Write;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.log");
        writeln!(open_log(&path).unwrap(), "one").unwrap();
        writeln!(open_log(&path).unwrap(), "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(tail(&path), "one | two");
        File::options().write(true).open(&path).unwrap().set_len(LOG_LIMIT + 1).unwrap();
        open_log(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(std::fs::metadata(directory.path().join("agent.log.1")).unwrap().len(), LOG_LIMIT + 1);
    }
}
