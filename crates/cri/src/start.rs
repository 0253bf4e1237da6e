//! Starting a container, and starts that were cut off.
//!
//! containerd gives a start up when the connection of whoever asked for it ends, as it does when an agent is killed. It
//! needs a while for that, in which the container can't be started by another; then it calls the container ended, with
//! a code of its own. Of a container whose program never ran nothing is left to tell: it is removed, so that the next
//! agent makes it anew instead of reporting an end that nothing had.

use std::time::Duration;

use minke_core::runtime::{ContainerId, ContainerService as _, ContainerState, RuntimeError};
use tokio::time::Instant;

use crate::convert::own;
use crate::convert::state::{CutOff, cut_off};
use crate::error::{Subject, Words};
use crate::runtime::{CallError, CriRuntime, Inner};
use crate::sandboxes::gone_is_done;
use crate::{api, deadline};

const START: &str = "start container";
const REMOVE: &str = "remove container";

impl CriRuntime {
    /// Starts a container, or waits for the start that an earlier agent asked for.
    pub(crate) async fn start(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let inner = &self.inner;
        let request = api::StartContainerRequest { container_id: id.0.clone() };
        let mut client = inner.connection.runtime();
        let started = inner.bounded(Some(deadline::CALL), client.start_container(request)).await;
        let Err(error) = started else { return Ok(()) };
        let Some(anothers) = anothers(&error) else {
            return Err(error.into_runtime(START, Subject::Container(&id.0)));
        };
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(10));
        loop {
            match self.container_status(id).await?.state {
                ContainerState::Running { .. } | ContainerState::Exited { started_at: Some(_), .. } => match anothers {
                    Anothers::UnderWay => return Ok(()),
                    Anothers::Over => return Err(error.into_runtime(START, Subject::Container(&id.0))),
                },
                ContainerState::Exited { started_at: None, exit } => {
                    return Err(RuntimeError::failed(START, Words(exit.message)));
                }
                ContainerState::Created | ContainerState::Unknown => {}
            }
            if begun.elapsed() > deadline::CALL {
                return Err(error.into_runtime(START, Subject::Container(&id.0)));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// How far a start is that somebody else has asked for.
#[derive(Debug, Clone, Copy)]
enum Anothers {
    /// It goes on; what comes of it is what was wanted.
    UnderWay,
    /// The container runs, or has ended.
    Over,
}

/// Whether somebody else has asked for the start.
fn anothers(error: &CallError) -> Option<Anothers> {
    let words = error.status().map_or("", tonic::Status::message);
    let known = [
        ("already in starting state", Anothers::UnderWay),
        ("is in CONTAINER_RUNNING state", Anothers::Over),
        ("is in CONTAINER_EXITED state", Anothers::Over),
    ];
    known.into_iter().find(|(known, _)| words.contains(known)).map(|(_, anothers)| anothers)
}

/// Removes a container of ours whose start was cut off before its program ran. Whether it was one: then it is gone.
pub(crate) async fn forget_cut_off(inner: &Inner, status: &api::ContainerStatus) -> Result<bool, RuntimeError> {
    let ours = status.annotations.contains_key(own::SANDBOX);
    if !ours || cut_off(status) != Some(CutOff::NeverRan) {
        return Ok(false);
    }
    tracing::info!(container = status.id, "its start was cut off before it ran; it is removed, to be made again");
    let request = api::RemoveContainerRequest { container_id: status.id.clone() };
    let mut client = inner.connection.runtime();
    let removed = inner.call(REMOVE, Subject::Container(&status.id), client.remove_container(request)).await;
    gone_is_done(removed.map(drop))?;
    Ok(true)
}
