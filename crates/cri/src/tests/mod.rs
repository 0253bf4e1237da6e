//! The adapter against the fake server.

mod calls;
mod events;
mod gone;
mod peers;
mod starts;
