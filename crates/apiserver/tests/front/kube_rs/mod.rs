//! A controller's life on this server, with kube-rs as its authors have written it: watchers in both modes, stores, a controller,
//! finalizers, events, leases, definitions as its derive writes them, server-side apply.

mod applying;
mod controlling;
mod watching;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::TestServer;

/// For what must come, and never does where something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

async fn cluster() -> (TestServer, Client) {
    let server = TestServer::start(Limits::default()).await;
    let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (server, Client::try_from(config).unwrap())
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str, value: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {"suite": "kube-rs"}}, "data": {"value": value}}))
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn create(client: &Client, name: &str, value: &str) -> ConfigMap {
    maps(client).create(&PostParams::default(), &map(name, value)).await.unwrap()
}

/// What comes in time.
async fn soon<T: Debug>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} does not come"))
}
