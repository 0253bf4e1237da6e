//! The embedded API in this process.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api as KubeApi, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_apiserver::access::{Authority, Tokens};
use minke_apiserver::engine::Engine;
use minke_apiserver::http::{Limits, Server};
use minke_apiserver::store::{HistoryLimits, Store};
use minke_core::clock::Clock;
use serde_json::json;
use tokio::task::JoinSet;

use super::{LOOPBACK, NAMESPACE};
use crate::failure::Failure;

/// The API; its certificates go with it.
pub(super) struct Api {
    pub(super) client: Client,
    _directory: tempfile::TempDir,
}

impl Api {
    pub(super) async fn start(tasks: &mut JoinSet<()>, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::file("making", Path::new("a directory")))?;
        let authority =
            Authority::open(&directory.path().join("pki"), clock.now()).map_err(Failure::runtime("certificates"))?;
        let engine = Engine::new(Store::in_memory(HistoryLimits::default()), clock);
        engine.prepare().await.map_err(Failure::runtime("the API's first objects"))?;
        let server = Server::bind(LOOPBACK, engine.clone(), Tokens::default(), Limits::default());
        let server = server.await.map_err(Failure::runtime("the API"))?;
        let tls =
            authority.server(&["localhost"], &[LOOPBACK.ip()]).map_err(Failure::runtime("the API's certificate"))?;
        let file = directory.path().join("admin.conf");
        let url = format!("https://{}", server.address());
        authority.kubeconfig(&file, &url).map_err(Failure::runtime("the API's kubeconfig"))?;
        tasks.spawn(server.run(tls));
        let kubeconfig = Kubeconfig::read_from(&file).map_err(Failure::runtime("the API's kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(Failure::runtime("the API's kubeconfig"))?;
        config.default_retry = false;
        let client = Client::try_from(config).map_err(Failure::runtime("a client of the API"))?;
        Ok(Self { client, _directory: directory })
    }

    pub(super) async fn secret(&self, name: &str, key: &str, value: &str) -> Result<(), Failure> {
        let secret = json!({"metadata": {"name": name}, "stringData": {key: value}});
        let secret: Secret = serde_json::from_value(secret).map_err(Failure::runtime("a Secret"))?;
        let api: KubeApi<Secret> = KubeApi::namespaced(self.client.clone(), NAMESPACE);
        api.create(&PostParams::default(), &secret).await.map(drop).map_err(Failure::runtime("making a Secret"))
    }
}
