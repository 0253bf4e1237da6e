//! What the commands and the agent say to each other over the agent's unix socket.
//!
//! A connection begins with [`Request::Hello`], which the agent answers with its [`Identity`] even to another
//! version. Then requests are answered in order. After [`Request::Watch`], changes come in between, in the order in
//! which they happened with respect to the answers: what comes after the answer to an `Apply` is news of the Pod
//! that was applied, never of an earlier one with its uid. One JSON document a frame, frames bounded ([`channel`]).

mod channel;
mod pieces;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use minke_core::runtime::{AttachRequest, ExecRequest};
use minke_kubelet::timeline::Timelines;
use minke_kubelet::{Admission, NodeReport, PodReport, PodUse, Progress};
use serde::{Deserialize, Serialize};

pub(crate) use channel::{Channel, ChannelError};
pub(crate) use pieces::{Piece, PieceReader, PieceWriter, WINDOW};

/// Raised with every change that an older or newer peer would not understand.
pub(crate) const PROTOCOL: u32 = 3;

/// Which program speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// See [`PROTOCOL`].
    pub(crate) protocol: u32,
    /// The program's version.
    pub(crate) version: String,
    /// Which build of that version: size and time of the executable file. Empty when unknown.
    pub(crate) build: String,
    /// The process.
    pub(crate) pid: u32,
    /// An agent's container runtime, as [`crate::backend::Backend`] is written.
    #[serde(default)]
    pub(crate) runtime: Option<String>,
    /// What an agent serves besides its own socket.
    #[serde(default)]
    pub(crate) served: Option<Served>,
}

/// A Kubernetes API that an agent serves from its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Served {
    /// Its address, as an URL.
    pub(crate) url: String,
    /// What an administrator reaches it with.
    pub(crate) kubeconfig: PathBuf,
    /// The name of the node that its Pods run on.
    pub(crate) node: String,
}

impl Identity {
    /// This process.
    pub(crate) fn own() -> Self {
        let build = std::env::current_exe().ok().and_then(|exe| build_of(&exe)).unwrap_or_default();
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build,
            pid: std::process::id(),
            runtime: None,
            served: None,
        }
    }

    /// What to tell people when an agent with this identity is asked by a command with another.
    pub(crate) fn skew(&self, command: &Self) -> Skew {
        if self.protocol != command.protocol {
            Skew::Incompatible
        } else if self.version != command.version || (self.build != command.build && !self.build.is_empty()) {
            Skew::Different
        } else {
            Skew::None
        }
    }
}

/// Size and modification time of an executable: what a build can be told by without reading it whole.
fn build_of(exe: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(exe).ok()?;
    Some(format!("{}-{}.{:09}", meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// How two programs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skew {
    /// They don't.
    None,
    /// Another build that speaks the same protocol.
    Different,
    /// They can't talk.
    Incompatible,
}

/// What a command asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    /// First of all.
    Hello(Identity),
    /// Run these Pods. Answered by [`Reply::Admissions`], in order.
    Apply {
        /// Defaulted and validated, with identity.
        pods: Vec<Arc<Pod>>,
        /// The ConfigMaps and Secrets they refer to.
        objects: Arc<ObjectSet>,
    },
    /// All reports, once. Answered by [`Reply::Reports`].
    List,
    /// All reports of these Pods (`None`: of all), then every change, until the connection is closed. Only
    /// [`Request::Apply`] and [`Request::Stop`] may follow.
    Watch {
        /// Which Pods.
        uids: Option<Vec<PodUid>>,
    },
    /// Stop, and maybe forget, a Pod. Answered at once by [`Reply::Done`]; a watch tells when it has happened.
    Stop {
        /// Which Pod.
        uid: PodUid,
        /// Instead of the Pod's own grace period.
        grace_ms: Option<u64>,
        /// Forget it with its logs, volumes and containers.
        remove: bool,
    },
    /// What Pods use, and what is left of the machine. Answered by [`Reply::Usage`].
    Usage,
    /// What the machine is short of. Answered by [`Reply::Node`].
    Node,
    /// The agent's metrics. Answered by [`Reply::Metrics`].
    Metrics,
    /// When things happened to these Pods (`None`: to all). Answered by [`Reply::Timelines`].
    Timeline {
        /// Which Pods.
        uids: Option<Vec<PodUid>>,
    },
    /// Run a command in a running container. Answered by [`Reply::Done`] once its program runs; from then on the
    /// connection carries its streams ([`pieces`]) and nothing else, and closing it kills the command.
    Exec {
        /// Which Pod.
        uid: PodUid,
        /// The container's name.
        container: String,
        /// The command and its streams.
        request: ExecRequest,
    },
    /// Join the program of a running container. Answered and carried as [`Request::Exec`]; closing the connection leaves
    /// the program running.
    Attach {
        /// Which Pod.
        uid: PodUid,
        /// The container's name.
        container: String,
        /// The streams that are wanted.
        request: AttachRequest,
    },
    /// Connect to a port on a Pod's own loopback. Answered by [`Reply::Done`] once it is connected; from then on the
    /// connection carries its bytes: [`Piece::Stdin`] and [`Piece::StdinClosed`] to the port, [`Piece::Stdout`] from it,
    /// then [`Piece::Ended`] or, if it broke, [`Piece::Lost`].
    Connect {
        /// Which Pod.
        uid: PodUid,
        /// The port.
        port: u16,
    },
    /// End the agent; Pods stay as they are. Answered by [`Reply::Done`] before it goes.
    Shutdown,
}

/// What the agent answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Who answers.
    Hello(Identity),
    /// What became of each Pod, in the order asked.
    Admissions(Vec<Admission>),
    /// Reports; in a watch the first answer, from where changes go on.
    Reports(Vec<PodReport>),
    /// A Pod is as reported. Changes of one Pod coalesce.
    Change(Box<PodReport>),
    /// A Pod was forgotten.
    Removed(PodUid),
    /// For people; lossy.
    Progress(Progress),
    /// What Pods use, and what is left of the machine.
    Usage(Vec<PodUse>, NodeReport),
    /// What the machine is short of.
    Node(NodeReport),
    /// Metrics in the OpenMetrics text format.
    Metrics(String),
    /// When things happened.
    Timelines(Timelines),
    /// It is done, or has begun.
    Done,
    /// There is no such Pod.
    UnknownPod(PodUid),
    /// The command of a [`Request::Exec`] was not started, a program not joined, a port not reached.
    ExecRefused {
        /// What a shell would return, where the program is at fault.
        exit_code: Option<u8>,
        /// Why.
        message: String,
    },
    /// The request can't be understood or carried out.
    Error(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(protocol: u32, version: &str, build: &str) -> Identity {
        Identity { protocol, version: version.to_owned(), build: build.to_owned(), pid: 1, runtime: None, served: None }
    }

    #[test]
    fn skew_table() {
        let own = identity(1, "0.1.0", "b1");
        for (agent, skew) in [
            (identity(1, "0.1.0", "b1"), Skew::None),
            (identity(1, "0.1.0", ""), Skew::None),
            (identity(1, "0.1.0", "b2"), Skew::Different),
            (identity(1, "0.2.0", "b1"), Skew::Different),
            (identity(2, "0.1.0", "b1"), Skew::Incompatible),
        ] {
            assert_eq!(agent.skew(&own), skew, "{agent:?}");
        }
    }

    #[test]
    fn this_program_knows_its_own_build() {
        assert!(!Identity::own().build.is_empty());
        assert_eq!(Identity::own().skew(&Identity::own()), Skew::None);
    }
}
