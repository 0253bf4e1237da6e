//! The shim: one small process per Pod, a child of nobody, that outlives the agent.
//!
//! It holds the Pod's namespaces, is the parent of its containers (a subreaper), writes their logs, keeps their exit
//! codes on disk before it tells anybody, and answers the agent on a unix socket. One thread, one `poll` loop
//! (`server`), no runtime: a hundred of them share almost all of their memory.
//!
//! ```text
//! agent ── binary (sealed memfd) ──exec──► entry ──► namespaces (+ pause) ──► server
//!   ├───── client ◄──────── protocol (unix socket) ───────────────────────────┤  └─fork─► create::helper
//!   └───── exec_client ◄─── a connection for each command ───────────────── exec ─fork─► create::join
//! ```

mod attach;
mod binary;
mod client;
mod config;
mod connection;
mod container;
mod entry;
mod exec;
mod exec_client;
mod exit;
mod fork;
mod lifecycle;
mod namespaces;
mod pause;
pub(crate) mod protocol;
mod server;
mod signals;
mod socket;

pub(crate) use binary::Binary;
pub(crate) use client::{Client, ClientError, Connection};
pub(crate) use config::{Ready, ShimConfig};
pub(crate) use entry::reexec;
pub(crate) use exec_client::ExecConnection;
pub(crate) use exit::write_json;
pub(crate) use fork::fork as fork_child;
pub(crate) use signals::unblock_signals;
pub(crate) use socket::connect;
