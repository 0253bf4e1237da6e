//! The API's side: lists and watches Pods for ever, and follows objects.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use minke_core::runtime::error_chain;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::api::{ApiError, PodApi, WatchEvent};
use crate::queue::Backoff;
use crate::references::{Known, ObjectRef};
use crate::refusals::Refusals;

/// What comes in.
#[derive(Debug)]
pub(super) enum Feed {
    Listed(Vec<Arc<Pod>>),
    Watched(WatchEvent),
    Object(ObjectRef, Known),
}

/// Lists, then watches from there; after an error of either it lists again. Ends when nobody listens.
pub(super) async fn pods(
    api: Arc<dyn PodApi>,
    backoff: Backoff,
    patience: Duration,
    out: mpsc::Sender<Feed>,
    refusals: Arc<Refusals>,
) {
    const LIST: &str = "list the node's pods";
    let mut failures = 0;
    loop {
        match timeout(patience, api.list()).await {
            Err(_) => refusals.failed(LIST, None, "no answer"),
            Ok(Err(error)) => refusals.failed(LIST, None, &error_chain(&error)),
            Ok(Ok(list)) => {
                refusals.succeeded(LIST);
                if out.send(Feed::Listed(list.pods)).await.is_err() {
                    return;
                }
                let Some(error) = watch(&*api, list.version, &out, &mut failures).await else { return };
                // Watches end often, and a list makes up for it; one that is not allowed never begins.
                let error = error_chain(&error);
                tracing::debug!(error, failures, "the pods are listed again");
                refusals.refused(&error);
            }
        }
        failures += 1;
        sleep(backoff.after(failures)).await;
    }
}

/// Watches until an error; `None`: nobody listens.
async fn watch(
    api: &dyn PodApi,
    mut version: String,
    out: &mpsc::Sender<Feed>,
    failures: &mut u32,
) -> Option<ApiError> {
    loop {
        let mut stream = match api.watch(&version).await {
            Ok(stream) => stream,
            Err(error) => return Some(error),
        };
        let before = version.clone();
        while let Some(event) = stream.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Some(error),
            };
            *failures = 0;
            version = match &event {
                WatchEvent::Applied(pod) => pod.metadata.resource_version.clone().unwrap_or(version),
                WatchEvent::Bookmark(version) | WatchEvent::Deleted { version, .. } => version.clone(),
            };
            if out.send(Feed::Watched(event)).await.is_err() {
                return None;
            }
        }
        if version == before {
            // A server that ends each watch at once must not be asked without end.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Hands on what is learned of one object.
pub(super) async fn object(api: Arc<dyn PodApi>, object: ObjectRef, out: mpsc::Sender<Feed>) {
    let mut stream = api.follow(object.clone());
    while let Some(known) = stream.next().await {
        if out.send(Feed::Object(object.clone(), known)).await.is_err() {
            return;
        }
    }
}
