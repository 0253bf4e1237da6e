//! What an agent does besides supervising Pods, in the same process and over the same kubelet core: being a node of a
//! cluster, serving an API. The agent begins it before it says that it is ready, and ends it before the kubelet core goes.

use async_trait::async_trait;
use minke_kubelet::Kubelet;

use crate::exit::Failure;
use crate::protocol::Served;

/// Goes on beside an agent.
#[async_trait]
pub(crate) trait Companion: Send {
    /// Begins, over this kubelet core; returns when it is of use. A failure ends the agent before it was ready.
    async fn start(&mut self, kubelet: &Kubelet) -> Result<(), Failure>;
    /// Goes on until it can't, which ends the agent. Dropped when the agent ends for another reason.
    async fn run(&mut self) -> Failure;
    /// The agent is told to end by SIGTERM: by a service manager, perhaps because the machine goes down. Not told when somebody
    /// types Ctrl-C or another agent takes its place. Before [`Companion::stop`].
    fn terminating(&mut self) {}
    /// Ends, after [`Companion::run`] was dropped or has returned: waits for what is in hand.
    async fn stop(&mut self);
    /// What it serves, as commands are told.
    fn served(&self) -> Option<Served> {
        None
    }
}

/// An agent that does nothing besides.
#[derive(Debug)]
pub(crate) struct Alone;

#[async_trait]
impl Companion for Alone {
    async fn start(&mut self, _: &Kubelet) -> Result<(), Failure> {
        Ok(())
    }

    async fn run(&mut self) -> Failure {
        std::future::pending().await
    }

    async fn stop(&mut self) {}
}
