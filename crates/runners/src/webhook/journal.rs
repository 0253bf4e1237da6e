//! What was taken, on disk before the forge is told so: one line a piece of news, synced in groups.
//!
//! A crash may cut the last line short: nobody was told that it is taken. When the file has grown, it is written anew with
//! what still matters, beside the old one, and takes its place in one step.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::payload::JobNews;
use crate::demand::{JobEvent, Lifetimes, Status};
use crate::ids::{JobId, RunnerId};

/// It is written anew when it is longer than this.
const LONGEST: u64 = 8 << 20;
/// So many lines are synced together at most.
const GROUP: usize = 1024;

/// The journal can't be used.
#[derive(Debug, thiserror::Error)]
#[error("can't {operation} the journal {}", path.display())]
pub struct JournalError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    at: Timestamp,
    id: JobId,
    source: String,
    status: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runner: Option<RunnerId>,
    labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Queued,
    Running,
    Over,
}

impl Line {
    fn of(news: &JobNews, at: Timestamp) -> Self {
        let (status, runner) = match news.event.status {
            Status::Queued => (Word::Queued, None),
            Status::Running { runner } => (Word::Running, runner),
            Status::Over { runner } => (Word::Over, runner),
        };
        Self { at, id: news.event.id, source: news.event.source.clone(), status, runner, labels: news.labels.clone() }
    }

    fn news(self) -> (JobNews, Timestamp) {
        let runner = self.runner;
        let status = match self.status {
            Word::Queued => Status::Queued,
            Word::Running => Status::Running { runner },
            Word::Over => Status::Over { runner },
        };
        let event = JobEvent { id: self.id, source: self.source, status };
        (JobNews { event, labels: self.labels }, self.at)
    }

    fn matters(&self, now: Timestamp) -> bool {
        let lifetimes = Lifetimes::default();
        let life = match self.status {
            Word::Queued => lifetimes.queued,
            Word::Running => lifetimes.running,
            // Late news of it are few; who hears one asks the forge.
            Word::Over => SignedDuration::from_hours(1),
        };
        now.duration_since(self.at) < life
    }
}

/// Reads what can be read; a line that can't (a crash cut it short) is left out.
fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What still matters of all that was written: the first and the furthest news of each job.
fn condense(lines: Vec<Line>, now: Timestamp) -> Vec<Line> {
    let mut jobs: BTreeMap<JobId, Vec<Line>> = BTreeMap::new();
    for line in lines {
        let known = jobs.entry(line.id).or_default();
        if known.iter().all(|other| other.status < line.status) {
            known.push(line);
        }
    }
    jobs.retain(|_, lines| lines.last().is_some_and(|last| last.matters(now)));
    jobs.into_values().flatten().collect()
}

struct Entry {
    line: String,
    done: oneshot::Sender<bool>,
}

/// The journal. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Journal {
    entries: mpsc::Sender<Entry>,
}

impl Journal {
    /// Opens the file, or makes it; what it has that still matters comes along, oldest news of a job first. Writes on a thread of
    /// its own until the last clone is dropped.
    ///
    /// # Errors
    ///
    /// The file can't be read or written.
    pub fn open(path: &Path, now: Timestamp) -> Result<(Self, Vec<(JobNews, Timestamp)>), JournalError> {
        let fault = |operation| move |source| JournalError { operation, path: path.to_owned(), source };
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault("read")(error)),
        };
        let lines = condense(read(&text), now);
        let mut writer = Writer { path: path.to_owned(), file: None, length: 0 };
        writer.rewrite(&lines).map_err(fault("write"))?;
        let (entries, heard) = mpsc::channel(GROUP);
        let named = std::thread::Builder::new().name("webhook-journal".to_owned());
        named.spawn(move || writer.run(heard)).map_err(fault("start a writer for"))?;
        Ok((Self { entries }, lines.into_iter().map(Line::news).collect()))
    }

    /// Whether this is on disk now. Waits for the disk; cancelled, it may be there or not.
    pub async fn append(&self, news: &JobNews, at: Timestamp) -> bool {
        let Ok(line) = serde_json::to_string(&Line::of(news, at)) else { return false };
        let (done, written) = oneshot::channel();
        self.entries.send(Entry { line, done }).await.is_ok() && written.await.unwrap_or(false)
    }
}

struct Writer {
    path: PathBuf,
    file: Option<File>,
    length: u64,
}

