//! The logs of watched containers: each instance is followed once, and the one to blame has its last words told.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, LogParams};
use minke_core::judgement::{Cause, Failure};
use minke_watch::{Report, Whereabouts};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How many last lines are told of the container to blame.
const LAST: i64 = 20;
/// How long to wait for what containers wrote last.
const DRAIN: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Logs {
    client: Client,
    on: bool,
    /// Uid, container, restarts.
    followed: BTreeSet<(String, String, i32)>,
    lines: mpsc::Receiver<String>,
    sender: mpsc::Sender<String>,
    tasks: JoinSet<()>,
}

impl Logs {
    /// Shows nothing unless `on`.
    pub(super) fn new(client: Client, on: bool) -> Self {
        let (sender, lines) = mpsc::channel(256);
        Self { client, on, followed: BTreeSet::new(), lines, sender, tasks: JoinSet::new() }
    }

    /// Begins to follow whatever has started.
    pub(super) fn follow(&mut self, report: &Report) {
        let Some(pod) = report.pod.as_ref().filter(|_| self.on && report.whereabouts == Whereabouts::Present) else {
            return;
        };
        let status = pod.status.iter();
        let statuses = status.flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses).flatten());
        for container in statuses {
            let state = container.state.as_ref();
            if !state.is_some_and(|s| s.running.is_some() || s.terminated.is_some()) {
                continue;
            }
            let uid = report.uid.clone().unwrap_or_default();
            if !self.followed.insert((uid, container.name.clone(), container.restart_count)) {
                continue;
            }
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &report.name.0);
            let (name, container) = (report.name.1.clone(), container.name.clone());
            let sender = self.sender.clone();
            self.tasks.spawn(async move {
                let params = LogParams { container: Some(container.clone()), follow: true, ..LogParams::default() };
                let Ok(stream) = pods.log_stream(&name, &params).await else { return };
                let mut lines = Box::pin(stream.lines());
                while let Ok(Some(line)) = lines.try_next().await {
                    if sender.send(format!("{name}/{container} | {line}")).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// The next line. Cancel-safe; waits for ever where there is none.
    pub(super) async fn next(&mut self) -> String {
        match self.lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }

    /// The lines that are left once it is over; `None`: no more.
    pub(super) async fn rest(&mut self) -> Option<String> {
        let all_told = async {
            loop {
                tokio::select! {
                    biased;
                    line = self.lines.recv() => return line,
                    done = self.tasks.join_next() => {
                        if done.is_none() {
                            return self.lines.try_recv().ok();
                        }
                    }
                }
            }
        };
        timeout(DRAIN, all_told).await.ok().flatten()
    }

    /// The last lines of the container to blame.
    pub(super) async fn last_words(&self, report: &Report, failure: &Failure) -> Vec<String> {
        let ran = failure.evidence.exit_code.is_some() || failure.cause == Cause::CrashLoop;
        let is_there = report.whereabouts == Whereabouts::Present;
        let Some(container) = failure.evidence.container.clone().filter(|_| self.on && ran && is_there) else {
            return Vec::new();
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &report.name.0);
        let mut told = Vec::new();
        // The one that ended may have a successor already.
        for previous in [false, true] {
            let params = LogParams {
                container: Some(container.clone()),
                tail_lines: Some(LAST),
                previous,
                ..LogParams::default()
            };
            let text = timeout(DRAIN, pods.logs(&report.name.1, &params)).await;
            if let Ok(Ok(text)) = text
                && !text.trim().is_empty()
            {
                told.push(format!("last lines of {}/{container}:", report.name.1));
                told.extend(text.lines().map(|line| format!("  {line}")));
                break;
            }
        }
        told
    }
}
