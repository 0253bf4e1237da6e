//! A scripted runtime, and a scripted provider, for tests (feature `fake`): deterministic, on tokio's clock, which tests pause.
//!
//! [`FakeRuntime`] keeps sandboxes, containers and images in memory. Containers live as their [`Life`] says; calls fail, hang,
//! crawl or lie as [`Fault`]s say; events are lost, doubled, delayed or reordered as the [`EventPlan`] says. Every
//! call is logged, and promises that no client may break (never two live containers of one name in a Pod) are checked
//! all the time: [`FakeRuntime::violations`].
//!
//! Nothing runs in the background: a container whose time has come is ended by the next look at it, with the time at
//! which it should have ended. A clone is the same runtime, so it outlives any number of agents.

mod attach;
mod calls;
mod clock;
mod configs;
mod containers;
mod events;
mod exec;
mod images;
mod life;
mod provider;
mod random;
mod runtime;
mod sandboxes;
mod stats;
mod world;

pub use calls::{Call, Fault, FaultAction, FaultError, Op};
pub use clock::FakeClock;
pub use configs::{container_config, sandbox_config};
pub use events::{Delivery, EventPlan, EventRates};
pub use exec::FakeExec;
pub use life::{Ending, Life, OnStop};
pub use provider::{FakePodLife, FakeProvider, ProviderFault, ProviderFaultAction, ProviderFaultError, ProviderOp};
pub use random::SplitMix;
pub use runtime::FakeRuntime;

#[cfg(test)]
mod tests;