impl Writer {
    fn run(mut self, mut heard: mpsc::Receiver<Entry>) {
        let mut group = Vec::new();
        while heard.blocking_recv_many(&mut group, GROUP) > 0 {
            let good = self.write(&group).inspect_err(|error| tracing::error!(%error, "the webhook journal")).is_ok();
            for entry in group.drain(..) {
                // Who asked may have gone.
                let _ = entry.done.send(good);
            }
            if self.length > LONGEST {
                let written = self.condense();
                if let Err(error) = written {
                    tracing::error!(%error, "the webhook journal can't be written anew");
                    // Not after each line again.
                    self.length = 0;
                }
            }
        }
    }

    fn write(&mut self, group: &[Entry]) -> io::Result<()> {
        let mut text: String = group.iter().map(|entry| format!("{}\n", entry.line)).collect();
        // A line that was cut short by a full disk must not swallow the next.
        text.insert(0, '\n');
        if self.file.is_none() {
            self.file = Some(File::options().append(true).create(true).open(&self.path)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            self.file = None;
        }
        self.length += text.len() as u64;
        written
    }

    fn condense(&mut self) -> io::Result<()> {
        let text = std::fs::read(&self.path)?;
        let lines = read(&String::from_utf8_lossy(&text));
        let now = lines.iter().map(|line| line.at).max().unwrap_or(Timestamp::MIN);
        self.rewrite(&condense(lines, now))
    }

    fn rewrite(&mut self, lines: &[Line]) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut text = String::new();
        for line in lines {
            text.push_str(&serde_json::to_string(line)?);
            text.push('\n');
        }
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        if let Some(directory) = self.path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            File::open(directory)?.sync_all()?;
        }
        (self.file, self.length) = (None, text.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn news(id: u64, status: Status) -> JobNews {
        let event = JobEvent { id: JobId(id), source: "o/r".to_owned(), status };
        JobNews { event, labels: vec!["linux".to_owned()] }
    }

    fn running() -> Status {
        Status::Running { runner: Some(RunnerId(7)) }
    }

    fn hours(hours: i64) -> Timestamp {
        NOW + SignedDuration::from_hours(hours)
    }

    #[tokio::test]
    async fn what_was_taken_is_known_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (journal, known) = Journal::open(&path, NOW).unwrap();
        assert_eq!(known, []);
        assert!(journal.append(&news(1, Status::Queued), NOW).await);
        assert!(journal.append(&news(2, Status::Queued), NOW).await);
        assert!(journal.append(&news(1, running()), hours(1)).await);
        // A crash in the middle of a line.
        File::options().append(true).open(&path).unwrap().write_all(b"\n{\"at\":\"2027").unwrap();
        let (again, known) = Journal::open(&path, hours(2)).unwrap();
        let expected = [(news(1, Status::Queued), NOW), (news(1, running()), hours(1)), (news(2, Status::Queued), NOW)];
        assert_eq!(known, expected);
        assert!(again.append(&news(3, Status::Queued), hours(2)).await);
        let (_, known) = Journal::open(&path, hours(25)).unwrap();
        assert_eq!(known.iter().map(|(news, _)| news.event.id.0).collect::<Vec<_>>(), [1, 1, 3], "2 is too old");
    }

    #[tokio::test]
    async fn what_can_not_be_written_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (journal, _) = Journal::open(&path, NOW).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!journal.append(&news(1, Status::Queued), NOW).await);
        std::fs::remove_dir(&path).unwrap();
        assert!(journal.append(&news(1, Status::Queued), NOW).await, "and it is tried again");
        assert!(Journal::open(&directory.path().join("no/such/place"), NOW).is_err());
    }

    #[test]
    fn what_is_condensed_is_what_matters() {
        let line = |id, status, at| Line::of(&news(id, status), at);
        let over = Status::Over { runner: None };
        let lines = vec![
            line(1, Status::Queued, NOW),
            line(1, over, NOW),
            line(1, running(), NOW),
            line(2, Status::Queued, NOW),
            line(3, running(), NOW),
            line(2, Status::Queued, hours(1)),
        ];
        let kept = |now| -> Vec<u64> { condense(lines.clone(), now).iter().map(|line| line.id.0).collect() };
        assert_eq!(kept(NOW), [1, 1, 2, 3]);
        assert_eq!(kept(hours(2)), [2, 3]);
        assert_eq!(kept(hours(24)), [3]);
        assert_eq!(kept(hours(24 * 6)), Vec::<u64>::new());
    }
}
