//! Timelines of Pods as files and as text.
//!
//! The agent gives transitions ([`minke_kubelet::timeline`]); [`chart`] makes lanes with bars and marks of them, pure;
//! [`html`], [`trace`] and [`mod@text`] write these down. The JSON format is what the agent gave, see docs/timeline.md.

mod chart;
mod html;
mod text;
mod trace;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use minke_kubelet::timeline::Timelines;
use serde::Serialize;

use crate::exit::Failure;

pub(crate) use text::text;

/// How a timeline is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A page for people.
    Html,
    /// The transitions.
    Json,
    /// Chrome's trace format, for Perfetto.
    Trace,
}

/// A file for a timeline; its name says the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimelineFile {
    path: PathBuf,
    format: Format,
}

impl FromStr for TimelineFile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let format = if lower.ends_with(".trace.json") {
            Format::Trace
        } else if lower.ends_with(".json") {
            Format::Json
        } else if lower.ends_with(".html") || lower.ends_with(".htm") {
            Format::Html
        } else {
            return Err("its name must end in .html, .json or .trace.json: that is how the format is chosen".to_owned());
        };
        Ok(Self { path: PathBuf::from(text), format })
    }
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct Document<'a> {
    /// Raised when a field changes its meaning.
    version: u32,
    #[serde(flatten)]
    timelines: &'a Timelines,
}

impl TimelineFile {
    /// Writes the file whole, or not at all.
    pub(crate) fn write(&self, timelines: &Timelines) -> Result<(), Failure> {
        let text = match self.format {
            Format::Html => html::page(&chart::chart(timelines)),
            Format::Trace => trace::trace(&chart::chart(timelines)),
            Format::Json => serde_json::to_string_pretty(&Document { version: 1, timelines }).map(|t| t + "\n"),
        };
        let text = text.map_err(|e| Failure::from_error(&e))?;
        replace(&self.path, &text)
            .map_err(|e| Failure::system(format!("can't write the timeline to {}: {e}", self.path.display())))
    }
}

/// A device or pipe is written to; a file is replaced.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).inspect_err(|_| {
        // What is left of a full disk must not stay.
        drop(std::fs::remove_file(&beside));
    })
}

#[cfg(test)]
mod tests;
