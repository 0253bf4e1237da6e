//! The embedded Kubernetes API as this program serves it: opened from a data directory, with its certificates and an
//! administrator's kubeconfig. `minke api` serves it alone, `minke up` with a node.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use minke_apiserver::access::{Authority, Issuer, Tokens};
use minke_apiserver::engine::{Accounts, Engine};
use minke_apiserver::http::{Limits, NodeClient, Server};
use minke_apiserver::scheduler;
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use rustls::ServerConfig;

use crate::exit::Failure;

/// How it is served.
#[derive(Debug, Clone)]
pub(crate) struct ApiSettings {
    /// Where objects and the server's certificates are kept.
    pub(crate) data_dir: PathBuf,
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// Where to write how an administrator reaches it; `None`: `admin.conf` in the data directory.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Bearer tokens that are known.
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Whether Pods without a node get one.
    pub(crate) schedules: bool,
    /// Whether Pods get a volume with their service account's token, which their node has to fetch.
    pub(crate) mounts_tokens: bool,
}

/// An API that listens; it answers while [`Api::run`] is polled.
#[derive(Debug)]
pub(crate) struct Api {
    /// Signs certificates of its clients.
    pub(crate) authority: Arc<Authority>,
    /// Its address, as an URL.
    pub(crate) url: String,
    /// How an administrator reaches it.
    pub(crate) kubeconfig: PathBuf,
    /// What [`Api::run`] needs.
    serving: Serving,
}

/// The part that goes on.
#[derive(Debug)]
struct Serving {
    engine: Engine,
    server: Server,
    tls: ServerConfig,
    schedules: bool,
}

impl Api {
    /// Opens the data directory and listens. Writes the kubeconfig.
    pub(crate) async fn open(settings: &ApiSettings) -> Result<Self, Failure> {
        let pki = settings.data_dir.join("pki");
        // The directory is made by its owner alone, so that nothing below it needs more care.
        let authority = Authority::open(&pki, SystemClock.now())
            .map(Arc::new)
            .map_err(|error| Failure::because("can't set up the server's certificates", &error))?;
        let store = Store::open(&settings.data_dir.join("api.redb"), HistoryLimits::default())
            .map_err(|error| Failure::because("can't open the server's objects", &error))?;
        let tokens = match &settings.token_auth_file {
            Some(path) => Tokens::read(path)
                .map_err(|error| Failure::because(format!("can't read {}", path.display()), &error))?,
            None => Tokens::default(),
        };
        let issuer = Issuer::open(&pki);
        let issuer =
            issuer.map_err(|error| Failure::because("can't set up the key of the service accounts' tokens", &error))?;
        let root_certificate = authority.certificate().to_owned();
        let accounts = Accounts { issuer, root_certificate, mount: settings.mounts_tokens };
        let engine = Engine::new(store, Arc::new(SystemClock)).with_accounts(accounts);
        let engine = engine.with_authority(authority.clone());
        engine.prepare().await.map_err(|error| Failure::because("can't make the first objects", &error))?;
        let server = Server::bind(settings.listen, engine.clone(), tokens, Limits::default())
            .await
            .map_err(|error| Failure::because("can't serve", &error).hint("choose another address with --listen"))?;
        let nodes = authority.node_client();
        let nodes = nodes.map_err(|error| Failure::because("can't set up the server's certificates", &error))?;
        let server = server.reaching(NodeClient::new(nodes));
        let announced = engine.announce(server.address().port()).await;
        announced.map_err(|error| Failure::because("can't make the server's Service", &error))?;
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let tls = authority
            .server(&names, &addresses(settings.listen))
            .map_err(|error| Failure::because("can't set up the server's certificates", &error))?;
        let kubeconfig = settings.kubeconfig.clone().unwrap_or_else(|| settings.data_dir.join("admin.conf"));
        let url = url(server.address());
        authority
            .kubeconfig(&kubeconfig, &url)
            .map_err(|error| Failure::because("can't write the kubeconfig", &error))?;
        Ok(Self { authority, url, kubeconfig, serving: Serving { engine, server, tls, schedules: settings.schedules } })
    }

    /// Serves, schedules and does what an API does by itself, until the future is dropped.
    pub(crate) async fn run(self) -> Infallible {
        let Serving { engine, server, tls, schedules } = self.serving;
        tokio::join!(server.run(tls), engine.care(), async {
            if schedules {
                scheduler::run(&engine).await;
            }
        });
        std::future::pending().await
    }
}

/// Names and addresses that the certificate is good for.
fn addresses(listen: SocketAddr) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    if !listen.ip().is_unspecified() && !addresses.contains(&listen.ip()) {
        addresses.push(listen.ip());
    }
    addresses
}

/// The address that this machine reaches the server by.
fn url(listening: SocketAddr) -> String {
    let ip = match listening.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("https://{}", SocketAddr::new(ip, listening.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_and_the_url_are_good_for_where_it_listens() {
        let listen = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(url(listen("127.0.0.1:6443")), "https://127.0.0.1:6443");
        assert_eq!(url(listen("0.0.0.0:1")), "https://127.0.0.1:1");
        assert_eq!(url(listen("[::]:1")), "https://[::1]:1");
        assert_eq!(addresses(listen("0.0.0.0:1")).len(), 2);
        assert!(addresses(listen("192.0.2.7:1")).contains(&listen("192.0.2.7:1").ip()));
    }
}
