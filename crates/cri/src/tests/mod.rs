//! The adapter against the fake server.

mod calls;
mod claims;
mod events;
mod gone;
mod peers;
mod starts;
