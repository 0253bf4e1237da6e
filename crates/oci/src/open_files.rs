//! How many files may be open at a time: here as many as possible, in containers as many as the agent was started with.
//!
//! A command with streams takes some descriptors in the agent and one in its shim: the usual soft limit of 1024 is a
//! hundred of them. But a program may count on small numbers (`select(2)`), or close every one up to its limit, so what
//! runs in containers does not get the raised one.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of this process before they were raised. Children that are forked inherit the value.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard one, once. Containers that are made from here on keep what it was.
pub fn raise_open_files() {
    raise(None);
}

/// The soft limit that containers get; `None`: what this process has.
pub(crate) fn for_containers() -> Option<u64> {
    BEFORE.get().and_then(|before| before.current)
}

/// In a shim, whose agent may have raised its own, which the shim inherited: containers get this one.
pub(crate) fn raise(for_containers: Option<u64>) {
    let now = getrlimit(Resource::Nofile);
    let before = Rlimit { current: for_containers.or(now.current), maximum: now.maximum };
    if BEFORE.set(before).is_ok() {
        // One that stays as it is, is no fault: only so many commands fit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}

/// In a process that is about to become a container's.
pub(crate) fn restore() {
    if let Some(before) = BEFORE.get() {
        let _ = setrlimit(Resource::Nofile, *before);
    }
}
