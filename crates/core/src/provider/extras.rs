//! What a provider can do besides: each is a capability that it has or has not.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_util::io::AsyncRead;
use jiff::Timestamp;

use super::{NodeShutdown, ProviderError};
use crate::identity::PodKey;
pub use crate::runtime::{AttachRequest, Duplex};
use crate::runtime::{CgroupUsage, ExecRequest, ExecSession};

/// The capabilities of a provider; `None` is one that it lacks.
#[derive(Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Output of containers.
    pub logs: Option<&'a dyn LogSource>,
    /// Commands in containers.
    pub exec: Option<&'a dyn Execs>,
    /// The streams of a container's own program.
    pub attach: Option<&'a dyn Attaches>,
    /// Connections to ports.
    pub port_forward: Option<&'a dyn PortForwards>,
    /// What Pods use.
    pub stats: Option<&'a dyn StatsSource>,
    /// Ending Pods because the node goes down.
    pub shutdown: Option<&'a dyn NodeShutdown>,
}

impl fmt::Debug for Extras<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extras")
            .field("logs", &self.logs.is_some())
            .field("exec", &self.exec.is_some())
            .field("attach", &self.attach.is_some())
            .field("port_forward", &self.port_forward.is_some())
            .field("stats", &self.stats.is_some())
            .field("shutdown", &self.shutdown.is_some())
            .finish()
    }
}

/// Where logs begin in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// This many seconds ago.
    Seconds(u64),
    /// At this time.
    Time(Timestamp),
}

/// Which of a container's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogStreams {
    /// Both, as they were written.
    #[default]
    All,
    /// Standard output alone.
    Stdout,
    /// Standard error alone.
    Stderr,
}

/// Which part of a container's output is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Only so many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only so many bytes in all.
    pub limit_bytes: Option<u64>,
    /// Not from before.
    pub since: Option<Since>,
    /// Goes on with what is written, until the container ends.
    pub follow: bool,
    /// Of the container's previous run.
    pub previous: bool,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// Which streams. One alone is never asked for together with `tail_lines`.
    pub stream: LogStreams,
}

/// Bytes that come until their end; dropping it stops them.
pub type ByteStream = Pin<Box<dyn AsyncRead + Send>>;

/// Output of containers.
#[async_trait]
pub trait LogSource: Send + Sync {
    /// Output of the container. [`ProviderError::NotFound`] without the Pod or the container.
    async fn logs(&self, key: &PodKey, container: &str, options: &LogOptions) -> Result<ByteStream, ProviderError>;
}

/// Commands in containers.
#[async_trait]
pub trait Execs: Send + Sync {
    /// Starts a command. Dropping the call or the session ends it.
    async fn exec(&self, key: &PodKey, container: &str, request: &ExecRequest) -> Result<ExecSession, ProviderError>;
}

/// The streams of a container's own program.
#[async_trait]
pub trait Attaches: Send + Sync {
    /// Joins the streams. Dropping the session leaves the program running.
    async fn attach(&self, key: &PodKey, container: &str, request: AttachRequest)
    -> Result<ExecSession, ProviderError>;
}

/// Connections to ports of Pods.
#[async_trait]
pub trait PortForwards: Send + Sync {
    /// Connects to a port on the Pod's own loopback. Dropping the connection closes it.
    async fn connect(&self, key: &PodKey, port: u16) -> Result<Pin<Box<dyn Duplex>>, ProviderError>;
}

/// What a Pod and its containers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodStats {
    /// Which Pod.
    pub key: PodKey,
    /// The whole Pod; `None` if it can't be told.
    pub pod: Option<CgroupUsage>,
    /// Its running containers, by name.
    pub containers: Vec<(String, CgroupUsage)>,
}

/// What Pods use.
#[async_trait]
pub trait StatsSource: Send + Sync {
    /// Of all Pods that run. A Pod that goes meanwhile is left out.
    async fn stats(&self) -> Result<Vec<PodStats>, ProviderError>;
}
