//! A node of a cluster, running in this process: the node controller and, once the name is held, the pod controller, over one
//! provider.
//!
//! ```text
//! NodeController: lease ─► Node object ─► ready ─► Controller: Pods ◄──► provider
//!        ▲                                             ▲
//!        └────── drain: not ready, Pods end in groups ─┘
//! ```

mod drain;
mod events;
pub(crate) mod logind;
mod serving;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use minke_core::clock::SystemClock;
use minke_core::provider::{NodeSource, Provider, ProviderError};
use minke_kubelet::Kubelet;
use minke_kubelet::provider::{KubeletProvider, MachineFacts};
use minke_node::controller::{Controller, ControllerError, ControllerMetrics, Handle, MissingPart, Options};
use minke_node::environment::NodeFacts;
use minke_node::kube::KubeApi;
use minke_node::node::shutdown::ShutdownPolicy;
use minke_node::node::{NodeConfig, NodeController, NodeError, NodeHandle};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

pub(crate) use serving::{CertificateSource, ServingSettings};
use serving::{NodeServing, ServingError, serve};

/// The version of Kubernetes that the node says it is like.
pub(crate) const KUBERNETES: &str = "v1.37.0";

/// Why a node can't begin or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeRunError {
    /// The machine can't be described.
    #[error("the node's provider can't describe it")]
    Describe(#[source] ProviderError),
    /// The pod controller lacks a part.
    #[error(transparent)]
    Part(#[from] MissingPart),
    /// The node's own API can't be served.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// The node controller ended.
    #[error("the node can't be kept in the API")]
    Node(#[source] Arc<NodeError>),
    /// The pod controller ended.
    #[error("the pods of the node can't be kept")]
    Pods(#[source] Arc<ControllerError>),
}

/// Who runs the Pods and knows the machine.
#[derive(Clone)]
pub(crate) struct Backing {
    /// Runs Pods.
    pub(crate) provider: Arc<dyn Provider>,
    /// Knows the machine.
    pub(crate) source: Arc<dyn NodeSource>,
    /// The kubelet core behind the provider, if it is one.
    pub(crate) kubelet: Option<Kubelet>,
    /// How the node's own API is served; `None`: it is not.
    pub(crate) serving: Option<ServingSettings>,
}

impl Backing {
    /// A kubelet core. Addresses count instead of those that the machine is found to have, if there are any.
    pub(crate) fn kubelet(kubelet: Kubelet, addresses: Vec<std::net::IpAddr>) -> Self {
        let kubelet_version = format!("{KUBERNETES}+minke.{}", env!("CARGO_PKG_VERSION"));
        let facts = MachineFacts { kubelet_version, addresses };
        let provider = Arc::new(KubeletProvider::new(kubelet.clone(), facts));
        Self { provider: provider.clone(), source: provider, kubelet: Some(kubelet), serving: None }
    }

    /// With the node's own API, served like this.
    pub(crate) fn served(self, serving: Option<ServingSettings>) -> Self {
        Self { serving, ..self }
    }
}

/// A node that runs. Dropping it ends its tasks and leaves Pods, object and lease as they are.
pub(crate) struct RunningNode {
    /// Runs the Pods; the node's HTTP API asks it as well.
    pub(crate) provider: Arc<dyn Provider>,
    node: NodeHandle,
    pods: Handle,
    tasks: [JoinHandle<()>; 3],
    /// Ends with the node.
    _serving: Option<NodeServing>,
}

impl fmt::Debug for RunningNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningNode").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl RunningNode {
    /// Begins to be this node in the API behind the client, which should not try again by itself (`default_retry: false`).
    /// Returns when the provider was asked what it has, not when the node is registered: [`Self::ready`].
    ///
    /// # Errors
    /// [`NodeRunError`] when the provider can't even be asked.
    pub(crate) async fn start(
        client: kube::Client,
        config: NodeConfig,
        options: Options,
        backing: Backing,
    ) -> Result<Self, NodeRunError> {
        let Backing { provider, source, kubelet, serving } = backing;
        let mut config = config;
        // Listened to before any Pod comes, so that no word of it is missed.
        let told = kubelet.clone().map(|kubelet| (kubelet.clone(), kubelet.progress()));
        let metrics = Arc::new(ControllerMetrics::default());
        let serving = match serving {
            Some(settings) => {
                let (provider, client) = (provider.clone(), client.clone());
                Some(serve(&settings, &config.name, provider, client, kubelet.clone(), metrics.clone()).await?)
            }
            None => None,
        };
        config.port = serving.as_ref().map(|serving| serving.port);
        // What downward variables say of the machine. One that is silent now says so in the object, and has none yet.
        let described = match tokio::time::timeout(config.describe_timeout, source.describe()).await {
            Ok(described) => described.map_err(NodeRunError::Describe)?,
            Err(_) => Default::default(),
        };
        let facts =
            NodeFacts { name: config.name.clone(), host_ips: described.addresses, allocatable: described.allocatable };
        let api = Arc::new(KubeApi::new(client, config.name.clone(), Arc::new(SystemClock)));
        let controller = Controller::builder()
            .api(api.clone())
            .provider(provider.clone())
            .node(facts)
            .options(options)
            .metrics(metrics)
            .build()?;
        let node_controller = NodeController::new(config, api.clone(), source);
        let (node, pods) = (node_controller.handle(), controller.handle());
        let keep_node = tokio::spawn(async move { drop(node_controller.run().await) });
        let tell = tokio::spawn(async move {
            if let Some((kubelet, progress)) = told {
                events::relay(kubelet, progress, api).await;
            }
        });
        let registered = node.clone();
        let keep_pods = tokio::spawn(async move {
            // Pods are another agent's as long as the name may be.
            if registered.ready().await {
                drop(controller.run().await);
            }
        });
        Ok(Self { provider, node, pods, tasks: [keep_node, keep_pods, tell], _serving: serving })
    }

    /// Waits until the node is registered and its Pods are known; `false`: it ended before. Cancel-safe.
    pub(crate) async fn ready(&self) -> bool {
        self.node.ready().await && self.pods.ready().await
    }

    /// What the API refuses at the moment, for people.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.node.trouble()
    }

    /// Waits until it has ended by itself, and says why. Cancel-safe.
    pub(crate) async fn ended(&self) -> NodeRunError {
        tokio::select! {
            Some(error) = self.node.done() => NodeRunError::Node(error),
            Some(error) = self.pods.done() => match &*error {
                // Dropped with the node controller, whose error counts.
                ControllerError::Dropped => match self.node.done().await {
                    Some(error) => NodeRunError::Node(error),
                    None => NodeRunError::Pods(error),
                },
                ControllerError::Ended(_) => NodeRunError::Pods(error),
            },
            else => std::future::pending().await,
        }
    }

    /// Ends Pods as the policy wants it, and then itself. With an empty policy Pods go on; the object and the lease stay in any
    /// case.
    pub(crate) async fn shutdown(self, policy: &ShutdownPolicy) {
        if !policy.is_empty() {
            drain::drain(&*self.provider, &self.node, &self.pods, policy).await;
        }
        // In this order: without its node the pod controller is not begun any more, if it was not yet.
        self.node.shutdown().await;
        self.pods.shutdown().await;
    }
}

/// Who the agent of this state directory is among those that might claim a node's name: the same after a restart, another one on
/// another machine and for another directory.
pub(crate) fn identity(state: &Path) -> String {
    let machine = std::fs::read("/etc/machine-id").unwrap_or_else(|_| {
        // Better than nothing: machines without an identity differ by name.
        rustix::system::uname().nodename().to_bytes().to_vec()
    });
    let mut hash = Sha256::new();
    hash.update(&machine);
    hash.update([0]);
    hash.update(state.as_os_str().as_encoded_bytes());
    hex::encode(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_the_same_after_a_restart_and_no_other_one() {
        assert_eq!(identity(Path::new("/a")), identity(Path::new("/a")));
        assert_ne!(identity(Path::new("/a")), identity(Path::new("/b")));
        assert_eq!(identity(Path::new("/a")).len(), 16);
    }
}
