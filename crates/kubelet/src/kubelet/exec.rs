//! Commands in containers of Pods, joining their programs, and connections to their ports.

use std::pin::Pin;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::runtime::{
    AttachRequest, ContainerId, ContainerPhase, Duplex, ExecRequest, ExecSession, ListFilter, RuntimeError,
    SandboxState,
};

use super::Kubelet;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;
use crate::worker::WorkerContext;

/// A command that was not started, a program that was not joined, or a port that was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such Pod.
    #[error("there is no pod {0}")]
    UnknownPod(PodUid),
    /// The container does not run: not yet, no longer, or there is none of this name.
    #[error("container not found ({0:?})")]
    NotRunning(String),
    /// The Pod has no sandbox: not yet, or no longer.
    #[error("the pod's sandbox is not ready")]
    NoSandbox,
    /// The runtime did not do it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl Kubelet {
    /// Starts a command in the running container of this name. Dropping the call or the session kills it.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn exec(&self, uid: &PodUid, container: &str, request: &ExecRequest) -> Result<ExecSession, ExecError> {
        let id = self.running(uid, container).await?;
        let session = self.shared.workers.sync.runtime.exec(&id, request);
        Ok(bounded("exec", CALL_TIMEOUT, session).await?)
    }

    /// Joins the program of the running container of this name, with the input and the terminal that its spec gives it,
    /// whatever is asked for beyond. Dropping the session leaves the program running.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn attach(
        &self,
        uid: &PodUid,
        container: &str,
        request: AttachRequest,
    ) -> Result<ExecSession, ExecError> {
        let id = self.running(uid, container).await?;
        let (stdin, tty) = self.report(uid).map(|report| streams_of(&report.pod, container)).unwrap_or_default();
        let request = AttachRequest { stdin: request.stdin && stdin, tty, size: request.size.filter(|_| tty) };
        let session = self.shared.workers.sync.runtime.attach(&id, request);
        Ok(bounded("attach", CALL_TIMEOUT, session).await?)
    }

    /// Connects to a port on the Pod's own loopback. Dropping the connection closes it.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn connect(&self, uid: &PodUid, port: u16) -> Result<Pin<Box<dyn Duplex>>, ExecError> {
        let runtime = &self.known(uid)?.sync.runtime;
        let filter = ListFilter::pod(uid);
        let listed = bounded("list sandboxes", CALL_TIMEOUT, runtime.list_sandboxes(&filter)).await?;
        let ready = listed.into_iter().filter(|s| s.state == SandboxState::Ready);
        let newest = ready.max_by_key(|s| s.attempt).ok_or(ExecError::NoSandbox)?;
        Ok(bounded("connect", CALL_TIMEOUT, runtime.connect(&newest.id, port)).await?)
    }

    /// The running container of this name.
    async fn running(&self, uid: &PodUid, container: &str) -> Result<ContainerId, ExecError> {
        // Asked anew rather than of the cache: who has just seen a container start does not have to wait.
        let filter = ListFilter::pod(uid);
        let runtime = &self.known(uid)?.sync.runtime;
        let listed = bounded("list containers", CALL_TIMEOUT, runtime.list_containers(&filter)).await?;
        let running = listed.into_iter().filter(|c| c.name == container && c.phase == ContainerPhase::Running);
        let newest = running.max_by_key(|c| c.attempt);
        newest.map(|c| c.id).ok_or_else(|| ExecError::NotRunning(container.to_owned()))
    }

    fn known(&self, uid: &PodUid) -> Result<&WorkerContext, ExecError> {
        let workers = &self.shared.workers;
        if workers.registry.get(uid).is_some() { Ok(workers) } else { Err(ExecError::UnknownPod(uid.clone())) }
    }
}

/// Whether a container of this name has input, and a terminal: what there is to be joined.
#[must_use]
pub fn streams_of(pod: &Pod, name: &str) -> (bool, bool) {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|s| &s.containers);
    let init = spec.into_iter().flat_map(|s| s.init_containers.iter().flatten());
    let found = main.chain(init).find(|c| c.name == name).map(|c| (c.stdin, c.tty));
    let ephemeral = spec.into_iter().flat_map(|s| s.ephemeral_containers.iter().flatten());
    let found = found.or_else(|| ephemeral.into_iter().find(|c| c.name == name).map(|c| (c.stdin, c.tty)));
    found.map(|(stdin, tty)| (stdin.unwrap_or(false), tty.unwrap_or(false))).unwrap_or_default()
}
