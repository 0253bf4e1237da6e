//! A runtime under test.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerConfig, ImageId, Runtime};

/// Which runtime; a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The scripted runtime of the simulation: what it does differently, the simulation gets wrong.
    Fake,
    /// The embedded runtime.
    Embedded,
    /// containerd 1.6 over CRI.
    Containerd16,
    /// containerd 1.7 over CRI.
    Containerd17,
    /// containerd 2.1 or newer over CRI.
    Containerd21,
}

impl Kind {
    /// For names of tests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fake => "fake",
            Self::Embedded => "embedded",
            Self::Containerd16 => "containerd_1_6",
            Self::Containerd17 => "containerd_1_7",
            Self::Containerd21 => "containerd_2_1",
        }
    }

    /// Whether containers are real processes that have output, use and limits.
    #[must_use]
    pub fn runs_programs(self) -> bool {
        match self {
            Self::Fake => false,
            Self::Embedded | Self::Containerd16 | Self::Containerd17 | Self::Containerd21 => true,
        }
    }
}

/// What a container of a scenario does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Ends at once with this code.
    Exit(i32),
    /// Runs until it gets SIGTERM, then ends with this code.
    Polite(i32),
    /// Ignores SIGTERM.
    Deaf,
    /// Is not there.
    Missing,
    /// A shell script, where programs run.
    Shell(&'static str),
}

/// Makes a runtime's containers do what a scenario wants.
pub trait Programs: Send + Sync + 'static {
    /// Prepares a container of this Pod that is about to be created.
    fn prepare(&self, pod: &PodUid, config: &mut ContainerConfig, program: Program);
}

/// Programs for runtimes that run them: scripts for the shell of busybox. They say `up` when they are ready for signals.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShellPrograms;

impl Programs for ShellPrograms {
    fn prepare(&self, _pod: &PodUid, config: &mut ContainerConfig, program: Program) {
        let script = match program {
            Program::Exit(code) => format!("exit {code}"),
            Program::Polite(code) => format!("trap 'exit {code}' TERM; echo up; sleep 1000 & wait"),
            Program::Deaf => "trap '' TERM; echo up; sleep 1000".to_owned(),
            Program::Shell(script) => script.to_owned(),
            Program::Missing => {
                config.command = vec!["/no/such/program".to_owned()];
                return;
            }
        };
        config.command = ["/bin/sh", "-c"].map(str::to_owned).to_vec();
        config.args = vec![script];
    }
}

/// A runtime under test, ready to be used, with the images that scenarios need in its store.
#[derive(Clone)]
pub struct Subject {
    /// Which one.
    pub kind: Kind,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Makes its containers do something.
    pub programs: Arc<dyn Programs>,
    /// An image with busybox, and its name.
    pub image: (ImageId, String),
    /// The name of an image that no other scenario needs and that may be removed.
    pub spare_image: String,
    /// A registry, `host:port`, where programs run: it has `good:1`, and knows no login for `secret:1`.
    pub registry: Option<String>,
    /// A directory for logs and for what is mounted.
    pub directory: PathBuf,
    /// The cgroup below which Pods belong.
    pub cgroup: String,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("kind", &self.kind).finish_non_exhaustive()
    }
}
