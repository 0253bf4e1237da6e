//! The cluster's API and its scheduler: the embedded ones in this process, or the real kube-apiserver and kube-scheduler.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_apiserver::access::{Authority, Tokens};
use minke_apiserver::engine::Engine;
use minke_apiserver::http::{Limits, Server};
use minke_apiserver::scheduler;
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::{Clock, SystemClock};
use minke_testkit::kube::{KubeApi, Programs};
use tokio::task::JoinSet;

/// Whose API.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Minke's own, with its scheduler.
    Embedded,
    /// Upstream's, over etcd.
    Kube(Programs),
}

impl Kind {
    /// For people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Embedded => "embedded API",
            Self::Kube(_) => "kube-apiserver",
        }
    }

    /// Whether Pods without a node get one, or are told why not.
    pub(crate) fn schedules(&self) -> bool {
        match self {
            Self::Embedded => true,
            Self::Kube(programs) => programs.scheduler.is_some(),
        }
    }
}

/// Keeps it alive.
enum Running {
    Embedded { _tasks: JoinSet<()> },
    Kube { _server: Box<KubeApi> },
}

/// See the module. Ends when dropped.
pub(crate) struct Api {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    _running: Running,
    _directory: tempfile::TempDir,
}

impl Api {
    /// Starts it; its administrator's namespace is there.
    pub(crate) async fn start(kind: &Kind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("admin.conf");
        let running = match kind {
            Kind::Embedded => embedded(directory.path(), &kubeconfig).await,
            Kind::Kube(programs) => {
                let mut server = KubeApi::start(programs).await.unwrap();
                if let Some(scheduler) = &programs.scheduler {
                    server.schedule(scheduler).unwrap();
                }
                server.kubeconfig(&kubeconfig).unwrap();
                Running::Kube { _server: Box::new(server) }
            }
        };
        let parsed = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
        // Upstream's server makes it a moment after it says that it is ready.
        while namespaces.get_opt("default").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { kubeconfig, client, _running: running, _directory: directory }
    }
}

async fn embedded(directory: &Path, kubeconfig: &Path) -> Running {
    let store = Store::open(&directory.join("api.redb"), HistoryLimits::default()).unwrap();
    let engine = Engine::new(store, Arc::new(SystemClock));
    engine.prepare().await.unwrap();
    let authority = Authority::open(&directory.join("pki"), SystemClock.now()).unwrap();
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let tls = authority.server(&["localhost"], &[loopback]).unwrap();
    let server = Server::bind((loopback, 0).into(), engine.clone(), Tokens::default(), Limits::default());
    let server = server.await.unwrap();
    authority.kubeconfig(kubeconfig, &format!("https://{}", server.address())).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(tls));
    let scheduled = engine.clone();
    tasks.spawn(async move { scheduler::run(&scheduled).await });
    tasks.spawn(async move { engine.care().await });
    Running::Embedded { _tasks: tasks }
}
