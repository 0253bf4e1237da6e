//! What a run shows while it goes on: progress, and the logs of its containers.

use std::io::IsTerminal;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ContainerStatus;
use minke_core::identity::PodUid;
use minke_kubelet::Progress;

use super::session::Session;
use crate::goal::{Standing, Tracked};
use crate::logs::line::Line;
use crate::logs::reader::Attempts;
use crate::logs::show::{Label, Style, format};
use crate::logs::tail::{SourceKey, Tail};
use crate::output::progress::ProgressView;
use crate::output::stdout;

/// The screen of a run.
pub(super) struct View {
    progress: ProgressView,
    logs: Option<Logs>,
}

struct Logs {
    directory: PathBuf,
    tail: Tail<Label>,
    style: Style,
    /// Standard output belongs to a document, so logs go to standard error.
    to_stderr: bool,
    closed: bool,
}

impl View {
    /// A screen. `document`: standard output must hold nothing but the result.
    pub(super) fn new(directory: PathBuf, quiet: bool, logs: bool, document: bool) -> Self {
        let color = if document { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let style = Style { prefix: true, color, timestamps: false };
        let logs = logs.then(|| Logs { directory, tail: Tail::new(), style, to_stderr: document, closed: false });
        Self { progress: ProgressView::new(quiet), logs }
    }

    /// A Pod changed.
    pub(super) fn changed(&mut self, session: &Session, uid: &PodUid) {
        let Some(tracked) = session.pod(uid) else { return };
        if session.is_waiting() {
            self.progress.pod(tracked);
        } else {
            self.progress.clear();
        }
        if let Some(logs) = &mut self.logs {
            logs.follow(tracked);
        }
    }

    /// Something is going on.
    pub(super) fn progress(&mut self, session: &Session, progress: &Progress) {
        let uid = match progress {
            Progress::Pull { pod, .. } | Progress::Event { pod, .. } => pod,
        };
        if let Some(tracked) = session.pod(uid) {
            self.progress.event(tracked, progress);
        }
    }

    /// Says something to people.
    pub(super) fn say(&mut self, text: &str) {
        self.progress.say(text);
    }

    /// Waits until there are logs to show. Cancel-safe.
    pub(super) async fn logs_changed(&mut self) {
        match &mut self.logs {
            Some(logs) if !logs.tail.is_empty() => logs.tail.changed().await,
            Some(_) | None => std::future::pending().await,
        }
    }

    /// Shows what was written.
    pub(super) fn show_logs(&mut self) {
        let Some(logs) = &mut self.logs else { return };
        let mut out = Vec::new();
        let style = logs.style;
        logs.tail.read(&mut |label: &Label, line: Line| out.extend(format(&line, label, style)));
        logs.write(&out, &mut self.progress);
    }

    /// Shows the rest and leaves the screen.
    pub(super) fn end(&mut self, session: &Session) {
        self.progress.clear();
        let Some(logs) = &mut self.logs else { return };
        for tracked in session.pods() {
            logs.follow(tracked);
        }
        let mut out = Vec::new();
        let style = logs.style;
        logs.tail.finish_all(&mut |label: &Label, line: Line| out.extend(format(&line, label, style)));
        logs.write(&out, &mut self.progress);
    }
}

impl Logs {
    /// Follows the containers of a Pod that have started since it was applied.
    fn follow(&mut self, tracked: &Tracked) {
        let Standing::Reported(report) = &tracked.standing else { return };
        let status = report.pod.status.as_ref();
        let statuses =
            status.into_iter().flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses).flatten());
        for container in statuses.filter(|c| has_started(c)) {
            let key = SourceKey { pod: tracked.key.uid.to_string(), container: container.name.clone() };
            let directory = self.directory.join(tracked.key.log_directory()).join(&container.name);
            let pod = if *tracked.key.namespace == *"default" {
                tracked.key.name.to_string()
            } else {
                tracked.key.full_name()
            };
            self.tail.add(key, &directory, Attempts::From(0), Label::new(format!("{pod}/{}", container.name)));
        }
    }

    fn write(&mut self, bytes: &[u8], progress: &mut ProgressView) {
        if bytes.is_empty() || self.closed {
            return;
        }
        let written = progress.aside(|| {
            if self.to_stderr {
                use std::io::Write;
                std::io::stderr().write_all(bytes)
            } else {
                stdout::write(bytes)
            }
        });
        // Who reads has gone; the Pods are what matters, so the run goes on.
        self.closed = written.is_err();
    }
}

fn has_started(container: &ContainerStatus) -> bool {
    let states = [&container.state, &container.last_state];
    states.into_iter().flatten().any(|s| s.running.is_some() || s.terminated.is_some())
}
