//! Commands in containers.
//!
//! One with streams is had in two steps: CRI answers with an address that is good for one use, and there a server speaks
//! SPDY. It does not say whether the program could be started before its streams are open, so that comes as the session's
//! end. Closing the connection ends the streams; what becomes of the command is the runtime's.

use std::time::Duration;

use async_trait::async_trait;
use minke_core::runtime::{
    ContainerId, ExecControl, ExecOutput, ExecRequest, ExecService, ExecSession, RuntimeError, TerminalSize,
    error_chain,
};
use minke_streams::negotiate::ExecStreams;

use crate::error::{Subject, is_not_running, no_program};
use crate::runtime::{CallError, CriRuntime};
use crate::{api, deadline};

const EXEC: &str = "exec";

#[async_trait]
impl ExecService for CriRuntime {
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let (inner, own) = (self.inner.clone(), id.clone());
        let request = api::ExecSyncRequest {
            container_id: id.0.clone(),
            cmd: command.to_vec(),
            timeout: timeout.map_or(0, deadline::whole_seconds),
        };
        let call = async move {
            let mut client = inner.connection.runtime();
            match inner.bounded(deadline::exec(timeout), client.exec_sync(request)).await {
                Ok(api::ExecSyncResponse { exit_code, stdout, stderr }) => {
                    Ok(ExecOutput { exit_code, stdout: cut(stdout), stderr: cut(stderr) })
                }
                Err(error) => Err(exec_error(&own, timeout, error)),
            }
        };
        // Without a time of its own the command ends with the call, whoever drops it.
        let Some(after) = timeout else { return call.await };
        // With one it is the runtime that ends it. A call that is cut off at the same moment takes away what the runtime
        // ends it with: containerd kills in the name of the call. So it is made to its end, whoever waits for it.
        let bound = deadline::exec_answer(after);
        let answer = tokio::time::timeout(bound, Self::to_the_end(EXEC, call)).await;
        answer.unwrap_or(Err(RuntimeError::TimedOut { operation: EXEC, after }))
    }

    async fn exec(&self, id: &ContainerId, request: &ExecRequest) -> Result<ExecSession, RuntimeError> {
        let streams = ExecStreams {
            stdin: request.stdin,
            stdout: true,
            stderr: request.tty.is_none(),
            tty: request.tty.is_some(),
        };
        let ask = api::ExecRequest {
            container_id: id.0.clone(),
            cmd: request.command.clone(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let mut client = self.inner.connection.runtime();
        let answer = self.inner.bounded(Some(deadline::CALL), client.exec(ask)).await;
        let url = answer.map_err(|e| exec_error(id, None, e))?.url;
        let session = minke_streams::client::exec(&url, streams, request.tty).await;
        let ExecSession { stdin, stdout, stderr, control } = session.map_err(|e| RuntimeError::failed(EXEC, e))?;
        Ok(ExecSession { stdin, stdout, stderr, control: Box::new(Control(control)) })
    }
}

/// A command's end, with what the runtime says of a program that is not there in the port's words.
struct Control(Box<dyn ExecControl>);

#[async_trait]
impl ExecControl for Control {
    async fn resize(&self, size: TerminalSize) -> Result<(), RuntimeError> {
        self.0.resize(size).await
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        self.0.wait().await.map_err(|error| match no_program(&error_chain(&error)) {
            Some((exit_code, message)) => RuntimeError::NotExecutable { operation: EXEC, exit_code, message },
            None => error,
        })
    }
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(ExecOutput::LIMIT);
    bytes
}

fn exec_error(id: &ContainerId, timeout: Option<Duration>, error: CallError) -> RuntimeError {
    if let Some(status) = error.status() {
        if is_not_running(status) {
            return RuntimeError::Invalid { operation: EXEC, message: format!("container {id} does not run") };
        }
        if status.code() == tonic::Code::DeadlineExceeded {
            return RuntimeError::TimedOut { operation: EXEC, after: timeout.unwrap_or_default() };
        }
        if let Some((exit_code, message)) = no_program(status.message()) {
            return RuntimeError::NotExecutable { operation: EXEC, exit_code, message };
        }
    }
    error.into_runtime(EXEC, Subject::Container(&id.0))
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn refusals_of_a_command_are_told_apart() {
        let id = ContainerId("c".to_owned());
        let of = |code, message: &str| {
            exec_error(&id, Some(Duration::from_secs(1)), CallError::Status(Status::new(code, message)))
        };
        let ended = of(Code::Unknown, "container is in CONTAINER_EXITED state");
        assert!(matches!(ended, RuntimeError::Invalid { .. }), "{ended:?}");
        let late =
            of(Code::DeadlineExceeded, "failed to exec in container: timeout 1s exceeded: context deadline exceeded");
        assert!(matches!(late, RuntimeError::TimedOut { after, .. } if after == Duration::from_secs(1)), "{late:?}");
        let missing =
            of(Code::Unknown, "OCI runtime exec failed: exec: \"x\": executable file not found in $PATH: unknown");
        assert!(matches!(missing, RuntimeError::NotExecutable { exit_code: 127, .. }), "{missing:?}");
        assert!(of(Code::NotFound, "no such container").is_not_found());
    }

    #[test]
    fn output_is_cut_at_the_ports_limit() {
        assert_eq!(cut(vec![0; ExecOutput::LIMIT + 5]).len(), ExecOutput::LIMIT);
        assert_eq!(cut(vec![0; 5]).len(), 5);
    }
}
