//! The embedded API, in this process.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_apiserver::access::{Authority, Tokens};
use minke_apiserver::engine::Engine;
use minke_apiserver::http::{Limits, Server};
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use tokio::task::JoinSet;

/// See the module. Ends when dropped.
pub(crate) struct Api {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    _directory: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl Api {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("api.redb"), HistoryLimits::default()).unwrap();
        let engine = Engine::new(store, Arc::new(SystemClock));
        engine.prepare().await.unwrap();
        let authority = Authority::open(&directory.path().join("pki"), SystemClock.now()).unwrap();
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let tls = authority.server(&["localhost"], &[loopback]).unwrap();
        let server = Server::bind((loopback, 0).into(), engine.clone(), Tokens::default(), Limits::default());
        let server = server.await.unwrap();
        let kubeconfig = directory.path().join("admin.conf");
        authority.kubeconfig(&kubeconfig, &format!("https://{}", server.address())).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run(tls));
        tasks.spawn(async move { engine.care().await });
        let parsed = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Self { kubeconfig, client, _directory: directory, _tasks: tasks }
    }
}
