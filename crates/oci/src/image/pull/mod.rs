//! Pulls.
//!
//! `flight` lets everybody who wants the same image with the same credentials wait for one pull; `run` is that pull;
//! `download` brings the bytes of one layer, over as many connections as it takes.

mod download;
mod flight;
mod retry;
mod run;

use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::{ImageId, PullError, PullRequest};

use super::ImageStore;
use super::registry::{DockerConfigs, Http};
use flight::Flights;
pub(crate) use retry::Retry;

/// Settings of pulls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullConfig {
    /// Layers of one image that are fetched at the same time.
    pub parallel_layers: usize,
    /// Longest silence of a registry before the connection counts as broken.
    pub patience: Duration,
    /// How often something is tried without any progress.
    pub attempts: u32,
    /// Pause before the second attempt; doubled for each further one.
    pub pause: Duration,
    /// Registries spoken to over plain http, as `host` or `host:port`, besides those on loopback.
    pub insecure_registries: Vec<String>,
    /// Files with the machine's own logins, instead of docker's and the kubelet's.
    pub docker_configs: Option<Vec<std::path::PathBuf>>,
}

impl Default for PullConfig {
    fn default() -> Self {
        Self {
            parallel_layers: 4,
            patience: Duration::from_secs(30),
            attempts: 5,
            pause: Duration::from_millis(250),
            insecure_registries: Vec::new(),
            docker_configs: None,
        }
    }
}

/// What pulls of one process share.
#[derive(Debug)]
pub(crate) struct Puller {
    config: PullConfig,
    logins: DockerConfigs,
    http: Http,
    flights: Flights,
}

impl Puller {
    pub(crate) fn new(config: PullConfig) -> Self {
        let logins = match &config.docker_configs {
            Some(files) => DockerConfigs { files: files.clone(), helpers: None },
            None => DockerConfigs::default(),
        };
        Self { config, logins, http: Http::default(), flights: Flights::default() }
    }
}

impl ImageStore {
    /// Fetches an image from its registry and stores it. Always asks the registry; layers that are there already are
    /// not fetched again. Pulls of one image with the same credentials, at the same time, are one.
    ///
    /// Whoever names the digest of a layer gets it, whichever image or login brought it into the store: digests are
    /// not guessable, and a registry gives a manifest only to those who may have its layers.
    ///
    /// Cancel-safe: when the last caller is gone the pull ends; finished layers stay for the next one.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn pull(&self, request: &PullRequest) -> Result<ImageId, PullError> {
        let store = Arc::clone(&self.inner);
        self.inner.puller.flights.join(request, |request| async move { run::pull(store, request).await }).await
    }
}
