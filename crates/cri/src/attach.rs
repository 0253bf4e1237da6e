//! Joining containers, and reaching Pods' ports: as commands with streams, by an address that is good for one use.

use std::pin::Pin;

use async_trait::async_trait;
use minke_core::runtime::{
    AttachRequest, AttachService, ContainerId, Duplex, ExecSession, PortForwardService, RuntimeError, SandboxId,
    SandboxService, SandboxState,
};
use minke_streams::client::{PortForward, exec};
use minke_streams::negotiate::ExecStreams;

use crate::error::{Subject, is_not_running};
use crate::runtime::CriRuntime;
use crate::{api, deadline};

const ATTACH: &str = "attach";
const CONNECT: &str = "connect";

#[async_trait]
impl AttachService for CriRuntime {
    async fn attach(&self, id: &ContainerId, request: AttachRequest) -> Result<ExecSession, RuntimeError> {
        let AttachRequest { stdin, tty, size } = request;
        let streams = ExecStreams { stdin, stdout: true, stderr: !tty, tty };
        let ask = api::AttachRequest {
            container_id: id.0.clone(),
            stdin,
            tty,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let mut client = self.inner.connection.runtime();
        let answer = self.inner.bounded(Some(deadline::CALL), client.attach(ask)).await;
        let url = match answer {
            Ok(answer) => answer.url,
            Err(error) if error.status().is_some_and(is_not_running) => {
                let message = format!("container {id} does not run");
                return Err(RuntimeError::Invalid { operation: ATTACH, message });
            }
            Err(error) => return Err(error.into_runtime(ATTACH, Subject::Container(&id.0))),
        };
        exec(&url, streams, size).await.map_err(|e| RuntimeError::failed(ATTACH, e))
    }
}

#[async_trait]
impl PortForwardService for CriRuntime {
    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Pin<Box<dyn Duplex>>, RuntimeError> {
        // Runtimes have different words for a sandbox that is stopped, some only once the streams are open.
        if self.sandbox_status(id).await?.info.state != SandboxState::Ready {
            let message = format!("sandbox {id} is not ready, so nobody listens on port {port}");
            return Err(RuntimeError::Invalid { operation: CONNECT, message });
        }
        let ask = api::PortForwardRequest { pod_sandbox_id: id.0.clone(), port: vec![i32::from(port)] };
        let mut client = self.inner.connection.runtime();
        let answer = self.inner.bounded(Some(deadline::CALL), client.port_forward(ask)).await;
        let url = answer.map_err(|e| e.into_runtime(CONNECT, Subject::Sandbox(&id.0)))?.url;
        let failed = |e| RuntimeError::failed(CONNECT, e);
        PortForward::open(&url).await.map_err(failed)?.connect(port).await.map_err(failed)
    }
}
