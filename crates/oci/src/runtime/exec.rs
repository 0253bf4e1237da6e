//! Commands in running containers.

use std::time::Duration;

use async_trait::async_trait;
use minke_core::runtime::{ContainerId, ExecOutput, ExecRequest, ExecService, ExecSession, RuntimeError};

use super::EmbeddedRuntime;

#[async_trait]
impl ExecService for EmbeddedRuntime {
    async fn exec_sync(
        &self,
        _id: &ContainerId,
        _command: &[String],
        _timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        Err(RuntimeError::Unsupported { operation: "exec sync", feature: "exec".to_owned() })
    }

    async fn exec(&self, _id: &ContainerId, _request: &ExecRequest) -> Result<ExecSession, RuntimeError> {
        Err(RuntimeError::Unsupported { operation: "exec", feature: "exec".to_owned() })
    }
}
