//! One ConfigMap or Secret, followed by name: listed, then watched, and again after an error.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent as KubeEvent;
use kube::{Error, Resource};
use minke_core::runtime::error_chain;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::{SILENCE, WATCH_SECONDS};
use crate::api::ObjectStream;
use crate::queue::Backoff;
use crate::references::Known;

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };
/// So often a refusal is not told: the Node authorizer learns a moment after the node which Pods it has, and what they refer to.
pub(super) const PATIENCE: u32 = 4;

pub(super) fn config_map(map: ConfigMap) -> Known {
    Known::ConfigMap(Arc::new(map))
}

pub(super) fn secret(secret: Secret) -> Known {
    Known::Secret(Arc::new(secret))
}

struct Following<K> {
    api: Api<K>,
    name: String,
    known: fn(K) -> Known,
    events: Option<BoxStream<'static, Result<KubeEvent<K>, Error>>>,
    failures: u32,
}

/// What is known of the object, for ever.
pub(super) fn follow<K>(api: Api<K>, name: String, known: fn(K) -> Known) -> ObjectStream
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let following = Following { api, name, known, events: None, failures: 0 };
    Box::pin(stream::unfold(following, |mut following| async {
        let known = following.next().await;
        Some((known, following))
    }))
}

impl<K> Following<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    async fn next(&mut self) -> Known {
        loop {
            let Some(events) = &mut self.events else {
                if let Some(known) = self.begin().await {
                    return known;
                }
                continue;
            };
            match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(KubeEvent::Added(object) | KubeEvent::Modified(object)))) => return (self.known)(object),
                Ok(Some(Ok(KubeEvent::Deleted(_)))) => return Known::Absent,
                Ok(Some(Ok(KubeEvent::Bookmark(_)))) => {}
                // Whatever it was: the next list says what is so.
                Ok(Some(Ok(KubeEvent::Error(_)) | Err(_)) | None) | Err(_) => self.events = None,
            }
        }
    }

    /// Lists and begins to watch; `None`: it has to be tried again.
    async fn begin(&mut self) -> Option<Known> {
        if self.failures > 0 {
            sleep(BACKOFF.after(self.failures)).await;
        }
        // Until a watch works, each attempt is one more.
        self.failures = self.failures.saturating_add(1);
        let fields = format!("metadata.name={}", self.name);
        let mut list = match self.api.list(&ListParams::default().fields(&fields)).await {
            Ok(list) => list,
            Err(Error::Api(status)) if matches!(status.code, 401 | 403) && self.failures > PATIENCE => {
                return Some(Known::Unreadable(status.message.clone()));
            }
            Err(error) => {
                tracing::debug!(name = self.name, error = error_chain(&error), "an object can't be listed");
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
        Some(list.items.pop().map_or(Known::Absent, self.known))
    }
}
