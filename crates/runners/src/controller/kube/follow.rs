//! Objects of a kind, followed for ever: listed in pages, watched from there, and listed again after an error.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use kube::api::{Api, ListParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Error, Resource};
use minke_core::runtime::error_chain;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::controller::cluster::{News, NewsStream};

const PAGE: u32 = 500;
/// After how many seconds the server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// A watch that says nothing for so long, although the server should have ended it, is dead.
const SILENCE: Duration = Duration::from_secs(320);
/// A list takes no longer.
const LIST: Duration = Duration::from_secs(60);
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

struct Following<K> {
    api: Api<K>,
    labels: Option<String>,
    what: &'static str,
    version: Option<String>,
    events: Option<BoxStream<'static, Result<WatchEvent<K>, Error>>>,
    failures: u32,
}

pub(super) fn follow<K>(api: Api<K>, labels: Option<&str>, what: &'static str) -> NewsStream<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let labels = labels.map(str::to_owned);
    let following = Following { api, labels, what, version: None, events: None, failures: 0 };
    stream::unfold(following, |mut following| async {
        let news = following.next().await;
        Some((news, following))
    })
    .boxed()
}

impl<K> Following<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    async fn next(&mut self) -> News<K> {
        loop {
            if self.version.is_none() {
                sleep(self.pause()).await;
                match timeout(LIST, self.list()).await {
                    Ok(Ok(items)) => return News::Listed(items),
                    Ok(Err(error)) => self.failed(&error_chain(&error)),
                    Err(_) => self.failed("no answer"),
                }
                continue;
            }
            if self.events.is_none() && !self.watch().await {
                continue;
            }
            let Some(events) = &mut self.events else { continue };
            match timeout(SILENCE, events.next()).await {
                Ok(Some(Ok(event))) => {
                    if let Some(news) = self.event(event) {
                        return news;
                    }
                }
                // The server ends each watch after a while; it goes on where it was.
                Ok(None) => self.events = None,
                Ok(Some(Err(error))) => {
                    self.failed(&error_chain(&error));
                    self.events = None;
                }
                Err(_) => self.events = None,
            }
        }
    }

    fn event(&mut self, event: WatchEvent<K>) -> Option<News<K>> {
        let version = |object: &K| object.meta().resource_version.clone();
        let (version, news) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (version(&object), Some(News::Applied(object))),
            WatchEvent::Deleted(object) => (version(&object), Some(News::Deleted(object))),
            WatchEvent::Bookmark(mark) => (Some(mark.metadata.resource_version), None),
            WatchEvent::Error(status) => {
                self.failed(&status.message);
                // What it has missed, only a list can tell.
                (self.version, self.events) = (None, None);
                return None;
            }
        };
        self.version = version.or(self.version.take());
        self.failures = 0;
        news
    }

    async fn list(&mut self) -> Result<Vec<K>, Error> {
        let mut page = ListParams { label_selector: self.labels.clone(), limit: Some(PAGE), ..ListParams::default() };
        let mut all = Vec::new();
        loop {
            let list = self.api.list(&page).await?;
            all.extend(list.items);
            let version = list.metadata.resource_version;
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => {
                    self.version = Some(version.unwrap_or_default());
                    return Ok(all);
                }
            }
        }
    }

    /// Whether it watches.
    async fn watch(&mut self) -> bool {
        sleep(self.pause()).await;
        let params = WatchParams {
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let version = self.version.clone().unwrap_or_default();
        match timeout(LIST, self.api.watch(&params, &version)).await {
            Ok(Ok(events)) => {
                self.events = Some(events.boxed());
                // One that ends at once is not begun again at once.
                self.failures = self.failures.max(1);
                true
            }
            Ok(Err(error)) => {
                self.failed(&error_chain(&error));
                self.version = None;
                false
            }
            Err(_) => {
                self.failed("no answer");
                false
            }
        }
    }

    /// The wait before the next attempt; none before the first two.
    fn pause(&self) -> Duration {
        match self.failures {
            0 | 1 => Duration::ZERO,
            more => (FIRST * (1 << (more - 2).min(7))).min(LONGEST),
        }
    }

    fn failed(&mut self, error: &str) {
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(what = self.what, error, failures = self.failures, "watching goes on after a pause");
    }
}
