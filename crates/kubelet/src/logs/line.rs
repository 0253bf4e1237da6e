//! Lines of the CRI log format, `<RFC 3339 time> <stdout|stderr> <P|F> <text>`, put together from their parts.

use jiff::Timestamp;

/// The stream that a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One whole line as the container wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When its first part was written; `None` for a line that is not in the format.
    pub time: Option<Timestamp>,
    /// Where to.
    pub stream: Stream,
    /// Without its line end; any bytes.
    pub text: Vec<u8>,
}

/// The record of one physical line.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    time: Timestamp,
    stream: Stream,
    partial: bool,
    text: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Record<'_>> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let stream = match parts.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    // The tag is a list separated by colons; only its first word is defined.
    let partial = match parts.next()?.split(|b| *b == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    Some(Record { time, stream, partial, text: parts.next().unwrap_or_default() })
}

/// Puts whole lines together from the bytes of a log. The two streams may interleave their parts.
#[derive(Debug, Default)]
pub struct Assembler {
    physical: Vec<u8>,
    open: [Option<Line>; 2],
}

/// A line without end would otherwise grow without bound; it is cut at this many bytes.
const LONGEST_LINE: usize = 1 << 20;

impl Assembler {
    /// Takes bytes as they were read; hands each line that is whole to `emit`.
    pub fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(Line)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.physical.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let physical = std::mem::take(&mut self.physical);
            self.record(&physical, emit);
        }
        self.physical.extend_from_slice(bytes);
        if self.physical.len() > 2 * LONGEST_LINE {
            let physical = std::mem::take(&mut self.physical);
            self.record(&physical, emit);
        }
    }

    fn record(&mut self, physical: &[u8], emit: &mut dyn FnMut(Line)) {
        let Some(record) = parse(physical) else {
            // Not ours: somebody else's file, or a torn line. Showing it as it is hides nothing.
            if !physical.is_empty() {
                emit(Line { time: None, stream: Stream::Stdout, text: physical.to_vec() });
            }
            return;
        };
        let slot = &mut self.open[record.stream as usize];
        let line =
            slot.get_or_insert_with(|| Line { time: Some(record.time), stream: record.stream, text: Vec::new() });
        line.text.extend_from_slice(record.text);
        if (!record.partial || line.text.len() >= LONGEST_LINE)
            && let Some(line) = slot.take()
        {
            emit(line);
        }
    }

    /// Hands over what has no end: the container ended in the middle of a line.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Line)) {
        let physical = std::mem::take(&mut self.physical);
        if !physical.is_empty() {
            self.record(&physical, emit);
        }
        self.open.iter_mut().filter_map(Option::take).for_each(emit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<(String, Stream)> {
        let mut assembler = Assembler::default();
        let mut out = Vec::new();
        let mut emit = |line: Line| out.push((String::from_utf8_lossy(&line.text).into_owned(), line.stream));
        for chunk in chunks {
            assembler.push(chunk, &mut emit);
        }
        assembler.finish(&mut emit);
        out
    }

    #[test]
    fn parts_of_the_two_streams_are_put_together_each_for_itself() {
        let log = b"2026-01-01T00:00:00.1Z stdout P he\n2026-01-01T00:00:00.2Z stderr F no\n\
                    2026-01-01T00:00:00.3Z stdout F llo\n2026-01-01T00:00:00.4Z stdout F \n\
                    2026-01-01T00:00:00.5Z stdout F  two  blanks \n";
        let expected = [
            ("no".to_owned(), Stream::Stderr),
            ("hello".to_owned(), Stream::Stdout),
            (String::new(), Stream::Stdout),
            (" two  blanks ".to_owned(), Stream::Stdout),
        ];
        assert_eq!(lines(&[log]), expected);
    }

    #[test]
    fn the_time_is_that_of_the_first_part() {
        let mut times = Vec::new();
        let log = b"2026-01-01T00:00:00.1Z stdout P a\n2026-01-01T00:00:09Z stdout F b\n";
        Assembler::default().push(log, &mut |line| times.push(line.time.unwrap().to_string()));
        assert_eq!(times, ["2026-01-01T00:00:00.1Z"]);
    }

    #[test]
    fn a_line_in_no_known_format_is_shown_as_it_is() {
        assert_eq!(lines(&[b"hello\n"]), [("hello".to_owned(), Stream::Stdout)]);
        assert_eq!(lines(&[b"2026-01-01T00:00:00Z stdlog F x\n"])[0].0, "2026-01-01T00:00:00Z stdlog F x");
    }

    #[test]
    fn a_line_without_end_comes_out_when_the_container_has_ended() {
        assert_eq!(lines(&[b"2026-01-01T00:00:00Z stdout P abc\n"]), [("abc".to_owned(), Stream::Stdout)]);
        assert_eq!(lines(&[b"2026-01-01T00:00:00Z stdout F ab"]), [("ab".to_owned(), Stream::Stdout)]);
    }

    proptest! {
        /// However the file's bytes are cut into reads, the lines are the same.
        #[test]
        fn reads_may_be_cut_anywhere(
            texts in prop::collection::vec(("[a-z ]{0,9}", any::<bool>(), any::<bool>()), 0..12),
            cut in 1_usize..7,
        ) {
            let mut log = String::new();
            for (text, stdout, partial) in &texts {
                let stream = if *stdout { "stdout" } else { "stderr" };
                let tag = if *partial { "P" } else { "F" };
                log.push_str(&format!("2026-01-01T00:00:00.123456789Z {stream} {tag} {text}\n"));
            }
            let chunks: Vec<&[u8]> = log.as_bytes().chunks(cut).collect();
            prop_assert_eq!(lines(&chunks), lines(&[log.as_bytes()]));
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            lines(&[&bytes]);
        }
    }
}
