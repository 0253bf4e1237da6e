//! The log file of one container.
//!
//! While its disk is full the container goes on: records are dropped and counted, and the first write that works
//! again says how many are missing. A record is written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::format::push_timestamp;

/// What was not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Dropped {
    records: u64,
    bytes: u64,
}

/// An open log file.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    /// `None` while it can't be opened.
    file: Option<File>,
    dropped: Dropped,
}

impl Writer {
    /// Opens (and makes, mode 0640) a log file with its directories.
    ///
    /// # Errors
    /// It can't be opened, other than for a full disk.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = match open(path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == io::ErrorKind::StorageFull => None,
            Err(e) => return Err(e),
        };
        Ok(Self { path: path.to_owned(), file, dropped: Dropped::default() })
    }

    /// Opens the path anew, after the old file was renamed. Everything written before stays in the old file.
    ///
    /// # Errors
    /// It can't be opened; the old file stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        self.file = Some(open(&self.path)?);
        Ok(())
    }

    /// Appends `count` whole records.
    pub(crate) fn write(&mut self, records: &[u8], count: u64, now: Timestamp) {
        if count == 0 {
            return;
        }
        if self.file.is_none() {
            self.file = open(&self.path).ok();
        }
        let notice = self.notice(now);
        let written = match &mut self.file {
            None => false,
            Some(file) if notice.is_empty() => append(file, records).is_ok(),
            Some(file) => {
                // One write for both: a notice alone would say that all is well when the disk is full again at once.
                let mut both = notice;
                both.extend_from_slice(records);
                append(file, &both).is_ok()
            }
        };
        if written {
            self.dropped = Dropped::default();
        } else {
            self.dropped.records += count;
            self.dropped.bytes += records.len() as u64;
        }
    }

    /// The output ended: a last try to say what is missing.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        let notice = self.notice(now);
        if let Some(file) = self.file.as_mut().filter(|_| !notice.is_empty())
            && append(file, &notice).is_ok()
        {
            self.dropped = Dropped::default();
        }
    }

    fn notice(&self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::new();
        if self.dropped != Dropped::default() {
            push_timestamp(&mut out, now);
            let Dropped { records, bytes } = self.dropped;
            let text = format!(
                " stderr F minke: the log could not be written; {records} lines ({bytes} bytes) are missing here\n"
            );
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Appends all or nothing: what a full disk cut off is taken back.
fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return undo(file, bytes.len() - rest.len(), io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = &rest[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return undo(file, bytes.len() - rest.len(), e),
        }
    }
    Ok(())
}

fn undo(file: &File, written: usize, error: io::Error) -> io::Result<()> {
    if written > 0 {
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(written as u64))?;
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<u8> {
        format!("1970-01-01T00:00:00.000000000Z stdout F {text}\n").into_bytes()
    }

    #[test]
    fn rotation_by_rename_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/0.log");
        let mut log = Writer::open(&path).unwrap();
        log.write(&line("one"), 1, Timestamp::UNIX_EPOCH);
        let old = dir.path().join("a/b/0.log.1");
        fs::rename(&path, &old).unwrap();
        log.write(&line("two"), 1, Timestamp::UNIX_EPOCH);
        log.reopen().unwrap();
        log.write(&line("three"), 1, Timestamp::UNIX_EPOCH);
        assert_eq!(fs::read(&old).unwrap(), [line("one"), line("two")].concat());
        assert_eq!(fs::read(&path).unwrap(), line("three"));
    }

    #[test]
    fn what_a_full_disk_swallowed_is_counted_and_said() {
        // /dev/full is a disk that is always full.
        let mut log = Writer {
            path: "/dev/full".into(),
            file: Some(OpenOptions::new().write(true).open("/dev/full").unwrap()),
            dropped: Dropped::default(),
        };
        log.write(&line("lost"), 1, Timestamp::UNIX_EPOCH);
        log.write(&[line("lost"), line("too")].concat(), 2, Timestamp::UNIX_EPOCH);
        assert_eq!(log.dropped.records, 3);
        let dir = tempfile::tempdir().unwrap();
        log.path = dir.path().join("0.log");
        log.reopen().unwrap();
        log.write(&line("back"), 1, Timestamp::UNIX_EPOCH);
        let text = fs::read_to_string(&log.path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let bytes = 2 * line("lost").len() + line("too").len();
        assert!(lines[0].ends_with(&format!("3 lines ({bytes} bytes) are missing here")), "{}", lines[0]);
        assert!(lines[1].ends_with("back"));
    }

    #[test]
    fn a_log_path_that_is_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(Writer::open(&path).is_err());
    }
}
