//! A path as a source: a directory of manifests, or one manifest. Watched, and listed every 20 s besides.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minke_core::manifest::Input;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Report;
use super::files::{Files, Look};
use super::settle::Settling;
use super::watch::Watch;
use crate::source::{self, ReadError};

/// Between two listings without news.
pub(super) const PERIOD: Duration = Duration::from_secs(20);
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The watch, or when it is tried again to have one.
#[derive(Debug)]
enum Watching {
    Yes(Watch),
    No { until: Instant, next: Duration },
}

impl Watching {
    fn begin(directory: &Path, retry: Duration) -> Self {
        match Watch::new(directory) {
            Ok(watch) => Self::Yes(watch),
            Err(error) => {
                tracing::debug!(directory = %directory.display(), %error, "can't be watched");
                Self::No { until: Instant::now() + retry, next: (retry * 2).min(PERIOD) }
            }
        }
    }

    fn lost(&mut self) {
        *self = Self::No { until: Instant::now() + FIRST_RETRY, next: FIRST_RETRY * 2 };
    }
}

/// Reports what the path has whenever that may have changed, until nobody listens.
pub(super) async fn run(index: usize, path: PathBuf, mut files: Files, reports: mpsc::Sender<Report>) {
    // A file is watched by its directory: whoever replaces it does not write to it.
    let is_file = std::fs::metadata(&path).is_ok_and(|meta| !meta.is_dir());
    let directory = if is_file { path.parent().unwrap_or(Path::new("/")).to_owned() } else { path.clone() };
    let mut settling = Settling::default();
    let mut watching = Watching::begin(&directory, FIRST_RETRY);
    let mut last_error = None;
    loop {
        match read(&path).await {
            Ok(found) => {
                last_error = None;
                let now = Instant::now();
                let looks = found.into_iter().map(|look| unless_written(look, &mut settling, now)).collect();
                let manifests: BTreeMap<_, _> = files.take(looks);
                if reports.send(Report { index, manifests }).await.is_err() {
                    return;
                }
            }
            // No report: what was heard of this source before still holds.
            Err(error) => {
                let error = error.to_string();
                if last_error.as_ref() != Some(&error) {
                    tracing::error!(path = %path.display(), error, "can't list manifests; what runs of them stays");
                }
                last_error = Some(error);
            }
        }
        let poll = Instant::now() + PERIOD;
        let wake = settling.next().unwrap_or(poll).min(poll);
        match &mut watching {
            Watching::Yes(watch) => {
                let news = tokio::select! {
                    news = watch.next() => news,
                    () = sleep_until(wake) => continue,
                };
                match news {
                    Ok(news) => {
                        let now = Instant::now();
                        if news.lost {
                            settling.forget();
                        }
                        for (name, change) in &news.changes {
                            settling.saw(name, *change, now);
                        }
                        if news.gone {
                            watching.lost();
                        }
                    }
                    Err(error) => {
                        tracing::warn!(directory = %directory.display(), %error, "the watch is lost");
                        watching.lost();
                    }
                }
            }
            Watching::No { until, next } => {
                let (until, next) = (*until, *next);
                sleep_until(until.min(wake)).await;
                if Instant::now() >= until {
                    watching = Watching::begin(&directory, next);
                }
            }
        }
    }
}

fn unless_written(look: Look, settling: &mut Settling, now: Instant) -> Look {
    let name = match &look {
        Look::Read(input) => input.name.to_string(),
        Look::Unreadable(error) => error.name.clone(),
        Look::Unsettled(_) => return look,
    };
    let settled = Path::new(&name).file_name().is_none_or(|file| settling.is_settled(file, now));
    if settled { look } else { Look::Unsettled(name) }
}

/// All manifests of a path. One that is not there has none.
async fn read(path: &Path) -> io::Result<Vec<Look>> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || -> io::Result<Vec<Look>> {
        let found = match std::fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => source::list(&path)?,
            Ok(_) => vec![path],
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(found.iter().filter_map(|file| look(file)).collect())
    });
    read.await.map_err(io::Error::other)?
}

fn look(file: &Path) -> Option<Look> {
    match source::read_file(file) {
        Ok(Input { name, bytes }) => Some(Look::Read(Input { name, bytes })),
        // Gone since it was listed. A link that leads nowhere is there, and says so.
        Err(_) if std::fs::symlink_metadata(file).is_err() => None,
        Err(error) => Some(Look::Unreadable(ReadError { ..error })),
    }
}
