//! Reads one container's log from file to file: over rotation and over restarts, without losing or repeating a line.
//!
//! The open file is known by its device and inode, which rotation does not change. When it is read to its end and
//! is no longer the last one, the reader goes on with the file after it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::{self, LogFile};
use super::line::{Assembler, Line};

/// Which attempts to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// This one and all after it.
    From(u32),
    /// Only this one.
    Only(u32),
}

impl Attempts {
    fn include(self, attempt: u32) -> bool {
        match self {
            Self::From(first) => attempt >= first,
            Self::Only(only) => attempt == only,
        }
    }
}

/// A reader of one container's log.
#[derive(Debug)]
pub struct Reader {
    directory: PathBuf,
    attempts: Attempts,
    open: Option<Open>,
    assembler: Assembler,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Device and inode.
    id: (u64, u64),
    at: LogFile,
}

impl Reader {
    /// A reader of these attempts in this directory, which need not exist yet.
    #[must_use]
    pub fn new(directory: &Path, attempts: Attempts) -> Self {
        Self { directory: directory.to_owned(), attempts, open: None, assembler: Assembler::default() }
    }

    /// Where the log lies.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads all there is now.
    ///
    /// # Errors
    /// A file or the directory can't be read.
    pub fn read(&mut self, emit: &mut dyn FnMut(Line)) -> io::Result<()> {
        while self.read_piece(emit)? {}
        Ok(())
    }

    /// Reads a piece, some tens of KiB at most; returns whether there may be more now.
    ///
    /// # Errors
    /// A file or the directory can't be read.
    pub fn read_piece(&mut self, emit: &mut dyn FnMut(Line)) -> io::Result<bool> {
        if self.read_open(emit)? {
            return Ok(true);
        }
        let Some(next) = self.next_file()? else { return Ok(false) };
        // What the old file got between its last read and its rotation.
        while self.read_open(emit)? {}
        let other_attempt = self.open.as_ref().is_some_and(|open| open.at.attempt != next.attempt);
        if other_attempt {
            self.assembler.finish(emit);
        }
        let file = match File::open(&next.path) {
            Ok(file) => file,
            // Rotated or removed since it was listed: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        self.open = Some(Open { file, id: (meta.dev(), meta.ino()), at: next });
        Ok(true)
    }

    /// Hands over an unfinished line: nothing will be written any more.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Line)) {
        self.assembler.finish(emit);
    }

    /// Reads a piece of the open file; `false`: it was at its end.
    fn read_open(&mut self, emit: &mut dyn FnMut(Line)) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        // A file that became shorter was emptied by somebody; what is in it now is new.
        if open.file.metadata()?.len() < open.file.stream_position()? {
            open.file.seek(SeekFrom::Start(0))?;
        }
        let mut buffer = vec![0; 64 << 10];
        loop {
            match open.file.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.assembler.push(&buffer[..n], emit);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file after the open one, or the first.
    fn next_file(&self) -> io::Result<Option<LogFile>> {
        let files = files::list(&self.directory)?;
        let mut wanted = files.into_iter().filter(|f| self.attempts.include(f.attempt));
        let Some(open) = &self.open else { return Ok(wanted.next()) };
        let wanted: Vec<LogFile> = wanted.collect();
        let here = wanted
            .iter()
            .position(|f| std::fs::metadata(&f.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == open.id));
        Ok(match here {
            Some(here) => wanted.into_iter().nth(here + 1),
            // The open file was removed. What is older than it was read or is gone as well.
            None => wanted.into_iter().find(|f| *f >= open.at),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    struct Log(tempfile::TempDir);

    impl Log {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            let mut file = File::options().create(true).append(true).open(path).unwrap();
            writeln!(file, "2026-01-01T00:00:00Z stdout F {text}").unwrap();
        }

        fn rename(&self, from: &str, to: &str) {
            std::fs::rename(self.0.path().join(from), self.0.path().join(to)).unwrap();
        }

        fn reader(&self, attempts: Attempts) -> Reader {
            Reader::new(self.0.path(), attempts)
        }
    }

    fn read(reader: &mut Reader) -> Vec<String> {
        let mut lines = Vec::new();
        reader.read(&mut |line| lines.push(String::from_utf8(line.text).unwrap())).unwrap();
        lines
    }

    #[test]
    fn it_reads_on_where_it_was() {
        let log = Log::new();
        let mut reader = log.reader(Attempts::From(0));
        assert!(read(&mut reader).is_empty());
        log.write("0.log", "one");
        assert_eq!(read(&mut reader), ["one"]);
        assert!(read(&mut reader).is_empty());
        log.write("0.log", "two");
        assert_eq!(read(&mut reader), ["two"]);
    }

    #[test]
    fn rotation_loses_nothing_and_repeats_nothing() {
        let log = Log::new();
        let mut reader = log.reader(Attempts::From(0));
        log.write("0.log", "one");
        assert_eq!(read(&mut reader), ["one"]);
        log.write("0.log", "two");
        log.rename("0.log", "0.log.20260101-000001");
        log.write("0.log", "three");
        log.rename("0.log", "0.log.20260101-000002");
        log.write("0.log", "four");
        assert_eq!(read(&mut reader), ["two", "three", "four"]);
        assert!(read(&mut reader).is_empty());
    }

    #[test]
    fn a_restart_goes_on_with_the_next_attempt_unless_only_one_is_wanted() {
        let log = Log::new();
        log.write("0.log", "one");
        log.write("1.log", "two");
        assert_eq!(read(&mut log.reader(Attempts::From(0))), ["one", "two"]);
        assert_eq!(read(&mut log.reader(Attempts::From(1))), ["two"]);
        assert_eq!(read(&mut log.reader(Attempts::Only(0))), ["one"]);
    }

    #[test]
    fn a_file_that_is_removed_while_open_does_not_stop_it() {
        let log = Log::new();
        let mut reader = log.reader(Attempts::From(0));
        log.write("0.log", "one");
        assert_eq!(read(&mut reader), ["one"]);
        std::fs::remove_file(log.0.path().join("0.log")).unwrap();
        log.write("1.log", "two");
        assert_eq!(read(&mut reader), ["two"]);
    }

    #[test]
    fn a_file_that_was_emptied_is_read_from_its_beginning() {
        let log = Log::new();
        let mut reader = log.reader(Attempts::From(0));
        log.write("0.log", "a long first line");
        assert_eq!(read(&mut reader).len(), 1);
        File::options().write(true).open(log.0.path().join("0.log")).unwrap().set_len(0).unwrap();
        log.write("0.log", "two");
        assert_eq!(read(&mut reader), ["two"]);
    }
}
