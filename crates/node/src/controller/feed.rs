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

/// What comes in.
#[derive(Debug)]
pub(super) enum Feed {
    Listed(Vec<Arc<Pod>>),
    Watched(WatchEvent),
    Object(ObjectRef, Known),
}

/// Lists, then watches from there; after an error of either it lists again. Ends when nobody listens.
pub(super) async fn pods(api: Arc<dyn PodApi>, backoff: Backoff, patience: Duration, out: mpsc::Sender<Feed>) {
    let mut failures = 0;
    loop {
        let error = match timeout(patience, api.list()).await {
            Err(_) => "no answer".to_owned(),
            Ok(Err(error)) => error_chain(&error),
            Ok(Ok(list)) => {
                if out.send(Feed::Listed(list.pods)).await.is_err() {
                    return;
                }
                match watch(&*api, list.version, &out, &mut failures).await {
                    Some(error) => error_chain(&error),
                    None => return,
                }
            }
        };
        failures += 1;
        tracing::debug!(error, failures, "the pods are listed again");
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
