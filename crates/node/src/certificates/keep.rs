//! The task that keeps a certificate good.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use tokio::time::sleep;

use super::ask::{AskError, ask};
use super::life::Life;
use super::request::{Identity, Purpose, user};
use super::store::{Store, StoreError};
use crate::queue::Backoff;

/// Between two requests that came to nothing: a cluster that is away is asked less and less often.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(5 * 60) };
/// The wall clock may be set: it is looked at so often.
const LOOK: Duration = Duration::from_secs(30);

/// Keeps one certificate of a node.
#[derive(Clone)]
pub struct Keeper {
    /// The node.
    pub node: String,
    /// What the certificate is for.
    pub purpose: Purpose,
    /// Where it is kept.
    pub store: Store,
    /// Asks as the node, once it is known as it.
    pub client: Client,
    /// Asks with the bootstrap token, while the node has no certificate that is good.
    pub bootstrap: Option<Client>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("node", &self.node).field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

impl Keeper {
    /// What is kept and good, for this node.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn kept(&self) -> Result<Option<Identity>, StoreError> {
        let good = |identity: &Identity| match Life::of(&identity.chain) {
            Ok(life) => life.is_good(self.clock.now()) && life.user == user(&self.node),
            Err(_) => false,
        };
        Ok(self.store.load()?.filter(good))
    }

    /// Asks for one, once, and keeps it. What can't be written is used and told: the next start asks again.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn fetch(&self, current: Option<&Identity>) -> Result<Identity, AskError> {
        let now = self.clock.now();
        let good = current.and_then(|identity| Life::of(&identity.chain).ok()).is_some_and(|life| life.is_good(now));
        let client = match &self.bootstrap {
            Some(bootstrap) if !good => bootstrap,
            Some(_) | None => &self.client,
        };
        let identity = ask(client, &self.node, &self.purpose).await?;
        if let Ok(life) = Life::of(&identity.chain) {
            tracing::info!(ends = %life.ends, "the node has a new {}", self.purpose.name());
        }
        if let Err(error) = self.store.save(&identity) {
            tracing::error!(error = error_chain(&error), "a certificate can't be kept, and will be asked for again");
        }
        Ok(identity)
    }

    /// Asks until there is one, for ever.
    pub async fn obtain(&self, current: Option<&Identity>) -> Identity {
        let mut failures = 0;
        loop {
            match self.fetch(current).await {
                Ok(identity) => return identity,
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "the node has no new {} yet", self.purpose.name());
                    failures += 1;
                    sleep(BACKOFF.after(failures)).await;
                }
            }
        }
    }

    /// Keeps it good for ever: waits until it is time, asks for its successor, and hands it on. Dropping it ends it.
    pub async fn run(self, mut current: Option<Identity>, changed: impl Fn(&Identity)) {
        let mut earliest = self.clock.now();
        loop {
            let renewal = current.as_ref().and_then(|identity| Life::of(&identity.chain).ok());
            if let Some(life) = renewal {
                self.until(life.renewal(&self.node).max(earliest)).await;
            }
            let next = self.obtain(current.as_ref()).await;
            changed(&next);
            let now = self.clock.now();
            earliest = Life::of(&next.chain).map_or(now, |life| life.earliest(now));
            current = Some(next);
        }
    }

    async fn until(&self, at: Timestamp) {
        loop {
            let left = Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use hyper::{Request, Response};
    use jiff::SignedDuration;
    use kube::client::Body;
    use minke_core::fake::FakeClock;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
    use tower::service_fn;

    use super::*;

    /// A client whose API refuses everything, and how often it was asked.
    fn refused() -> (Client, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let answer = service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Response::builder().status(403).body(Body::empty()))
        });
        (Client::new(answer, "default"), asked)
    }

    /// Good in the year 2026.
    fn identity() -> Identity {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user("n"));
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
        Identity { chain: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    /// A node that was away for longer than its certificate was good, or whose clock is wrong, begins anew with the bootstrap token; a good
    /// certificate is used whatever the token is.
    #[tokio::test]
    async fn a_certificate_that_has_expired_is_not_used_and_the_bootstrap_token_is_again() {
        let directory = std::env::temp_dir().join(format!("minke-keep-{}", std::process::id()));
        let store = Store::new(Path::new(&directory), "client.pem");
        store.save(&identity()).unwrap();
        // The clock of tests stands in September 2026.
        for (days, good) in [(-365, false), (0, true), (102, false), (2000, false)] {
            let ((client, as_node), (bootstrap, by_token)) = (refused(), refused());
            let clock = FakeClock::new();
            clock.jump(SignedDuration::from_hours(24 * days));
            let keeper = Keeper {
                node: "n".to_owned(),
                purpose: Purpose::Client,
                store: store.clone(),
                client,
                bootstrap: Some(bootstrap),
                clock: Arc::new(clock),
            };
            assert_eq!(keeper.kept().unwrap().is_some(), good, "{days} days later");
            keeper.fetch(Some(&identity())).await.unwrap_err();
            let asked = (as_node.load(Ordering::Relaxed) > 0, by_token.load(Ordering::Relaxed) > 0);
            assert_eq!(asked, (good, !good), "{days} days later");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
