//! Container logs as files: finding them ([`files`]), reading them over rotation and restarts ([`reader`]), waiting
//! for more ([`tail`]), choosing a part of them ([`window`]) and showing them ([`show`]).
//!
//! The shims write logs and the agent rotates them; this side only reads, so logs can be read without any agent.

pub(crate) mod files;
pub(crate) mod line;
pub(crate) mod reader;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod window;
