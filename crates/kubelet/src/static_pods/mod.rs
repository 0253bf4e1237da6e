//! Static Pods: those that a node runs from manifests of its own, without an API.
//!
//! ```text
//!  directory ─ settle ─┐
//!  address ────────────┴► files: what each manifest says ─► manager ─► diff (pure) ─► start │ update │ remove
//!                                                             ▲                              │
//!                                                             └──── what is here ◄───────────┘ workers
//! ```
//! A source reports all that it has, every time. Nothing is removed before each source was heard once, and a manifest
//! that is bad at the moment holds what runs of it. The manager compares whenever a source reports or a Pod ends: it
//! keeps no memory of what it did, so that the next agent goes on from what it finds.

mod diff;
mod directory;
mod files;
mod manager;
mod settle;
mod url;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use minke_core::defaults::SourceKind;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::files::{Files, Manifest};
use self::manager::Manager;
use crate::Kubelet;

/// A source of static Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticSource {
    /// An absolute path: a directory of manifests, or one manifest.
    Path(PathBuf),
    /// An `http://` or `https://` address.
    Url(String),
}

/// All that a source has now.
#[derive(Debug)]
struct Report {
    index: usize,
    manifests: BTreeMap<String, Manifest>,
}

/// Static Pods are kept as long as this lives. When it is dropped they run on, and are Pods like others.
#[derive(Debug)]
pub struct StaticPods {
    _cancel: DropGuard,
}

impl Kubelet {
    /// Keeps the Pods of these sources: what they add is started, what they change is replaced, what they have no more is
    /// stopped and forgotten. Static Pods of an earlier agent that none of them has are removed once all were heard.
    #[must_use]
    pub fn keep_static(&self, sources: Vec<StaticSource>) -> StaticPods {
        let workers = self.workers();
        let cancel = workers.cancel.child_token();
        let (sender, receiver) = mpsc::channel(sources.len().max(1));
        let spawn = |task: futures_util::future::BoxFuture<'static, ()>| {
            workers.tasks.spawn(cancel.clone().run_until_cancelled_owned(task));
        };
        let manager = Manager::new(self.clone(), sources.len());
        spawn(Box::pin(manager.run(receiver)));
        for (index, source) in sources.into_iter().enumerate() {
            let files = |kind| Files::new(kind, workers.node_name.clone(), workers.sync.clock.clone());
            let reports = sender.clone();
            match source {
                StaticSource::Path(path) => {
                    spawn(Box::pin(directory::run(index, path, files(SourceKind::File), reports)));
                }
                StaticSource::Url(url) => spawn(Box::pin(url::run(index, url, files(SourceKind::Http), reports))),
            }
        }
        StaticPods { _cancel: CancellationToken::drop_guard(cancel) }
    }
}
