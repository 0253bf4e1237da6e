//! What a container sees of itself and of its Pod: environment, expanded command, downward API.
//!
//! Order, as upstream: what tells of services, `envFrom` in list order (a later source overrides an earlier one), then `env` in list order;
//! `$(NAME)` refers to what came before. [`resolve`] makes the environment, [`expand_command`] applies it.

mod downward;
mod expand;
mod resolve;
mod services;

pub use downward::*;
pub use expand::*;
pub use resolve::*;
pub use services::*;

#[cfg(test)]
mod tests;
