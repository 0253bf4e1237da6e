//! The node's HTTP API in this process: over the node's provider, with what the machine and the kubelet core say of themselves.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use jiff::Timestamp;
use minke_core::clock::SystemClock;
use minke_core::provider::Provider;
use minke_core::runtime::error_chain;
use minke_kubelet::Kubelet;
use minke_node::certificates::{Identity, Keeper, Purpose, Store, StoreError};
use minke_node::controller::ControllerMetrics;
use minke_node::http::{
    Check, Held, KubeReviews, Limits, ListenError, NodeApi, NodeFacts, NodeMemory, NodeServer, NodeUsage,
    ServingCertificate, TlsError, server_config, server_config_without_certificate,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Why the node's API can't be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServingError {
    /// The address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificates.
    #[error("the certificates of the node's API can't be used")]
    Tls(#[from] TlsError),
    /// A certificate that is kept.
    #[error("the certificate of the node's API can't be kept")]
    Store(#[from] StoreError),
}

/// By what the node is known to those who ask it.
#[derive(Debug, Clone)]
pub(crate) enum CertificateSource {
    /// This certificate.
    Given(ServingCertificate),
    /// One that the cluster signs, for the node under these names and addresses.
    Cluster {
        /// Where it is kept.
        store: Store,
        /// Names.
        names: Vec<String>,
        /// Addresses.
        addresses: Vec<IpAddr>,
    },
}

/// How it is served.
#[derive(Debug, Clone)]
pub(crate) struct ServingSettings {
    /// Where.
    pub(crate) listen: SocketAddr,
    /// By whom.
    pub(crate) certificate: CertificateSource,
    /// Whose clients' certificates say who asks, as PEM.
    pub(crate) clients: Option<String>,
    /// What `/configz` says: a `KubeletConfiguration`. No secrets.
    pub(crate) config: Value,
}

/// A node's API that is served. Dropping it ends it, with all its streams.
#[derive(Debug)]
pub(crate) struct NodeServing {
    /// Where it listens, for the node's `daemonEndpoints`.
    pub(crate) port: u16,
    server: JoinHandle<()>,
    /// Keeps the certificate good, if the cluster signs it.
    keeper: Option<JoinHandle<()>>,
}

impl Drop for NodeServing {
    fn drop(&mut self) {
        self.server.abort();
        self.keeper.iter().for_each(JoinHandle::abort);
    }
}

/// Begins to serve. `reviews`: a client that is the node, and may review tokens and accesses. `kubelet`: whose metrics are told
/// beside the pod controller's, if one runs the Pods.
///
/// # Errors
/// The address is taken, or the certificates don't fit.
pub(crate) async fn serve(
    settings: &ServingSettings,
    node: &str,
    provider: Arc<dyn Provider>,
    reviews: kube::Client,
    kubelet: Option<Kubelet>,
    metrics: Arc<ControllerMetrics>,
) -> Result<NodeServing, ServingError> {
    let api = NodeApi {
        node: node.to_owned(),
        pods: Arc::new(Held(provider.clone())),
        provider,
        facts: Arc::new(Machine { kubelet, metrics, config: settings.config.clone() }),
        reviews: Arc::new(KubeReviews::new(reviews.clone())),
        clock: Arc::new(SystemClock),
    };
    let clients = settings.clients.as_deref();
    let (tls, keeper) = match &settings.certificate {
        CertificateSource::Given(certificate) => (server_config(certificate, clients)?, None),
        CertificateSource::Cluster { store, names, addresses } => {
            let keeper = Keeper {
                node: node.to_owned(),
                purpose: Purpose::Serving { names: names.clone(), addresses: addresses.clone() },
                store: store.clone(),
                client: reviews,
                bootstrap: None,
                clock: Arc::new(SystemClock),
            };
            let kept = keeper.kept()?;
            let tls = match &kept {
                Some(identity) => server_config(&serving_certificate(identity), clients)?,
                None => server_config_without_certificate(clients)?,
            };
            (tls, Some((keeper, kept)))
        }
    };
    let server = NodeServer::bind(settings.listen, api, Limits::default()).await?;
    let port = server.address().port();
    let (keep, tls) = watch::channel(Arc::new(tls));
    let renewed = keep.clone();
    let clients = settings.clients.clone();
    let keeper = keeper.map(|(keeper, kept)| {
        tokio::spawn(keeper.run(kept, move |identity| {
            match server_config(&serving_certificate(identity), clients.as_deref()) {
                Ok(tls) => drop(renewed.send_replace(Arc::new(tls))),
                Err(error) => {
                    tracing::error!(error = error_chain(&error), "what the cluster signed can't be served with")
                }
            }
        }))
    });
    let server = tokio::spawn(async move {
        server.run(tls).await;
        drop(keep);
    });
    Ok(NodeServing { port, server, keeper })
}

fn serving_certificate(identity: &Identity) -> ServingCertificate {
    ServingCertificate { chain: identity.chain.clone(), key: identity.key.clone() }
}

/// This machine.
struct Machine {
    kubelet: Option<Kubelet>,
    metrics: Arc<ControllerMetrics>,
    config: Value,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl NodeFacts for Machine {
    fn usage(&self) -> NodeUsage {
        let read = |path: &str| {
            std::fs::read_to_string(path)
                .inspect_err(|error| {
                    tracing::debug!(path, error = error_chain(error), "what the machine uses can't be read")
                })
                .unwrap_or_default()
        };
        let ticks = rustix::param::clock_ticks_per_second();
        usage(&read("/proc/stat"), &read("/proc/meminfo"), ticks)
    }

    fn metrics(&self) -> String {
        let core = self.kubelet.as_ref().map(|kubelet| kubelet.metrics().text()).unwrap_or_default();
        format!("{}{}{core}", self.metrics.text(), crate::spans::metrics())
    }

    fn health(&self) -> Vec<Check> {
        let Some(kubelet) = &self.kubelet else { return Vec::new() };
        let failure = kubelet.health().err().map(|error| error_chain(&error));
        vec![Check { name: "syncloop", failure }]
    }

    fn config(&self) -> Value {
        self.config.clone()
    }
}

/// What the kernel's two texts say. What they don't say is not known.
fn usage(stat: &str, meminfo: &str, ticks: u64) -> NodeUsage {
    let of = |text: &str, name: &str| -> Option<Vec<u64>> {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        Some(line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect())
    };
    // user nice system idle iowait irq softirq steal: all but idling is use; guests are in user already.
    let cpu_nanos = of(stat, "cpu").filter(|times| times.len() >= 8).map(|times| {
        let busy: u64 = times.iter().take(8).enumerate().filter(|(n, _)| !matches!(n, 3 | 4)).map(|(_, t)| t).sum();
        busy.saturating_mul(1_000_000_000 / ticks.max(1))
    });
    let started = of(stat, "btime").and_then(|times| Timestamp::from_second(i64::try_from(*times.first()?).ok()?).ok());
    let bytes = |name: &str| Some(of(meminfo, name)?.first()?.saturating_mul(1024));
    let memory = || {
        let (total, free) = (bytes("MemTotal:")?, bytes("MemFree:")?);
        let (available, usage) = (bytes("MemAvailable:")?, total.saturating_sub(free));
        let working_set = usage.saturating_sub(bytes("Inactive(file):").unwrap_or(0));
        let rss = bytes("AnonPages:").unwrap_or(0);
        Some(NodeMemory { available, usage, working_set, rss })
    };
    NodeUsage { started, cpu_nanos, memory: memory(), ..NodeUsage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_what_is_used() {
        let stat = "cpu  10 2 3 1000 50 1 1 1 7 0\ncpu0 5 1 1 500 25 0 0 0 0 0\nbtime 1700000000\n";
        let meminfo =
            "MemTotal:  1000 kB\nMemFree:  300 kB\nMemAvailable:  600 kB\nAnonPages:  90 kB\nInactive(file):  200 kB\n";
        let used = usage(stat, meminfo, 100);
        assert_eq!(used.cpu_nanos, Some(18 * 10_000_000));
        assert_eq!(used.started, Timestamp::from_second(1_700_000_000).ok());
        let kib = |n: u64| n * 1024;
        let expected = NodeMemory { available: kib(600), usage: kib(700), working_set: kib(500), rss: kib(90) };
        assert_eq!(used.memory, Some(expected));
        assert_eq!(usage("", "garbage\n", 100), NodeUsage::default());
    }
}
