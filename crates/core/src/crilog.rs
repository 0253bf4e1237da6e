//! Lines of container logs in CRI format: `<RFC 3339 time> <stdout|stderr> <tags> <text>`.
//!
//! The first tag is `F` for a line that is whole (or the last part of one) and `P` for a part that goes on in the
//! next entry of the same stream. Shared by whoever reads logs; the runtime writes them.

use jiff::Timestamp;

/// Where a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// As the log has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// When it was written.
    pub time: Timestamp,
    /// To where.
    pub stream: LogStream,
    /// The line goes on in the next entry of this stream.
    pub partial: bool,
    /// What was written, without the newline. Any bytes.
    pub text: &'a [u8],
}

/// A line that is not in CRI format; says which part is wrong and nothing of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogFormatError {
    /// There are less than three fields.
    #[error("log line has too few fields")]
    TooShort,
    /// The first field is no RFC 3339 time.
    #[error("log line does not begin with a time")]
    Time,
    /// The second field is neither `stdout` nor `stderr`.
    #[error("log line names an unknown stream")]
    Stream,
    /// The tags don't begin with `F` or `P`.
    #[error("log line has unknown tags")]
    Tag,
}

/// Reads one line, with or without its newline.
///
/// # Errors
/// The line is not in CRI format, for example because a crash cut it off.
pub fn parse_line(line: &[u8]) -> Result<LogEntry<'_>, LogFormatError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut fields = line.splitn(4, |b| *b == b' ');
    let mut field = || fields.next().ok_or(LogFormatError::TooShort);
    let (time, stream, tags) = (field()?, field()?, field()?);
    let text = fields.next().unwrap_or_default();
    let time = std::str::from_utf8(time).ok().and_then(|t| t.parse::<Timestamp>().ok()).ok_or(LogFormatError::Time)?;
    let stream = match stream {
        b"stdout" => LogStream::Stdout,
        b"stderr" => LogStream::Stderr,
        _ => return Err(LogFormatError::Stream),
    };
    let partial = match tags.split(|b| *b == b':').next() {
        Some(b"F") => false,
        Some(b"P") => true,
        Some(_) | None => return Err(LogFormatError::Tag),
    };
    Ok(LogEntry { time, stream, partial, text })
}

/// Writes one entry, newline included. `text` holds no newline.
pub fn write_entry(out: &mut Vec<u8>, entry: &LogEntry<'_>) {
    // Always nine digits: lines then sort, and readers may rely on the width.
    out.extend_from_slice(format!("{:.9} {} ", entry.time, entry.stream.as_str()).as_bytes());
    out.extend_from_slice(if entry.partial { b"P " } else { b"F " });
    out.extend_from_slice(entry.text);
    out.push(b'\n');
}

/// Puts the parts of lines together, for each stream by itself.
#[derive(Debug, Default)]
pub struct LineAssembler {
    stdout: Option<(Timestamp, Vec<u8>)>,
    stderr: Option<(Timestamp, Vec<u8>)>,
}

/// A whole line of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeLine {
    /// When its first part was written.
    pub time: Timestamp,
    /// To where.
    pub stream: LogStream,
    /// What was written, without the newline.
    pub text: Vec<u8>,
}

/// A line that never ends is handed out in pieces of about this many bytes, so that it can't fill the memory.
pub const MAX_ASSEMBLED: usize = 1 << 20;

impl LineAssembler {
    /// Takes an entry; gives the line that it completes.
    pub fn push(&mut self, entry: &LogEntry<'_>) -> Option<WholeLine> {
        let slot = match entry.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        let (time, mut text) = slot.take().unwrap_or((entry.time, Vec::new()));
        text.extend_from_slice(entry.text);
        if entry.partial && text.len() < MAX_ASSEMBLED {
            *slot = Some((time, text));
            return None;
        }
        Some(WholeLine { time, stream: entry.stream, text })
    }

    /// What was begun and never finished, as at the end of a log.
    pub fn finish(&mut self) -> Vec<WholeLine> {
        let line =
            |stream, part: Option<(Timestamp, Vec<u8>)>| part.map(|(time, text)| WholeLine { time, stream, text });
        let both = [line(LogStream::Stdout, self.stdout.take()), line(LogStream::Stderr, self.stderr.take())];
        both.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time() -> Timestamp {
        "2026-11-21T04:03:55.123456789Z".parse().unwrap()
    }

    #[test]
    fn a_line_of_each_kind() {
        let line = b"2026-11-21T04:03:55.123456789Z stdout F hello  world\n";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry, LogEntry { time: time(), stream: LogStream::Stdout, partial: false, text: b"hello  world" });
        let entry = parse_line(b"2026-11-21T05:03:55.123456789+01:00 stderr P:x half").unwrap();
        assert_eq!(entry, LogEntry { time: time(), stream: LogStream::Stderr, partial: true, text: b"half" });
        assert_eq!(parse_line(b"2026-11-21T04:03:55Z stdout F").unwrap().text, b"");
        assert_eq!(parse_line(b"2026-11-21T04:03:55Z stdout F ").unwrap().text, b"");
    }

    #[test]
    fn what_is_no_line() {
        assert_eq!(parse_line(b""), Err(LogFormatError::TooShort));
        assert_eq!(parse_line(b"2026-11-21T04:03:55Z stdout"), Err(LogFormatError::TooShort));
        assert_eq!(parse_line(b"yesterday stdout F x"), Err(LogFormatError::Time));
        assert_eq!(parse_line(b"2026-11-21T04:03:55Z stdin F x"), Err(LogFormatError::Stream));
        assert_eq!(parse_line(b"2026-11-21T04:03:55Z stdout X x"), Err(LogFormatError::Tag));
    }

    #[test]
    fn parts_are_put_together_for_each_stream() {
        let entry = |stream, partial, text| LogEntry { time: time(), stream, partial, text };
        let mut lines = LineAssembler::default();
        assert_eq!(lines.push(&entry(LogStream::Stdout, true, b"a")), None);
        assert_eq!(lines.push(&entry(LogStream::Stderr, false, b"e")).unwrap().text, b"e");
        assert_eq!(lines.push(&entry(LogStream::Stdout, false, b"b")).unwrap().text, b"ab");
        assert_eq!(lines.push(&entry(LogStream::Stderr, true, b"rest")), None);
        assert_eq!(lines.finish().len(), 1);
        assert_eq!(lines.finish(), []);
    }

    #[test]
    fn a_line_without_an_end_is_handed_out_in_pieces() {
        let part = vec![b'x'; 16 << 10];
        let mut lines = LineAssembler::default();
        let entry = LogEntry { time: time(), stream: LogStream::Stdout, partial: true, text: &part };
        let whole: Vec<_> = (0..128).filter_map(|_| lines.push(&entry)).collect();
        assert!(whole.len() == 2 && whole.iter().all(|line| line.text.len() == MAX_ASSEMBLED));
    }

    proptest! {
        #[test]
        fn written_and_read_again_is_the_same(
            nanos in 0_i64..i64::MAX, stderr: bool, partial: bool, text in prop::collection::vec(any::<u8>().prop_filter("newline", |b| *b != b'\n'), 0..50),
        ) {
            let stream = if stderr { LogStream::Stderr } else { LogStream::Stdout };
            let entry = LogEntry { time: Timestamp::from_nanosecond(i128::from(nanos)).unwrap(), stream, partial, text: &text };
            let mut line = Vec::new();
            write_entry(&mut line, &entry);
            prop_assert_eq!(parse_line(&line), Ok(entry));
        }

        #[test]
        fn arbitrary_bytes_never_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_line(&line);
        }
    }
}
