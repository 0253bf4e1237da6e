//! The way to a cluster: a narrow port, and the one over a Kubernetes client. Performs, decides nothing.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use kube::core::{Status, WatchEvent};
use kube::{Client, Error};
use minke_core::runtime::error_chain;

use crate::machine::Scope;
pub use crate::machine::{Access, ApiFault};

/// How many objects a page of a list has, as other clients have it.
const PAGE: u32 = 500;
/// How many events of a Pod are read: those of the last hour are rarely more.
const EVENTS: u32 = 200;

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchItem {
    /// Added or changed.
    Seen(Box<Pod>),
    /// Left the scope.
    Gone(Box<Pod>),
    /// Nothing happened up to this version.
    Bookmark(String),
}

/// The changes of a scope, one after the other; an error is its end.
pub type WatchStream = BoxStream<'static, Result<WatchItem, ApiFault>>;

/// A cluster, as far as a watcher needs one. Calls may be dropped at any time.
#[async_trait]
pub trait Cluster: std::fmt::Debug + Send + Sync + 'static {
    /// What one may do in a scope.
    async fn access(&self, scope: &Scope) -> Result<Access, ApiFault>;
    /// All Pods of a scope, and the version at which they were so.
    async fn list(&self, scope: &Scope) -> Result<(Vec<Pod>, String), ApiFault>;
    /// The changes of a scope from a version on; the server ends it after `timeout`.
    async fn watch(&self, scope: &Scope, version: &str, timeout: Duration) -> Result<WatchStream, ApiFault>;
    /// A Pod by name; `None`: there is none.
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, ApiFault>;
    /// The events about a Pod.
    async fn events(&self, namespace: &str, uid: &str) -> Result<Vec<Event>, ApiFault>;
    /// A node; `None`: there is none.
    async fn node(&self, name: &str) -> Result<Option<Node>, ApiFault>;
}

/// A cluster behind a Kubernetes client.
#[derive(Clone)]
pub struct KubeCluster {
    client: Client,
}

impl std::fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeCluster").finish_non_exhaustive()
    }
}

impl KubeCluster {
    /// Over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn pods(&self, namespace: Option<&str>) -> Api<Pod> {
        match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Asks whether one may do something with Pods; what is missing in words, if not.
    async fn review(&self, scope: &Scope, verb: &str) -> Result<Option<String>, ApiFault> {
        let attributes = ResourceAttributes {
            namespace: scope.namespace.clone(),
            resource: Some("pods".to_owned()),
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.map_err(|e| fault(&e))?;
        Ok(denial(verb, answer.status.as_ref()))
    }
}

/// Allowed only if allowed, not denied, and evaluated without an error.
fn denial(verb: &str, status: Option<&SubjectAccessReviewStatus>) -> Option<String> {
    let empty = SubjectAccessReviewStatus::default();
    let status = status.unwrap_or(&empty);
    let error = status.evaluation_error.as_deref().filter(|e| !e.is_empty());
    if status.allowed && !status.denied.unwrap_or(false) && error.is_none() {
        return None;
    }
    let reason = error.or(status.reason.as_deref()).filter(|r| !r.is_empty());
    Some(format!("not allowed to {verb} pods{}", reason.map(|r| format!(": {r}")).unwrap_or_default()))
}

fn fault(error: &Error) -> ApiFault {
    match error {
        Error::Api(status) => fault_of(status),
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => ApiFault::Unreachable(error_chain(error)),
        other => ApiFault::Other(error_chain(other)),
    }
}

fn fault_of(status: &Status) -> ApiFault {
    let message = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    match status.code {
        410 => ApiFault::Expired,
        401 | 403 => ApiFault::Denied(message),
        429 => {
            let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            ApiFault::Throttled(Duration::from_secs(u64::from(asked.clamp(1, 60))))
        }
        code if code >= 500 => ApiFault::Unreachable(message),
        _ if matches!(status.reason.as_str(), "Expired" | "Gone") => ApiFault::Expired,
        _ => ApiFault::Other(message),
    }
}

fn selectors(scope: &Scope) -> (Option<String>, Option<String>) {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    (some(&scope.labels), some(&scope.fields))
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn access(&self, scope: &Scope) -> Result<Access, ApiFault> {
        let mut denied = None;
        for verb in ["list", "watch"] {
            denied = self.review(scope, verb).await?;
            if denied.is_some() {
                break;
            }
        }
        let Some(why) = denied else { return Ok(Access::Watch) };
        Ok(match self.review(scope, "get").await? {
            None => Access::Get(why),
            Some(more) => Access::Nothing(format!("{why}; {more}")),
        })
    }

    async fn list(&self, scope: &Scope) -> Result<(Vec<Pod>, String), ApiFault> {
        let pods = self.pods(scope.namespace.as_deref());
        let (label_selector, field_selector) = selectors(scope);
        let mut page = ListParams { label_selector, field_selector, limit: Some(PAGE), ..ListParams::default() };
        let mut all = Vec::new();
        loop {
            let list = pods.list(&page).await.map_err(|e| fault(&e))?;
            all.extend(list.items);
            let version = list.metadata.resource_version.unwrap_or_default();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok((all, version)),
            }
        }
    }

