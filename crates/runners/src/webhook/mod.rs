//! The forge tells of jobs: deliveries over HTTP, signed.
//!
//! ```text
//! connection ─► bounded request ─► signature over the raw body ─► delivery seen before? ─► payload ─► journal ─► queue
//!     │ too many: closed   │ 413       │ 401                           │ 200                │ 400      │ full: 503
//! ```
//! [`signature`] and [`payload`] are pure; [`server`] is the listener. What is accepted is in the queue, and in the
//! [`journal`] if there is one, before the forge is answered; what is lost all the same is made up for by the next poll.

pub mod journal;
pub mod payload;
mod seen;
pub mod server;
pub mod signature;

pub use journal::{Journal, JournalError};
pub use payload::{BadPayload, Delivery, JobNews};
pub use server::{Receiver, ReceiverSettings};
pub use signature::{BadSignature, verify};
