//! Which files a container's log consists of.
//!
//! `<attempt>.log` is the current file of an attempt; rotation moves it to `<attempt>.log.<time>`. In reading order:
//! attempts ascending, in each the rotated files by their time, then the current one.

use std::io;
use std::path::{Path, PathBuf};

/// One file of a container's log. Ordered as they are read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// The container's attempt.
    pub attempt: u32,
    /// Where in the attempt.
    pub part: Part,
    /// The file.
    pub path: PathBuf,
}

/// Which file of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Rotated away at this time, in a form that sorts.
    Rotated(String),
    /// Written to.
    Current,
}

fn parse(name: &str) -> Option<(u32, Part)> {
    let (attempt, rest) = name.split_once(".log")?;
    let attempt = attempt.parse().ok()?;
    match rest.strip_prefix('.') {
        // Compressed and half-written files can't be read as text.
        Some(time) if !time.is_empty() && !time.ends_with(".gz") && !time.ends_with(".tmp") => {
            Some((attempt, Part::Rotated(time.to_owned())))
        }
        None if rest.is_empty() => Some((attempt, Part::Current)),
        _ => None,
    }
}

/// All files of a container's log, in reading order. A directory that does not exist has none.
///
/// # Errors
/// The directory can't be listed.
pub fn list(directory: &Path) -> io::Result<Vec<LogFile>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Some((attempt, part)) = entry.file_name().to_str().and_then(parse) {
            files.push(LogFile { attempt, part, path: entry.path() });
        }
    }
    files.sort();
    Ok(files)
}

/// The attempt that `--previous` means: the one before the newest.
#[must_use]
pub fn previous(files: &[LogFile]) -> Option<u32> {
    let newest = files.last()?.attempt;
    files.iter().rev().map(|f| f.attempt).find(|attempt| *attempt < newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_in_reading_order_and_strangers_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let names =
            ["10.log", "2.log", "2.log.20260101-000002", "2.log.20260101-000001", "x.log", "2.log.1.gz", "2.txt"];
        for name in names {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let files = list(directory.path()).unwrap();
        let found: Vec<_> = files.iter().map(|f| f.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["2.log.20260101-000001", "2.log.20260101-000002", "2.log", "10.log"]);
        assert_eq!(previous(&files), Some(2));
        assert_eq!(previous(&files[..3]), None);
        assert!(list(&directory.path().join("none")).unwrap().is_empty());
    }
}