    async fn watch(&self, scope: &Scope, version: &str, timeout: Duration) -> Result<WatchStream, ApiFault> {
        let (label_selector, field_selector) = selectors(scope);
        let timeout = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).min(294);
        let params = WatchParams {
            label_selector,
            field_selector,
            timeout: Some(timeout),
            bookmarks: true,
            ..WatchParams::default()
        };
        let pods = self.pods(scope.namespace.as_deref());
        let stream = pods.watch(&params, version).await.map_err(|e| fault(&e))?;
        let items = stream.map(|event| match event {
            Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => Ok(WatchItem::Seen(Box::new(pod))),
            Ok(WatchEvent::Deleted(pod)) => Ok(WatchItem::Gone(Box::new(pod))),
            Ok(WatchEvent::Bookmark(mark)) => Ok(WatchItem::Bookmark(mark.metadata.resource_version)),
            Ok(WatchEvent::Error(status)) => Err(fault_of(&status)),
            Err(error) => Err(fault(&error)),
        });
        Ok(items.boxed())
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, ApiFault> {
        self.pods(Some(namespace)).get_opt(name).await.map_err(|e| fault(&e))
    }

    async fn events(&self, namespace: &str, uid: &str) -> Result<Vec<Event>, ApiFault> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(EVENTS);
        Ok(events.list(&params).await.map_err(|e| fault(&e))?.items)
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, ApiFault> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.get_opt(name).await.map_err(|e| fault(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_allows_only_what_it_allows_without_doubt() {
        let status = |allowed, denied, reason: &str, error: &str| SubjectAccessReviewStatus {
            allowed,
            denied,
            reason: Some(reason.to_owned()),
            evaluation_error: Some(error.to_owned()),
        };
        assert_eq!(denial("list", Some(&status(true, None, "", ""))), None);
        let denied = |status: &SubjectAccessReviewStatus| denial("list", Some(status)).unwrap();
        assert_eq!(denied(&status(false, None, "", "")), "not allowed to list pods");
        assert_eq!(denied(&status(true, Some(true), "no", "")), "not allowed to list pods: no");
        assert_eq!(denied(&status(true, None, "", "broken")), "not allowed to list pods: broken");
        assert_eq!(denial("watch", None).unwrap(), "not allowed to watch pods");
    }

    #[test]
    fn faults_are_told_apart() {
        let of = |code: u16| fault_of(&Status { code, ..Status::default() });
        assert_eq!(of(410), ApiFault::Expired);
        assert!(matches!(of(403), ApiFault::Denied(_)));
        assert_eq!(of(429), ApiFault::Throttled(Duration::from_secs(1)));
        assert!(matches!(of(503), ApiFault::Unreachable(_)));
        assert!(matches!(of(400), ApiFault::Other(_)));
    }
}
