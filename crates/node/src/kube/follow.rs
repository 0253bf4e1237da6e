//! A few objects of one kind, followed: listed, then watched, and again after an error, for ever.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent as KubeEvent;
use kube::{Error, Resource};
use minke_core::runtime::error_chain;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::{SILENCE, WATCH_SECONDS};
use crate::queue::Backoff;

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };
/// So often a refusal is not told: the Node authorizer learns a moment after the node which Pods it has, and what they refer to.
pub(super) const PATIENCE: u32 = 4;

/// What is new.
#[derive(Debug)]
pub(super) enum News<K> {
    /// These are all that there are.
    Listed(Vec<K>),
    /// One is like this now.
    Applied(K),
    /// One is gone.
    Deleted(K),
    /// They can't be read; for people.
    Unreadable(String),
}

/// Objects that are followed.
pub(super) struct Following<K> {
    api: Api<K>,
    /// The one object of this name; empty: all that the API is about.
    name: String,
    events: Option<BoxStream<'static, Result<KubeEvent<K>, Error>>>,
    failures: u32,
}

impl<K> Following<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    pub(super) fn new(api: Api<K>, name: String) -> Self {
        Self { api, name, events: None, failures: 0 }
    }

    /// Waits for the next news, over errors.
    pub(super) async fn next(&mut self) -> News<K> {
        loop {
            let Some(events) = &mut self.events else {
                if let Some(news) = self.begin().await {
                    return news;
                }
                continue;
            };
            match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(KubeEvent::Added(object) | KubeEvent::Modified(object)))) => return News::Applied(object),
                Ok(Some(Ok(KubeEvent::Deleted(object)))) => return News::Deleted(object),
                Ok(Some(Ok(KubeEvent::Bookmark(_)))) => {}
                // Whatever it was: the next list says what is so.
                Ok(Some(Ok(KubeEvent::Error(_)) | Err(_)) | None) | Err(_) => self.events = None,
            }
        }
    }

    /// Lists and begins to watch; `None`: it has to be tried again.
    async fn begin(&mut self) -> Option<News<K>> {
        if self.failures > 0 {
            sleep(BACKOFF.after(self.failures)).await;
        }
        // Until a watch works, each attempt is one more.
        self.failures = self.failures.saturating_add(1);
        let fields = match self.name.as_str() {
            "" => String::new(),
            name => format!("metadata.name={name}"),
        };
        let mut list = match self.api.list(&ListParams::default().fields(&fields)).await {
            Ok(list) => list,
            Err(Error::Api(status)) if matches!(status.code, 401 | 403 | 404) && self.failures > PATIENCE => {
                return Some(News::Unreadable(status.message.clone()));
            }
            Err(error) => {
                let (kind, name) = (K::kind(&()), &self.name);
                tracing::debug!(%kind, name, error = error_chain(&error), "objects that pods refer to can't be listed");
                return None;
            }
        };
        let version = list.metadata.resource_version.take().unwrap_or_default();
        let params = WatchParams::default().fields(&fields).timeout(WATCH_SECONDS);
        if let Ok(events) = self.api.watch(&params, &version).await {
            self.events = Some(events.boxed());
            // One that ends at once is not begun again at once.
            self.failures = 1;
        }
        Some(News::Listed(list.items))
    }
}
