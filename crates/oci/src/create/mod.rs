//! Creating a container: from configuration to a process that waits for its start.
//!
//! ```text
//! shim ──fork──► helper (one thread, own mount namespace)
//!                  root file system mounted ─► user resolved ─► spec built (pure) ─► cgroup made
//!                  └─ libcontainer ──► init: namespaces, mounts, pivot_root, user; waits on its notify socket
//!                writes its result and exits; init's new parent is the shim
//! shim: "start" on the notify socket ──► init's executor: directory, capabilities, filter, exec
//! shim: a command in a container that runs ──fork──► join: namespaces ──fork──► cgroup, user ──► directory, … exec
//! ```
//! The helper's mount namespace dies with it and the container's dies with its last process, so no mount is ever
//! left on the machine, whoever is killed when.

mod capabilities;
mod command;
pub(crate) mod executor;
mod helper;
mod join;
mod mounts;
mod oom;
mod passwd;
mod process;
mod request;
mod rootfs;
mod spec;

pub(crate) use helper::{Created, Stdio, create};
pub(crate) use join::{CONTAINER_GONE, Join, JoinStdio, NOT_INSIDE, Report, join};
pub(crate) use process::{ExecError, NO_PROGRAM, Process};
pub(crate) use request::{CreateRequest, ImageFacts, SandboxFacts, SandboxFiles};
