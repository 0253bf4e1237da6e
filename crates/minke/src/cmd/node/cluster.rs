//! The way to the cluster that the node belongs to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use minke_core::clock::SystemClock;
use minke_core::runtime::error_chain;
use minke_node::certificates::{Keeper, Purpose, Store, Swap, with_identity};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::exit::Failure;

/// How long the API may take to say that it knows us, before that is not waited for.
const GREETING: Duration = Duration::from_secs(10);

/// A client of the cluster: by the given kubeconfig, the environment's, the user's, or the service account's of the Pod that this
/// is. It does not try again by itself: who asks decides that, and says so.
pub(super) async fn connect(file: Option<&Path>, context: Option<&str>) -> Result<Connection, Failure> {
    let config = config(file, context).await?;
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|e| failed(&e))?;
    greet(&client, &url).await?;
    Ok(Connection { client, renewal: None })
}

/// A way to the cluster that the node belongs to. Dropping it ends the renewal of its certificate.
pub(super) struct Connection {
    /// Asks as the node.
    pub(super) client: Client,
    renewal: Option<JoinHandle<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.renewal.iter().for_each(JoinHandle::abort);
    }
}

/// A client of the cluster of a bootstrap kubeconfig, by a certificate of the node's own: the one that is kept in the directory, or
/// one that is asked for with the bootstrap token, which is waited for. It is renewed for as long as the connection is held.
pub(super) async fn bootstrap(
    file: &Path,
    context: Option<&str>,
    node: &str,
    kept: &Path,
) -> Result<Connection, Failure> {
    let config = config(Some(file), context).await?;
    let url = config.cluster_url.to_string();
    let token = Client::try_from(config.clone()).map_err(|e| failed(&e))?;
    let mut keeper = Keeper {
        node: node.to_owned(),
        purpose: Purpose::Client,
        store: Store::new(kept, "node-client.pem"),
        client: token.clone(),
        bootstrap: Some(token.clone()),
        clock: Arc::new(SystemClock),
    };
    let identity = match keeper.kept().map_err(|error| Failure::from_error(&error))? {
        Some(identity) => identity,
        None => {
            greet(&token, &url).await?;
            keeper.obtain(None).await
        }
    };
    let (swap, client) = Swap::new(with_identity(&config, &identity).map_err(|e| failed(&e))?);
    greet(&client, &url).await?;
    keeper.client = client.clone();
    let renewal = tokio::spawn(keeper.run(Some(identity), move |identity| match with_identity(&config, identity) {
        Ok(client) => swap.replace(client),
        Err(error) => tracing::error!(error = error_chain(&error), "what the cluster signed can't be used"),
    }));
    Ok(Connection { client, renewal: Some(renewal) })
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::usage(format!("can't find the cluster: {}", error_chain(error)))
        .hint("name a kubeconfig with --kubeconfig or $KUBECONFIG, and a context with --context")
}

async fn config(file: Option<&Path>, context: Option<&str>) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (file, context) {
        (Some(file), _) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(&e))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| failed(&e))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|e| failed(&e))?,
        (None, None) => Config::infer().await.map_err(|e| failed(&e))?,
    };
    config.default_retry = false;
    Ok(config)
}

/// Whether the API knows us. One that is not there now may come; one that refuses us will go on to.
async fn greet(client: &Client, url: &str) -> Result<(), Failure> {
    match timeout(GREETING, client.apiserver_version()).await {
        Ok(Ok(version)) => {
            tracing::info!(url, version = version.git_version, "the API answers");
            Ok(())
        }
        Ok(Err(Error::Api(status))) if status.code == 401 => {
            Err(Failure::usage(format!("the API at {url} does not know this agent: {}", status.message))
                .hint("the credentials of the kubeconfig are wrong or have expired"))
        }
        Ok(Err(error)) if is_about_certificates(&error) => {
            Err(Failure::usage(format!("the API at {url} is not the one of the kubeconfig: {}", error_chain(&error)))
                .hint("compare the kubeconfig's certificate-authority and server with the cluster's"))
        }
        Ok(Err(error)) => {
            tracing::warn!(url, error = error_chain(&error), "the API does not answer yet; going on");
            Ok(())
        }
        Err(_) => {
            tracing::warn!(url, "the API does not answer yet; going on");
            Ok(())
        }
    }
}

fn is_about_certificates(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::InvalidCertificate(_)) = tls.or_else(|| error.downcast_ref::<rustls::Error>()) {
            return true;
        }
        cause = error.source();
    }
    false
}
