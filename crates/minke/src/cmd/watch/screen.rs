//! Where a watch shows what it sees: lines on standard output, and on a terminal what goes on below them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use minke_core::judgement::Verdict;
use minke_watch::Report;
use tokio::time::Instant;

use super::tell::{self, Format};
use crate::durations;
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

    /// What goes on, on a terminal: who waits moves, and says how long that may last; who is as wanted stands still.
    fn below(&mut self, report: &Report, name: &str, words: &str) {
        let Some(Bars { all, pods }) = &mut self.bars else { return };
        let bar = pods.entry(report.name.clone()).or_insert_with(|| {
            let bar = all.add(ProgressBar::new_spinner());
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_style(style(standing(report), Instant::now()));
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

/// What a Pod's line on a terminal has before its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// It waits; for so long at most, if that is known.
    Waits(Option<Duration>),
    Met,
    Failed,
}

fn standing(report: &Report) -> Mark {
    let left = |until: Option<Duration>| Mark::Waits(until.map(|until| until.saturating_sub(report.moment)));
    match &report.verdict {
        Some(Verdict::Healthy(healthy)) if healthy.ready => Mark::Met,
        Some(Verdict::Succeeded) => Mark::Met,
        Some(Verdict::Failed(_)) => Mark::Failed,
        Some(Verdict::Waiting { until, .. } | Verdict::Doomed { until, .. }) => left(*until),
        Some(Verdict::Healthy(_)) | None => Mark::Waits(None),
    }
}

fn style(mark: Mark, now: Instant) -> ProgressStyle {
    let (template, until) = match mark {
        Mark::Waits(left) => {
            ("{spinner:.cyan} {elapsed:.dim} {prefix}{left:.yellow} {wide_msg:.dim}", left.map(|left| now + left))
        }
        Mark::Met => ("{check:.green} {prefix} {wide_msg:.dim}", None),
        Mark::Failed => ("{cross:.red} {prefix} {wide_msg:.dim}", None),
    };
    let mark = |text: &'static str| {
        move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A line that can't be drawn is drawn again.
            let _ = out.write_str(text);
        }
    };
    let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            let _ = write!(out, " [{} left]", durations::age(left));
        }
    };
    // The templates are constants; a wrong one shows as indicatif's default rather than ending the command.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.with_key("left", left).with_key("check", mark("✓")).with_key("cross", mark("✗"))
}

/// `+1.2s`, `+75s`.
fn seconds(elapsed: Duration) -> String {
    if elapsed.as_secs() < 60 { format!("+{:.1}s", elapsed.as_secs_f64()) } else { format!("+{}s", elapsed.as_secs()) }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use minke_core::judgement::{Healthy, Stage};

    use super::*;

    #[test]
    fn who_waits_says_how_long_that_may_last_and_who_is_ready_stands_still() {
        let of = |verdict| {
            standing(&Report {
                verdict: Some(verdict),
                moment: Duration::from_secs(20),
                ..Report::unseen("ns", "web", 1, Timestamp::UNIX_EPOCH)
            })
        };
        let waiting = |until| Verdict::Waiting { stage: Stage::Scheduling, why: None, until };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(of(waiting(seconds(80))), Mark::Waits(seconds(60)));
        assert_eq!(of(waiting(None)), Mark::Waits(None));
        assert_eq!(of(Verdict::Healthy(Healthy { ready: true, notes: Vec::new() })), Mark::Met);
        assert_eq!(of(Verdict::Healthy(Healthy { ready: false, notes: Vec::new() })), Mark::Waits(None));
    }

    #[test]
    fn every_template_can_be_drawn() {
        for mark in [Mark::Waits(Some(Duration::from_secs(90))), Mark::Waits(None), Mark::Met, Mark::Failed] {
            let drawn = ProgressBar::hidden();
            drawn.set_style(style(mark, Instant::now()));
            drawn.tick();
        }
    }
}
