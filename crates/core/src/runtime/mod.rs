//! The Runtime port: what the kubelet core asks of a container runtime.
//!
//! Modelled on the nouns of CRI v1 (sandbox, container, image, event), so that a CRI adapter is thin and the
//! embedded runtime is honest. Nine narrow traits; [`Runtime`] is all of them together.
//!
//! Contract, for every implementation:
//! - **Idempotent**: stopping what is stopped and removing what is gone succeed. Creating twice makes two; callers
//!   choose the attempt number, and the runtime refuses a second container of the same sandbox, name and attempt.
//! - **Cancel-safe**: a call dropped at any await leaves nothing that a later list does not show and a later
//!   remove does not undo.
//! - **Truthful**: an exit code that was lost is [`ExitCode::Lost`], never a number; a state that can't be known is
//!   [`ContainerState::Unknown`].
//! - **Durable**: what runs is found again after a restart of the agent, by listing.

mod attach;
mod container;
mod error;
mod event;
mod exec;
mod health;
mod image;
pub mod labels;
mod pod;
mod sandbox;
mod security;
mod stats;

pub use attach::*;
pub use container::*;
pub use error::*;
pub use event::*;
pub use exec::*;
pub use health::*;
pub use image::*;
pub use pod::*;
pub use sandbox::*;
pub use security::*;
pub use stats::*;

/// A whole runtime. Implemented by everything that implements the nine parts.
pub trait Runtime:
    SandboxService
    + ContainerService
    + ImageService
    + EventService
    + ExecService
    + AttachService
    + PortForwardService
    + StatsService
    + HealthService
{
}

impl<T> Runtime for T where
    T: SandboxService
        + ContainerService
        + ImageService
        + EventService
        + ExecService
        + AttachService
        + PortForwardService
        + StatsService
        + HealthService
{
}
