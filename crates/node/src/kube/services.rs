//! The services of one namespace, or one of them: listed, then watched, and again after an error.
//!
//! Kept small: of a service only its name, address and ports are told to containers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Error;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent as KubeEvent;
use minke_core::runtime::error_chain;
use tokio::time::{sleep, timeout};

use super::objects::PATIENCE;
use super::{SILENCE, WATCH_SECONDS};
use crate::api::ObjectStream;
use crate::queue::Backoff;
use crate::references::Known;

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };

struct Following {
    api: Api<Service>,
    /// Of the one service; empty: all.
    name: String,
    services: BTreeMap<String, Service>,
    events: Option<BoxStream<'static, Result<KubeEvent<Service>, Error>>>,
    failures: u32,
}

/// The services, for ever. Empty `name`: all of the namespace.
pub(super) fn follow(api: Api<Service>, name: String) -> ObjectStream {
    let following = Following { api, name, services: BTreeMap::new(), events: None, failures: 0 };
    Box::pin(stream::unfold(following, |mut following| async {
        let known = following.next().await;
        Some((known, following))
    }))
}

/// What is told of it.
fn told(service: Service) -> Option<(String, Service)> {
    let name = service.metadata.name?;
    let spec = service.spec.map(|spec| ServiceSpec {
        cluster_ip: spec.cluster_ip,
        ports: spec.ports,
        ..ServiceSpec::default()
    });
    let metadata =
        ObjectMeta { name: Some(name.clone()), namespace: service.metadata.namespace, ..ObjectMeta::default() };
    Some((name, Service { metadata, spec, status: None }))
}

impl Following {
    async fn next(&mut self) -> Known {
        loop {
            let Some(events) = &mut self.events else {
                if let Some(known) = self.begin().await {
                    return known;
                }
                continue;
            };
            match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(KubeEvent::Added(service) | KubeEvent::Modified(service)))) => {
                    self.services.extend(told(service));
                    return self.known();
                }
                Ok(Some(Ok(KubeEvent::Deleted(service)))) => {
                    self.services.remove(service.metadata.name.as_deref().unwrap_or_default());
                    return self.known();
                }
                Ok(Some(Ok(KubeEvent::Bookmark(_)))) => {}
                // Whatever it was: the next list says what is so.
                Ok(Some(Ok(KubeEvent::Error(_)) | Err(_)) | None) | Err(_) => self.events = None,
            }
        }
    }

    fn known(&self) -> Known {
        Known::Services(self.services.values().cloned().collect::<Vec<_>>().into())
    }

    /// Lists and begins to watch; `None`: it has to be tried again.
    async fn begin(&mut self) -> Option<Known> {
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
            // Pods are started without them rather than never.
            Err(Error::Api(status)) if matches!(status.code, 401 | 403 | 404) && self.failures > PATIENCE => {
                return Some(Known::Unreadable(status.message.clone()));
            }
            Err(error) => {
                tracing::debug!(error = error_chain(&error), "services can't be listed");
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
        self.services = list.items.into_iter().filter_map(told).collect();
        Some(self.known())
    }
}
