//! Which system calls a container may make.
//!
//! ```text
//! RuntimeDefault ──► default ──┐
//! Localhost file ──► json ─────┼─► Profile ──► policy (names → numbers, conditions on capabilities decided)
//!                              │                 └──► bpf (a program) ──► install (right before exec)
//! ```
//! Everything up to the program is pure. Anything that can't be understood stops the container: a filter that is not
//! loaded is never taken for one that is.

mod bpf;
mod default;
mod install;
mod json;
mod policy;
mod profile;
mod syscalls;

pub(crate) use bpf::Program;
pub(crate) use default::default_profile;
pub(crate) use install::install;
pub(crate) use json::parse;
pub(crate) use policy::{Arch, compile};
pub(crate) use profile::SeccompError;
#[cfg(test)]
use profile::{Profile, Rule};
