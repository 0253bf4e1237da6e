//! The API, its scheduler and the node, beside the instance's agent and over its kubelet core.
//!
//! ```text
//! start: API listens and answers ─► node registers itself by a certificate of its own ─► Pods are known ─► ready
//! stop:  the node's controllers end what is in hand (their last writes need the API) ─► the API ends
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use minke_apiserver::access::{Authority, NODES};
use minke_kubelet::Kubelet;
use minke_kubelet::host::host_addresses;
use minke_node::controller::Options;
use minke_node::http::ServingCertificate;
use minke_node::node::NodeConfig;
use minke_node::node::shutdown::ShutdownPolicy;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::agent::Companion;
use crate::api::{Api, ApiSettings};
use crate::exit::Failure;
use crate::node::{Backing, CertificateSource, RunningNode, ServingSettings};
use crate::protocol::Served;

/// The node is registered within a few writes to an API in the same process.
const LONGEST_START: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Debug)]
pub(super) struct Up {
    api: ApiSettings,
    node: NodeConfig,
    /// What the node's `/configz` says.
    config: Value,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    served: Served,
    /// Ends before the API does.
    node: RunningNode,
    /// Ends when this is dropped, however far the start has come.
    api: AbortOnDropHandle<()>,
}

impl Up {
    /// An API as set, and a node over the agent of this instance.
    pub(super) fn new(api: ApiSettings, node: NodeConfig, config: Value) -> Self {
        Self { api, node, config, running: None }
    }
}

/// A client of the API that is the node, by a certificate that lives as long as this process.
async fn client(authority: &Authority, url: &str, node: &str) -> Result<kube::Client, Failure> {
    let user = format!("system:node:{node}");
    let signed =
        authority.client(&user, &[NODES]).map_err(|e| Failure::because("can't sign the node's certificate", &e))?;
    let name = || "minke".to_owned();
    let cluster = Cluster {
        server: Some(url.to_owned()),
        certificate_authority_data: Some(STANDARD.encode(authority.certificate())),
        ..Cluster::default()
    };
    let auth = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(&signed.certificate)),
        client_key_data: Some(STANDARD.encode(&signed.key).into()),
        ..AuthInfo::default()
    };
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), other: BTreeMap::new() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(auth), other: BTreeMap::new() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), other: BTreeMap::new() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| Failure::because("can't reach the API", &error))?;
    // The controllers decide when something is tried again.
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| Failure::because("can't reach the API", &error))
}

/// The node's own API, which the cluster's asks for logs, commands and ports: at the address that the node has, on any free
/// port, by a certificate of the same authority. Only clients of that authority and its tokens are listened to.
fn serving(authority: &Authority, node: &str, config: Value) -> Result<ServingSettings, Failure> {
    let mut addresses = host_addresses();
    addresses.push(Ipv4Addr::LOCALHOST.into());
    let signed = authority.kubelet(node, &[node], &addresses);
    let signed = signed.map_err(|error| Failure::because("can't sign the certificate of the node's API", &error))?;
    Ok(ServingSettings {
        listen: (addresses[0], 0).into(),
        certificate: CertificateSource::Given(ServingCertificate { chain: signed.certificate, key: signed.key }),
        clients: Some(authority.certificate().to_owned()),
        config,
    })
}

#[async_trait]
impl Companion for Up {
    async fn start(&mut self, kubelet: &Kubelet) -> Result<(), Failure> {
        let api = Api::open(&self.api).await?;
        let served = Served { url: api.url.clone(), kubeconfig: api.kubeconfig.clone(), node: self.node.name.clone() };
        let client = client(&api.authority, &api.url, &self.node.name).await?;
        let serving = serving(&api.authority, &self.node.name, self.config.clone())?;
        let api = AbortOnDropHandle::new(tokio::spawn(async move { match api.run().await {} }));
        let backing = Backing::kubelet(kubelet.clone(), Vec::new()).served(Some(serving));
        let node = RunningNode::start(client, self.node.clone(), Options::default(), backing).await;
        let node = node.map_err(|error| Failure::because("the node can't begin", &error))?;
        // Kept before it is waited for: a failure stops it as any end does.
        let running = self.running.insert(Running { served, node, api });
        let why = tokio::select! {
            true = running.node.ready() => return Ok(()),
            error = running.node.ended() => return Err(Failure::because("the node ended", &error)),
            () = tokio::time::sleep(LONGEST_START) => running.node.trouble(),
        };
        let why = why.unwrap_or_else(|| "it does not say why".to_owned());
        Err(Failure::system(format!("the node is not registered after {} s: {why}", LONGEST_START.as_secs())))
    }

    async fn run(&mut self) -> Failure {
        match &mut self.running {
            Some(running) => tokio::select! {
                error = running.node.ended() => Failure::because("the node ended", &error),
                _ = &mut running.api => Failure::system("the API ended"),
            },
            None => std::future::pending().await,
        }
    }

    async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        // No policy: Pods go on, as an agent's do.
        running.node.shutdown(&ShutdownPolicy::default()).await;
        drop(running.api);
    }

    fn served(&self) -> Option<Served> {
        self.running.as_ref().map(|running| running.served.clone())
    }
}

/// Where the API of an instance keeps its objects, unless told otherwise.
pub(in crate::cmd) fn default_data_dir(state: &Path) -> PathBuf {
    state.join("api")
}
