//! Programs that a test starts.

use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::Command;

/// A program whose output the test reads, which reads nothing, and which does not outlive the test.
#[must_use]
pub fn piped(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}
