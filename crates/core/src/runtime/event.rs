//! The runtime's event stream: hints that something changed. A relist is the truth.

use futures_util::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RuntimeError;
use crate::identity::PodUid;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeEventKind {
    /// A sandbox or container was created.
    Created,
    /// It started.
    Started,
    /// It ended.
    Stopped,
    /// It was removed.
    Deleted,
}

/// One event of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeEvent {
    /// What happened.
    pub kind: RuntimeEventKind,
    /// To which sandbox or container.
    pub id: String,
    /// Of which Pod.
    pub pod: PodUid,
    /// When, by the runtime's clock. Never used to order anything.
    pub created_at: Timestamp,
}

/// Events. A stream that ends or errs is replaced by a new subscription and a full relist.
pub trait EventService: Send + Sync + 'static {
    /// Subscribes; events made before are not replayed, and a slow reader may miss some (the stream then errs).
    ///
    /// # Errors
    /// [`RuntimeError::Unsupported`] when this runtime has no events: polling is all there is.
    fn subscribe(&self) -> Result<BoxStream<'static, Result<RuntimeEvent, RuntimeError>>, RuntimeError>;
}
