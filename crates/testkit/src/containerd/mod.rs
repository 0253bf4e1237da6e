//! Real containerds for tests: unpacked from Debian's packages, never installed, each on sockets and directories of its own.
//!
//! ```text
//! packages   apt-get with its own sources and lists ─► .deb ─► dpkg-deb -x ─► a cache that all tests share
//! config     what each version wants to be told (pure)
//! collector  takes away what a killed one left in its own way
//! daemon     Containerd: a process in a mount namespace of its own; killed, restarted, and cleaned up after
//! processes  its shims and their containers, found in /proc and by cgroup
//! ```
//! What can't be had (no network, no apt, no root) is [`Unavailable`], with the reason: such a test is skipped by name.

mod collector;
mod config;
mod daemon;
mod packages;
mod processes;

use std::fmt;
use std::path::{Path, PathBuf};

pub use collector::Collector;
pub use config::Network;
pub use daemon::{Containerd, PAUSE_IMAGE};

/// A containerd that Debian has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    /// containerd 1.6, of Debian 12.
    Bookworm,
    /// containerd 1.7, of Debian 13.
    Trixie,
    /// containerd 2.1 or newer, of unstable.
    Sid,
}

impl Release {
    /// All, oldest first.
    pub const ALL: [Self; 3] = [Self::Bookworm, Self::Trixie, Self::Sid];

    /// Debian's name of the suite.
    #[must_use]
    pub fn suite(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }

    /// For names of tests: `containerd_1_6`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "containerd_1_6",
            Self::Trixie => "containerd_1_7",
            Self::Sid => "containerd_2_1",
        }
    }

    /// A number for what must differ between containerds of one test.
    fn number(self) -> u8 {
        match self {
            Self::Bookworm => 6,
            Self::Trixie => 7,
            Self::Sid => 21,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why there is no such program here. Not a failure: the reason of a skipped test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(String);

impl Unavailable {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The programs of one containerd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Which one.
    pub release: Release,
    /// `containerd`, its shim and `ctr`.
    pub bin: PathBuf,
    /// runc: Debian 12's for all, because newer ones need a newer C library.
    pub runc: PathBuf,
    /// The CNI plugins of Debian 12.
    pub cni: PathBuf,
}

impl Programs {
    /// Finds them in the cache, or fetches and unpacks them there. Blocks: the first time for as long as some 60 MB take.
    /// Tests that ask at the same time wait for each other. `MINKE_CONTAINERD_CACHE` names another cache.
    ///
    /// # Errors
    /// [`Unavailable`] without root, apt, Debian's keys or a mirror that answers.
    pub fn get(cache: &Path, release: Release) -> Result<Self, Unavailable> {
        if !rustix::process::geteuid().is_root() {
            return Err(Unavailable::because("needs root"));
        }
        let cache = std::env::var_os("MINKE_CONTAINERD_CACHE").map_or_else(|| cache.to_owned(), PathBuf::from);
        let [containerd] = packages::unpacked(&cache, release, ["containerd"])?;
        let [runc, cni] = packages::unpacked(&cache, Release::Bookworm, ["runc", "containernetworking-plugins"])?;
        let programs = Self {
            release,
            bin: containerd.join("usr/bin"),
            runc: runc.join("usr/sbin/runc"),
            cni: cni.join("usr/lib/cni"),
        };
        for program in [programs.bin.join("containerd"), programs.runc.clone()] {
            packages::runs(&program)?;
        }
        Ok(programs)
    }
}
