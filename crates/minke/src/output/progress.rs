//! What is going on, on standard error: spinners and bars on a terminal, one line an event otherwise.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use minke_core::identity::PodUid;
use minke_kubelet::Progress;

use crate::goal::{Standing, Tracked};

/// Shows progress.
#[derive(Debug)]
pub(crate) enum ProgressView {
    /// Nothing.
    Quiet,
    /// One line an event.
    Plain,
    /// Moving.
    Terminal(Box<Bars>),
}

/// The bars of a terminal.
#[derive(Debug)]
pub(crate) struct Bars {
    multi: MultiProgress,
    pods: HashMap<PodUid, ProgressBar>,
    layers: HashMap<(PodUid, String), ProgressBar>,
}

/// Events that everybody expects and that tell nothing new on a busy screen.
const ROUTINE: [&str; 2] = ["Created", "Started"];

impl ProgressView {
    /// For this process's standard error.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet {
            Self::Quiet
        } else if std::io::stderr().is_terminal() {
            Self::Terminal(Box::new(Bars { multi: MultiProgress::new(), pods: HashMap::new(), layers: HashMap::new() }))
        } else {
            Self::Plain
        }
    }

    /// Shows an event of a Pod.
    pub(crate) fn event(&mut self, pod: &Tracked, progress: &Progress) {
        match self {
            Self::Quiet => {}
            Self::Plain => {
                if let Some(line) = plain_line(&pod.key.full_name(), progress) {
                    eprintln!("{line}");
                }
            }
            Self::Terminal(bars) => bars.event(pod, progress),
        }
    }

    /// Shows how a Pod stands.
    pub(crate) fn pod(&mut self, pod: &Tracked) {
        match self {
            Self::Quiet | Self::Plain => {}
            Self::Terminal(bars) => bars.pod(pod),
        }
    }

    /// Says something to people.
    pub(crate) fn say(&mut self, text: &str) {
        match self {
            Self::Quiet => {}
            Self::Plain => eprintln!("{text}"),
            Self::Terminal(bars) => bars.multi.suspend(|| eprintln!("{text}")),
        }
    }

    /// Does something that writes to the terminal, without tearing bars.
    pub(crate) fn aside<T>(&mut self, write: impl FnOnce() -> T) -> T {
        match self {
            Self::Quiet | Self::Plain => write(),
            Self::Terminal(bars) => bars.multi.suspend(write),
        }
    }

    /// Takes everything off the screen.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Quiet | Self::Plain => {}
            Self::Terminal(bars) => {
                for bar in bars.pods.values().chain(bars.layers.values()) {
                    bar.finish_and_clear();
                }
                bars.pods.clear();
                bars.layers.clear();
            }
        }
    }
}

/// An event on one line; `None` for those that only a terminal shows.
fn plain_line(pod: &str, progress: &Progress) -> Option<String> {
    match progress {
        Progress::Pull { .. } => None,
        Progress::Event { container, reason, message, warning, .. } => {
            let warning = if *warning { "warning: " } else { "" };
            let container = container.as_ref().map(|c| format!("/{c}")).unwrap_or_default();
            Some(format!("{warning}{pod}{container}: {reason}: {message}"))
        }
    }
}

impl Bars {
    fn spinner(&mut self, pod: &Tracked) -> ProgressBar {
        let multi = &self.multi;
        let bar = self.pods.entry(pod.key.uid.clone()).or_insert_with(|| {
            let bar = multi.add(ProgressBar::new_spinner());
            bar.set_style(template("{spinner:.cyan} {prefix} {wide_msg:.dim}"));
            bar.set_prefix(pod.key.full_name());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.clone()
    }

    fn event(&mut self, pod: &Tracked, progress: &Progress) {
        match progress {
            Progress::Pull { image, layer, done, total, .. } => self.pull(pod, image, layer, *done, *total),
            Progress::Event { reason, message, warning, .. } => {
                if *warning {
                    let name = pod.key.full_name();
                    self.multi.suspend(|| eprintln!("warning: {name}: {reason}: {message}"));
                } else if !ROUTINE.contains(&reason.as_str()) {
                    self.spinner(pod).set_message(message.clone());
                }
            }
        }
    }

    fn pull(&mut self, pod: &Tracked, image: &str, layer: &str, done: u64, total: u64) {
        let spinner = self.spinner(pod);
        let key = (pod.key.uid.clone(), layer.to_owned());
        if total > 0 && done >= total {
            if let Some(bar) = self.layers.remove(&key) {
                bar.finish_and_clear();
            }
            return;
        }
        let multi = &self.multi;
        let bar = self.layers.entry(key).or_insert_with(|| {
            let bar = multi.insert_after(&spinner, ProgressBar::new(total));
            bar.set_style(template("    {prefix} {bar:24.cyan/dim} {msg:.dim}"));
            let short: String = layer.trim_start_matches("sha256:").chars().take(12).collect();
            bar.set_prefix(short);
            bar
        });
        bar.set_length(total.max(done));
        bar.set_position(done);
        bar.set_message(format!("{} of {}", HumanBytes(done), HumanBytes(total)));
        spinner.set_message(format!("pulling {image}"));
    }

    fn pod(&mut self, pod: &Tracked) {
        let message = match &pod.standing {
            Standing::Queued | Standing::Offered => return,
            Standing::Applied => "starting".to_owned(),
            Standing::Rejected { reason, .. } => reason.clone(),
            Standing::Gone => "removed".to_owned(),
            Standing::Reported(report) => {
                let status = report.pod.status.as_ref();
                let phase = status.and_then(|s| s.phase.clone()).unwrap_or_default();
                let waiting = status
                    .into_iter()
                    .flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses).flatten())
                    .find_map(|c| c.state.as_ref()?.waiting.as_ref()?.reason.clone());
                waiting.unwrap_or(phase)
            }
        };
        self.spinner(pod).set_message(message);
    }
}

fn template(text: &str) -> ProgressStyle {
    // The templates are constants; a wrong one shows as indicatif's default rather than ending the command.
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_name_pod_and_container_and_mark_warnings() {
        let event = |container: Option<&str>, warning| Progress::Event {
            pod: PodUid::new("u1").unwrap(),
            container: container.map(ToOwned::to_owned),
            reason: "Pulling".to_owned(),
            message: "Pulling image \"x\"".to_owned(),
            warning,
        };
        let line = |progress| plain_line("default/web", &progress).unwrap();
        assert_eq!(line(event(Some("app"), false)), "default/web/app: Pulling: Pulling image \"x\"");
        assert_eq!(line(event(None, true)), "warning: default/web: Pulling: Pulling image \"x\"");
    }
}
