//! One task per shim: takes its pushes; when the connection ends the shim is dead.

use std::sync::Arc;

use minke_core::runtime::error_chain;
use tokio::sync::mpsc;

use super::destroy;
use super::embedded::Inner;
use super::state::Sandbox;
use crate::shim::protocol::Push;

/// Starts watching a shim.
pub(super) fn watch(inner: &Arc<Inner>, sandbox: &Arc<Sandbox>, mut pushes: mpsc::UnboundedReceiver<Push>) {
    // Not to be kept alive by its own watchers.
    let inner = Arc::downgrade(inner);
    let sandbox = Arc::clone(sandbox);
    tokio::spawn(async move {
        while let Some(push) = pushes.recv().await {
            let Some(inner) = inner.upgrade() else { return };
            match push {
                Push::Exited { id, record } => {
                    if let Some(container) = inner.container(&id) {
                        inner.ended(&container, record);
                    }
                }
            }
        }
        if let Some(inner) = inner.upgrade()
            && let Err(error) = destroy::shim_ended(&inner, &sandbox).await
        {
            tracing::warn!(sandbox = %sandbox.id(), error = error_chain(&error), "a dead sandbox could not be tidied up; its removal will try again");
        }
    });
}
