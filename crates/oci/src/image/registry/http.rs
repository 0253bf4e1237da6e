//! The HTTP client: connections, TLS, redirects.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};

use super::RegistryError;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 10;

/// Connections of a store, made when first needed.
#[derive(Debug, Default)]
pub(crate) struct Http {
    client: OnceLock<Result<reqwest::Client, String>>,
    plain: OnceLock<Result<reqwest::Client, String>>,
}

impl Http {
    /// The client for a registry. For one without TLS it works even where the system has no certificates.
    pub(super) fn client(&self, tls: bool) -> Result<&reqwest::Client, RegistryError> {
        let (cell, plain) = if tls { (&self.client, false) } else { (&self.plain, true) };
        cell.get_or_init(|| build(plain)).as_ref().map_err(|message| RegistryError::Fatal(message.clone()))
    }
}

fn build(plain: bool) -> Result<reqwest::Client, String> {
    // Refused when the program has chosen a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("minke/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(Policy::custom(redirect));
    if plain {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        let chain = minke_core::runtime::error_chain(&error);
        format!("TLS can't be set up, is the package ca-certificates installed? {chain}")
    })
}

/// Registries send clients elsewhere for blobs. The client itself takes logins off a redirect to another host.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let from_tls = attempt.previous().first().is_some_and(|url| url.scheme() == "https");
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error("too many redirects")
    } else if from_tls && attempt.url().scheme() != "https" {
        attempt.error("a redirect from https to http")
    } else {
        attempt.follow()
    }
}
