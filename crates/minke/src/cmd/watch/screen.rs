//! Where a watch shows what it sees: lines on standard output, and on a terminal what goes on below them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use minke_watch::Report;
use tokio::time::Instant;

use super::tell::{self, Format};
use crate::exit::Failure;
use crate::output::stdout;

/// See the module.
#[derive(Debug)]
pub(super) struct Screen {
    format: Format,
    quiet: bool,
    begun: Instant,
    /// What was said last of each Pod.
    said: BTreeMap<(String, String), String>,
    bars: Option<Bars>,
}

/// What moves on a terminal.
#[derive(Debug, Default)]
struct Bars {
    all: MultiProgress,
    pods: BTreeMap<(String, String), ProgressBar>,
}

impl Screen {
    /// For this process's output.
    pub(super) fn new(format: Format, quiet: bool, begun: Instant) -> Self {
        let live =
            !quiet && format == Format::Text && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bars = live.then(Bars::default);
        Self { format, quiet, begun, said: BTreeMap::new(), bars }
    }

    /// Something changed.
    pub(super) fn report(&mut self, report: &Report) -> Result<(), Failure> {
        let elapsed = self.begun.elapsed();
        match self.format {
            Format::Json => {
                let line = tell::Line::of(report, elapsed);
                let mut text = serde_json::to_string(&line).map_err(|e| Failure::from_error(&e))?;
                text.push('\n');
                stdout::print(&text)
            }
            Format::Text if self.quiet => Ok(()),
            Format::Text => {
                let Some(words) = tell::words(report) else { return Ok(()) };
                let name = if report.name.1.is_empty() {
                    "pods".to_owned()
                } else {
                    format!("{}/{}", report.name.0, report.name.1)
                };
                self.below(report, &name, &words);
                let before = self.said.insert(report.name.clone(), words.clone());
                if before.as_ref() == Some(&words) {
                    return Ok(());
                }
                self.line(&format!("{:>8} {name}: {words}", seconds(elapsed)))
            }
        }
    }

    /// What goes on, on a terminal.
    fn below(&mut self, report: &Report, name: &str, words: &str) {
        let Some(Bars { all, pods }) = &mut self.bars else { return };
        let bar = pods.entry(report.name.clone()).or_insert_with(|| {
            let bar = all.add(ProgressBar::new_spinner());
            // The template is a constant; a wrong one shows as indicatif's default rather than ending the command.
            let style = ProgressStyle::with_template("{spinner:.cyan} {elapsed:.dim} {prefix} {wide_msg:.dim}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(words.to_owned());
    }

    /// A line of output, a container's or the command's own.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        let text = format!("{text}\n");
        // Standard output belongs to the objects.
        let to_stderr = self.format == Format::Json;
        let write = || {
            if to_stderr {
                eprint!("{text}");
                return Ok(());
            }
            stdout::print(&text)
        };
        match &self.bars {
            Some(bars) => bars.all.suspend(write),
            None => write(),
        }
    }

    /// Takes everything that moves off the screen.
    pub(super) fn clear(&mut self) {
        if let Some(bars) = self.bars.take() {
            for bar in bars.pods.values() {
                bar.finish_and_clear();
            }
        }
    }
}

/// `+1.2s`, `+75s`.
fn seconds(elapsed: Duration) -> String {
    if elapsed.as_secs() < 60 { format!("+{:.1}s", elapsed.as_secs_f64()) } else { format!("+{}s", elapsed.as_secs()) }
}
