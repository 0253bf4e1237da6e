//! Events in upstream's words, for people; and the way to the timeline, for whoever tells events.

use std::sync::Arc;

use minke_core::identity::PodUid;
use minke_core::runtime::PullProgress;
use tokio::sync::broadcast;

use crate::Progress;
use crate::timeline::Timeline;

/// Tells whoever listens. Cheap to clone; never blocks.
#[derive(Debug, Clone)]
pub struct Recorder {
    progress: broadcast::Sender<Progress>,
    timeline: Timeline,
}

impl Recorder {
    /// A recorder that remembers this many events for slow listeners.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { progress: broadcast::channel(capacity.max(1)).0, timeline: Timeline::default() }
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Where transitions are recorded.
    #[must_use]
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Something normal.
    pub fn normal(&self, pod: &PodUid, container: Option<&str>, reason: &str, message: impl Into<String>) {
        self.event(pod, container, reason, message.into(), false);
    }

    /// Something wrong.
    pub fn warning(&self, pod: &PodUid, container: Option<&str>, reason: &str, message: impl Into<String>) {
        self.event(pod, container, reason, message.into(), true);
    }

    fn event(&self, pod: &PodUid, container: Option<&str>, reason: &str, message: String, warning: bool) {
        if warning {
            tracing::warn!(%pod, container, reason, message);
        } else {
            tracing::debug!(%pod, container, reason, message);
        }
        let (container, reason) = (container.map(str::to_owned), reason.to_owned());
        // Without a listener there is nobody to tell.
        drop(self.progress.send(Progress::Event { pod: pod.clone(), container, reason, message, warning }));
    }

    /// Follows the pull of an image for a Pod.
    #[must_use]
    pub fn pull(&self, pod: &PodUid, image: &str) -> Arc<dyn PullProgress> {
        Arc::new(Pull { progress: self.progress.clone(), pod: pod.clone(), image: image.to_owned() })
    }
}

struct Pull {
    progress: broadcast::Sender<Progress>,
    pod: PodUid,
    image: String,
}

impl PullProgress for Pull {
    fn layer(&self, digest: &str, done: u64, total: u64) {
        let (pod, image, layer) = (self.pod.clone(), self.image.clone(), digest.to_owned());
        drop(self.progress.send(Progress::Pull { pod, image, layer, done, total }));
    }
}
