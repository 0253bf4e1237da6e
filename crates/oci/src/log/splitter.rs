//! Cuts one output of a container into records.

use jiff::Timestamp;

use super::format::{Stream, push_timestamp};

/// Longest text of one record, in bytes; a longer line becomes several records, all but the last tagged `P`.
pub(crate) const MAX_LINE: usize = 16 * 1024;

/// Cuts bytes into records. Holds the beginning of a line until its end comes.
#[derive(Debug)]
pub(crate) struct Splitter {
    stream: Stream,
    pending: Vec<u8>,
}

impl Splitter {
    /// A splitter for one output.
    #[must_use]
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// Takes bytes and appends the records that they complete to `out`, stamped with `now`. Returns their number.
    pub(crate) fn push(&mut self, mut bytes: &[u8], now: Timestamp, out: &mut Vec<u8>) -> u64 {
        let mut records = 0;
        while !bytes.is_empty() {
            let room = MAX_LINE - self.pending.len();
            let window = &bytes[..bytes.len().min(room + 1)];
            if let Some(end) = window.iter().position(|b| *b == b'\n') {
                self.record(&bytes[..end], b"F", now, out);
                bytes = &bytes[end + 1..];
                records += 1;
            } else if bytes.len() > room {
                self.record(&bytes[..room], b"P", now, out);
                bytes = &bytes[room..];
                records += 1;
            } else {
                self.pending.extend_from_slice(bytes);
                bytes = &[];
            }
        }
        if self.pending.is_empty() {
            // An idle container shall not hold memory for its longest line.
            self.pending = Vec::new();
        }
        records
    }

    /// The output ended: what is pending becomes a record of its own. It is a whole one, where containerd writes a part:
    /// nobody is to wait for the rest.
    pub(crate) fn finish(&mut self, now: Timestamp, out: &mut Vec<u8>) -> u64 {
        if self.pending.is_empty() {
            return 0;
        }
        self.record(&[], b"F", now, out);
        self.pending = Vec::new();
        1
    }

    fn record(&mut self, rest: &[u8], tag: &[u8], now: Timestamp, out: &mut Vec<u8>) {
        push_timestamp(out, now);
        out.push(b' ');
        out.extend_from_slice(self.stream.name());
        out.push(b' ');
        out.extend_from_slice(tag);
        out.push(b' ');
        out.extend_from_slice(&self.pending);
        out.extend_from_slice(rest);
        out.push(b'\n');
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PREFIX: usize = "1970-01-01T00:00:00.000000000Z stdout F ".len();

    /// The records of these chunks as (tag, text).
    fn records(chunks: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
        let mut splitter = Splitter::new(Stream::Stdout);
        let mut out = Vec::new();
        let mut count = 0;
        for chunk in chunks {
            count += splitter.push(chunk, Timestamp::UNIX_EPOCH, &mut out);
        }
        count += splitter.finish(Timestamp::UNIX_EPOCH, &mut out);
        let records: Vec<_> = out
            .split_inclusive(|b| *b == b'\n')
            .map(|line| (line[PREFIX - 2], line[PREFIX..line.len() - 1].to_vec()))
            .collect();
        assert_eq!(records.len() as u64, count);
        records
    }

    /// The same by a slow and plain rule.
    fn model(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut records = Vec::new();
        let mut line = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                records.push((b'F', std::mem::take(&mut line)));
            } else {
                if line.len() == MAX_LINE {
                    records.push((b'P', std::mem::take(&mut line)));
                }
                line.push(*byte);
            }
        }
        if !line.is_empty() {
            records.push((b'F', line));
        }
        records
    }

    #[test]
    fn lines_partial_lines_and_a_last_line_without_end() {
        assert_eq!(
            records(&[b"one\ntw", b"o\n", b"\nthree"]),
            [(b'F', b"one".to_vec()), (b'F', b"two".to_vec()), (b'F', vec![]), (b'F', b"three".to_vec())]
        );
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_one_full_record() {
        let mut line = vec![b'x'; MAX_LINE];
        line.push(b'\n');
        let found = records(&[&line]);
        assert_eq!((found.len(), found[0].0, found[0].1.len()), (1, b'F', MAX_LINE));
        let long = [vec![b'x'; MAX_LINE], b"y\n".to_vec()].concat();
        let tags: Vec<u8> = records(&[&long]).iter().map(|r| r.0).collect();
        assert_eq!(tags, [b'P', b'F']);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_chunking_gives_the_models_records(
            lines in proptest::collection::vec((0_usize..40_000, any::<bool>()), 0..6),
            cuts in proptest::collection::vec(1_usize..20_000, 1..12),
        ) {
            let mut bytes = Vec::new();
            for (length, end) in &lines {
                bytes.extend(std::iter::repeat_n(b'a', *length));
                if *end { bytes.push(b'\n'); }
            }
            let mut chunks = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = tail;
            }
            prop_assert_eq!(records(&chunks), model(&bytes));
        }
    }
}
