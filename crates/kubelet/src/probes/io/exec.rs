//! `exec`: whether a command in the container returns 0.

use std::time::Duration;

use minke_core::runtime::{ContainerId, ExecOutput, ExecService, RuntimeError, error_chain};

use super::Answer;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;

/// Most of a command's output that is looked at.
const OUTPUT_LIMIT: usize = 10 * 1024;

pub(super) async fn ask(runtime: &dyn ExecService, id: &ContainerId, command: &[String], limit: Duration) -> Answer {
    // The runtime ends the command; a runtime that hangs itself is no answer of the container.
    let call = runtime.exec_sync(id, command, Some(limit));
    match bounded("exec sync", CALL_TIMEOUT + limit, call).await {
        Ok(output) if output.exit_code == 0 => Answer::Success,
        Ok(output) => Answer::Failure(said(output)),
        Err(RuntimeError::TimedOut { after, .. }) if after <= limit => {
            Answer::Failure(format!("command {:?} timed out", command.join(" ")))
        }
        Err(error) => Answer::unknown(error_chain(&error)),
    }
}

/// What the command wrote, on both streams.
fn said(output: ExecOutput) -> String {
    let mut all = output.stdout;
    all.extend(output.stderr);
    all.truncate(OUTPUT_LIMIT);
    String::from_utf8_lossy(&all).into_owned()
}
