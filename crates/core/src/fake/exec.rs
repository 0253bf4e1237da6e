//! Commands in containers of the fake runtime: their outcome is scripted, nothing runs.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::io::{Cursor, sink};

use super::calls::Op;
use super::runtime::FakeRuntime;
use super::world::{Container, World};
use crate::identity::PodUid;
use crate::runtime::{
    ContainerId, ExecControl, ExecOutput, ExecRequest, ExecService, ExecSession, RuntimeError, TerminalSize,
};

/// Decides what a command does, given the Pod, the container's name, its attempt and the command.
pub(super) type ExecHook = Box<dyn FnMut(&PodUid, &str, u32, &[String]) -> FakeExec + Send>;

/// What a scripted command does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FakeExec {
    /// How long it runs before it ends.
    pub runs_for: Duration,
    /// What it returns.
    pub exit_code: i32,
    /// What it writes to standard output.
    pub stdout: String,
}

impl FakeExec {
    /// Ends at once with this code.
    #[must_use]
    pub fn code(exit_code: i32) -> Self {
        Self { exit_code, ..Self::default() }
    }

    /// Runs for this long, then returns 0.
    #[must_use]
    pub fn lasting(runs_for: Duration) -> Self {
        Self { runs_for, ..Self::default() }
    }
}

impl World {
    fn command(&mut self, op: Op, id: &ContainerId, command: &[String]) -> Result<FakeExec, RuntimeError> {
        let operation = op.name();
        let found = self
            .containers
            .get(id)
            .map(|c: &Container| (c.state.is_running(), c.pod.clone(), c.config.name.clone(), c.config.attempt));
        let Some((running, pod, name, attempt)) = found else {
            return Err(RuntimeError::NotFound { operation, what: "container", id: id.0.clone() });
        };
        if !running {
            return Err(RuntimeError::Invalid { operation, message: format!("container {name} does not run") });
        }
        Ok(self.exec_hook.as_mut().map(|hook| hook(&pod, &name, attempt, command)).unwrap_or_default())
    }
}

impl FakeRuntime {
    /// Decides what each command does; without a hook every command returns 0 at once.
    pub fn exec_hook(&self, hook: impl FnMut(&PodUid, &str, u32, &[String]) -> FakeExec + Send + 'static) {
        self.world().exec_hook = Some(Box::new(hook));
    }
}

#[async_trait]
impl ExecService for FakeRuntime {
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let call = self.container_call(Op::ExecSync, id, 0);
        let does = self.call(call, |e, c| e.runtime(c), |world, _| world.command(Op::ExecSync, id, command)).await?;
        if let Some(after) = timeout.filter(|limit| *limit < does.runs_for) {
            tokio::time::sleep(after).await;
            return Err(RuntimeError::TimedOut { operation: Op::ExecSync.name(), after });
        }
        tokio::time::sleep(does.runs_for).await;
        Ok(ExecOutput { exit_code: does.exit_code, stdout: does.stdout.into_bytes(), stderr: Vec::new() })
    }

    async fn exec(&self, id: &ContainerId, request: &ExecRequest) -> Result<ExecSession, RuntimeError> {
        let call = self.container_call(Op::Exec, id, 0);
        let command = &request.command;
        let does = self.call(call, |e, c| e.runtime(c), |world, _| world.command(Op::Exec, id, command)).await?;
        let ends = tokio::time::Instant::now() + does.runs_for;
        Ok(ExecSession {
            stdin: request.stdin.then(|| Box::pin(sink()) as _),
            stdout: Box::pin(Cursor::new(does.stdout.into_bytes())),
            stderr: request.tty.is_none().then(|| Box::pin(Cursor::new(Vec::new())) as _),
            control: Box::new(Control { ends, exit_code: does.exit_code }),
        })
    }
}

struct Control {
    ends: tokio::time::Instant,
    exit_code: i32,
}

#[async_trait]
impl ExecControl for Control {
    async fn resize(&self, _size: TerminalSize) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn wait(&self) -> Result<i32, RuntimeError> {
        tokio::time::sleep_until(self.ends).await;
        Ok(self.exit_code)
    }
}
