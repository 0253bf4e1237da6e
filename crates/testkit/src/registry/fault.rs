//! What can go wrong on purpose.

use std::time::Duration;

/// Which requests a fault hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Every request.
    Any,
    /// Manifests.
    Manifests,
    /// Every blob.
    Blobs,
    /// The blob with this digest.
    Blob(String),
    /// The token service.
    Token,
}

impl On {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Manifests => path.contains("/manifests/"),
            Self::Blobs => path.contains("/blobs/"),
            Self::Blob(digest) => path.ends_with(&format!("/blobs/{digest}")),
            Self::Token => path.starts_with("/token"),
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This status with an OCI error body.
    Status(u16),
    /// 429 with this `Retry-After` in seconds.
    RateLimit(u64),
    /// The connection is closed without an answer.
    Hangup,
    /// The body ends after this many bytes, without the rest that its length promises.
    CutAfter(usize),
    /// The body stops after this many bytes and the connection stays open.
    StallAfter(usize),
    /// Chunks of this many bytes with a pause between them.
    Slow {
        /// Bytes of each chunk.
        chunk: usize,
        /// Pause.
        pause: Duration,
    },
    /// The bytes are flipped.
    Corrupt,
    /// A `Range` is ignored: the whole body with status 200.
    IgnoreRange,
    /// More bytes than promised, without a length.
    Endless,
}

/// A fault that waits for its requests.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) on: On,
    pub(super) times: usize,
    pub(super) fault: Fault,
}

/// The first armed fault that matches; it is used up by one.
pub(super) fn take(faults: &mut [Armed], path: &str) -> Option<Fault> {
    let armed = faults.iter_mut().find(|armed| armed.times > 0 && armed.on.matches(path))?;
    armed.times -= 1;
    Some(armed.fault.clone())
}
