//! The way to the cluster, and the signals that end a watch.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_core::runtime::error_chain;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;

/// A cluster, and the namespace that is meant where none is named.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// Finds the cluster: the given kubeconfig, the environment's, the user's, or the service account's.
pub(crate) async fn connect(file: Option<&Path>, context: Option<&str>) -> Result<Connection, Failure> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::usage(format!("can't find the cluster: {}", error_chain(error)))
            .hint("name a kubeconfig with --kubeconfig or $KUBECONFIG, and a context with --context")
    };
    let config = match (file, context) {
        (Some(file), _) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(&e))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| failed(&e))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|e| failed(&e))?,
        (None, None) => Config::infer().await.map_err(|e| failed(&e))?,
    };
    // The machine decides when something is tried again, and says so; a client that does it silently hides staleness.
    let mut config = config;
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|e| failed(&e))?;
    Ok(Connection { client, namespace })
}

/// Waits for SIGINT or SIGTERM; its number.
pub(crate) async fn interrupted() -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
    }
}
