//! What an ended container left to say: its termination message file, or the end of its log.

use std::path::Path;

use minke_core::runtime::{ContainerState, ContainerStatus, ExitCode, labels};

/// Reads the message. Blocks.
pub(super) fn read(path: &Path, status: &ContainerStatus) -> Option<String> {
    let ContainerState::Exited { exit, .. } = &status.state else { return None };
    let policy = status.annotations.get(labels::TERMINATION_MESSAGE_POLICY).map(String::as_str);
    let falls_back = policy == Some("FallbackToLogsOnError") && exit.code != ExitCode::Known(0);
    let fallback = falls_back.then_some(status.log_path.as_path());
    match crate::logs::termination_message(path, fallback) {
        Ok(message) => Some(message).filter(|m| !m.is_empty()),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "can't read a termination message");
            None
        }
    }
}
