//! Commands in containers of Pods.

use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerPhase, ExecRequest, ExecSession, ListFilter, RuntimeError};

use super::Kubelet;
use crate::pleg::bounded;
use crate::sync::CALL_TIMEOUT;

/// A command that was not started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such Pod.
    #[error("there is no pod {0}")]
    UnknownPod(PodUid),
    /// The container does not run: not yet, no longer, or there is none of this name.
    #[error("container not found ({0:?})")]
    NotRunning(String),
    /// The runtime did not start it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl Kubelet {
    /// Starts a command in the running container of this name. Dropping the call or the session kills it.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn exec(&self, uid: &PodUid, container: &str, request: &ExecRequest) -> Result<ExecSession, ExecError> {
        let workers = &self.shared.workers;
        if workers.registry.get(uid).is_none() {
            return Err(ExecError::UnknownPod(uid.clone()));
        }
        // Asked anew rather than of the cache: who has just seen a container start does not have to wait.
        let filter = ListFilter::pod(uid);
        let listed = bounded("list containers", CALL_TIMEOUT, workers.sync.runtime.list_containers(&filter)).await?;
        let running = listed.into_iter().filter(|c| c.name == container && c.phase == ContainerPhase::Running);
        let Some(newest) = running.max_by_key(|c| c.attempt) else {
            return Err(ExecError::NotRunning(container.to_owned()));
        };
        let session = workers.sync.runtime.exec(&newest.id, request);
        Ok(bounded("exec", CALL_TIMEOUT, session).await?)
    }
}
