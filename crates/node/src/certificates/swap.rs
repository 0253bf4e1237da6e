//! A client whose credentials are replaced while others hold it.
//!
//! Requests go to the client of the moment. Those that are under way end on the connection that they began on, with the
//! certificate that was good then: a watch, within minutes.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::{Request, Response};
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config, Error};
use serde_json::json;
use tokio::sync::watch;
use tower::Service;

use super::request::Identity;

/// Replaces what a client does its requests with.
#[derive(Clone)]
pub struct Swap(watch::Sender<Client>);

impl std::fmt::Debug for Swap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Swap")
    }
}

impl Swap {
    /// A client that asks `first`, until it is replaced. Must be called in an async runtime.
    #[must_use]
    pub fn new(first: Client) -> (Self, Client) {
        let namespace = first.default_namespace().to_owned();
        let sender = watch::Sender::new(first);
        let client = Client::new(Current(sender.subscribe()), namespace);
        (Self(sender), client)
    }

    /// From now on requests go to this one.
    pub fn replace(&self, client: Client) {
        self.0.send_replace(client);
    }
}

struct Current(watch::Receiver<Client>);

impl Service<Request<Body>> for Current {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Each client has a queue of its own, which `send` waits for.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.borrow().clone();
        Box::pin(async move { client.send(request).await })
    }
}

/// A client of the cluster that a configuration names, as whom a certificate names.
///
/// # Errors
/// The certificate can't be used.
pub fn with_identity(config: &Config, identity: &Identity) -> Result<Client, Error> {
    let mut config = config.clone();
    let encoded = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
    let user = json!({
        "client-certificate-data": encoded(&identity.chain), "client-key-data": encoded(&identity.key),
    });
    config.auth_info = serde_json::from_value::<AuthInfo>(user).map_err(Error::SerdeError)?;
    Client::try_from(config)
}
