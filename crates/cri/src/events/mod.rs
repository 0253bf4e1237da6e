//! Events: one stream for all subscribers, read by a task of its own.
//!
//! ```text
//!            ┌── first subscriber ──► Reading ──┬── broke: subscribers' streams end with an error ──► Idle
//!  Idle ─────┘                                  ├── the last subscriber left ──► Idle
//!                                               └── Unimplemented ──► Unsupported, on this connection
//! ```
//! One stream, because containerd before 2.0 gives each event to one of its subscribers only. The stream is not opened
//! to see whether there are events: one that closes takes events with it. Its opening does not end before the first event
//! comes, so nobody waits for it; a runtime without events says so at once.
//!
//! What a broken stream took with it is found by the full relist that every subscriber makes when it opens a stream.

mod backlog;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use minke_core::runtime::{EventService, RuntimeError, RuntimeEvent, RuntimeEventKind};
use tokio::sync::broadcast;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::api;
use crate::convert::event;
use crate::error::{Words, is_transport, transport_words};
use crate::runtime::{CriRuntime, Inner};
use backlog::Backlog;

const SUBSCRIBE: &str = "subscribe";
/// How many events a subscriber may be behind.
const CAPACITY: usize = 1024;

/// What subscribers are told.
#[derive(Debug, Clone)]
enum Told {
    Event(RuntimeEvent),
    /// The stream is over.
    Broke(Words),
    /// There are no events.
    Unsupported,
}

/// Where the stream is. See the module.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Reading(broadcast::Sender<Told>),
    /// As the runtime of this connection said.
    Unsupported(u64),
}

/// The stream.
#[derive(Debug, Default)]
pub(crate) struct Events {
    stage: Mutex<Stage>,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventService for CriRuntime {
    fn subscribe(&self) -> Result<BoxStream<'static, Result<RuntimeEvent, RuntimeError>>, RuntimeError> {
        let inner = &self.inner;
        let mut stage = inner.events.lock();
        let receiver = match &*stage {
            Stage::Unsupported(generation) if *generation == inner.connection.generation() => {
                return Err(unsupported());
            }
            Stage::Reading(sender) => sender.subscribe(),
            Stage::Unsupported(_) | Stage::Idle => {
                let (sender, receiver) = broadcast::channel(CAPACITY);
                *stage = Stage::Reading(sender.clone());
                tokio::spawn(read(inner.clone(), sender));
                receiver
            }
        };
        Ok(stream(receiver))
    }
}

fn unsupported() -> RuntimeError {
    RuntimeError::Unsupported { operation: SUBSCRIBE, feature: "events".to_owned() }
}

fn stream(receiver: broadcast::Receiver<Told>) -> BoxStream<'static, Result<RuntimeEvent, RuntimeError>> {
    let step = |receiver: Option<broadcast::Receiver<Told>>| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Ok(Told::Event(event)) => Some((Ok(event), Some(receiver))),
            Ok(Told::Unsupported) => Some((Err(unsupported()), None)),
            Ok(Told::Broke(words)) => {
                Some((Err(RuntimeError::Unavailable { operation: SUBSCRIBE, source: Box::new(words) }), None))
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                let words = Words(format!("{missed} events were missed; list everything again"));
                Some((Err(RuntimeError::failed(SUBSCRIBE, words)), None))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    };
    stream::unfold(Some(receiver), step).boxed()
}

/// Reads the stream until it ends or nobody listens.
async fn read(inner: Arc<Inner>, sender: broadcast::Sender<Told>) {
    let ended = tokio::select! {
        status = follow(&inner, &sender) => Some(status),
        () = sender.closed() => None,
    };
    let mut stage = inner.events.lock();
    let Some(status) = ended else {
        *stage = Stage::Idle;
        // Somebody may have come meanwhile.
        drop(sender.send(Told::Broke(Words("the stream was just closed".to_owned()))));
        return;
    };
    let told = if !is_transport(&status) && status.code() == Code::Unimplemented {
        *stage = Stage::Unsupported(inner.connection.generation());
        Told::Unsupported
    } else {
        *stage = Stage::Idle;
        let words = if is_transport(&status) { transport_words(&status) } else { status.message().to_owned() };
        Told::Broke(Words(words))
    };
    drop(sender.send(told));
}

/// Reads until the stream ends; how it ended.
async fn follow(inner: &Inner, sender: &broadcast::Sender<Told>) -> Status {
    let backlog = Backlog::new(inner.clock.now(), Instant::now());
    let mut client = inner.connection.runtime();
    let mut events = match client.get_container_events(api::GetEventsRequest {}).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    loop {
        match events.message().await {
            Ok(Some(message)) => {
                let Some(event) = learn(inner, &message) else { continue };
                if backlog.is_old(event.created_at, Instant::now()) {
                    tracing::trace!(id = event.id, "an event from before the stream");
                    continue;
                }
                drop(sender.send(Told::Event(event)));
            }
            Ok(None) => return Status::unavailable("the runtime ended the stream of events"),
            Err(status) => return status,
        }
    }
}

/// The port's event; remembers whose sandbox it is, and forgets one that is removed.
fn learn(inner: &Inner, message: &api::ContainerEventResponse) -> Option<RuntimeEvent> {
    let mut pods = inner.pods();
    let event = event::event(message, &pods);
    if let Some(pod) = event::pod(message) {
        let sandbox = message.pod_sandbox_status.as_ref().map(|s| s.id.clone());
        pods.extend(sandbox.map(|id| (id, pod)));
    }
    if event.as_ref().is_some_and(|e| e.kind == RuntimeEventKind::Deleted) {
        pods.remove(&message.container_id);
    }
    event
}
