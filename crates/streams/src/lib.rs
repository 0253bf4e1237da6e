//! Kubernetes' streaming protocols, both sides: remote commands (exec, attach) and port-forward, over SPDY/3.1 and
//! WebSocket, on any connection that was upgraded.
//!
//! ```text
//! request ──► negotiate (pure) ──► 101 or a refusal, answered by whoever holds the request
//!                                    └─► serve_exec / serve_port_forward ◄──► session, ports
//! client ──► upgrade ──► a session, or connections to ports
//! ```
//! [`negotiate`] decides, [`serve_exec`] and [`serve_port_forward`] perform on the upgraded connection, [`client`] is the
//! other side. [`spdy`] has the frames. Nothing here listens, answers HTTP or knows a runtime.

pub mod client;
mod error;
mod exec;
mod mux;
pub mod negotiate;
mod port_forward;
pub mod spdy;
mod websocket;

pub use error::{Failure, Limits, RulesError, ServeError};
pub use exec::serve_exec;
pub use port_forward::{Connect, serve_port_forward};
