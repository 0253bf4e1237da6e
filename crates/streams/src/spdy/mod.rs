//! SPDY/3.1, as far as Kubernetes speaks it: frames (pure), the table of streams (pure), and the connection that performs.
//!
//! ```text
//! bytes ──► decoder ──► frames ──► table ──► actions ──► connection: inboxes of streams, answers
//!                                                        connection ──► encoder ──► bytes
//! ```
//! Kubernetes' peers neither send nor expect flow control (`WINDOW_UPDATE` is read and ignored): the only back-pressure
//! is the connection's own. See [`crate::mux`].

mod block;
mod compress;
mod connection;
mod decoder;
mod dictionary;
mod encoder;
mod frame;
mod table;

pub(crate) use connection::{Accepted, Connection};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use frame::{Frame, FrameError, Headers, MOST_BLOCK, MOST_DATA, Setting};
pub(crate) use table::{Side, Violation};

#[cfg(test)]
mod tests;
