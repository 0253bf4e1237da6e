//! The way to the cluster that the node belongs to.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use minke_core::runtime::error_chain;
use tokio::time::timeout;

use crate::exit::Failure;

/// How long the API may take to say that it knows us, before that is not waited for.
const GREETING: Duration = Duration::from_secs(10);

/// A client of the cluster: by the given kubeconfig, the environment's, the user's, or the service account's of the Pod that this
/// is. It does not try again by itself: who asks decides that, and says so.
pub(super) async fn connect(file: Option<&Path>, context: Option<&str>) -> Result<Client, Failure> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::usage(format!("can't find the cluster: {}", error_chain(error)))
            .hint("name a kubeconfig with --kubeconfig or $KUBECONFIG, and a context with --context")
    };
    let mut config = match (file, context) {
        (Some(file), _) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|e| failed(&e))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| failed(&e))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|e| failed(&e))?,
        (None, None) => Config::infer().await.map_err(|e| failed(&e))?,
    };
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|e| failed(&e))?;
    greet(&client, &url).await?;
    Ok(client)
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
