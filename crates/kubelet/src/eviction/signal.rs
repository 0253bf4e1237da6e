//! What eviction watches: how much of something is left.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::admission::Pressure;

/// Something of which the machine may run out, under upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Signal {
    /// `memory.available`
    Memory,
    /// `nodefs.available`: the file system of volumes and writable layers.
    Nodefs,
    /// `nodefs.inodesFree`
    NodefsInodes,
    /// `imagefs.available`: the file system of images.
    Imagefs,
    /// `imagefs.inodesFree`
    ImagefsInodes,
    /// `pid.available`
    Pid,
}

impl Signal {
    /// All there are, the one that counts most first.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Nodefs, Self::NodefsInodes, Self::Imagefs, Self::ImagefsInodes, Self::Pid];

    /// Upstream's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory.available",
            Self::Nodefs => "nodefs.available",
            Self::NodefsInodes => "nodefs.inodesFree",
            Self::Imagefs => "imagefs.available",
            Self::ImagefsInodes => "imagefs.inodesFree",
            Self::Pid => "pid.available",
        }
    }

    /// The condition of the machine that it stands for.
    #[must_use]
    pub fn pressure(self) -> Pressure {
        match self {
            Self::Memory => Pressure::Memory,
            Self::Nodefs | Self::NodefsInodes | Self::Imagefs | Self::ImagefsInodes => Pressure::Disk,
            Self::Pid => Pressure::Pid,
        }
    }

    /// The resource of Pods that is reclaimed, as messages name it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Nodefs | Self::Imagefs => "ephemeral-storage",
            Self::NodefsInodes | Self::ImagefsInodes => "inodes",
            Self::Pid => "pids",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an eviction signal; there are {}", Signal::ALL.map(Signal::as_str).join(", "))]
pub struct UnknownSignal {
    /// The text.
    pub given: String,
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| UnknownSignal { given: text.to_owned() })
    }
}

/// How much is left of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// What is left: bytes, inodes or process ids.
    pub available: u64,
    /// What there is in all.
    pub capacity: u64,
}

/// What the machine has at one moment. A signal that can't be observed is absent, and counts as in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observations {
    /// The levels.
    pub levels: BTreeMap<Signal, Level>,
    /// Images have a file system of their own, where removing a Pod frees nothing.
    pub separate_imagefs: bool,
}
