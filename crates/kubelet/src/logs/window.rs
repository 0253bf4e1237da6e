//! The part of a log that was asked for: since a time, the last lines, or both.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::line::Line;

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Only lines written at this time or later.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines.
    pub tail: Option<usize>,
}

impl Window {
    /// Whether a line is young enough. A line without a time belongs to its neighbours, so it passes.
    #[must_use]
    pub fn admits(&self, line: &Line) -> bool {
        match (self.since, line.time) {
            (Some(since), Some(time)) => time >= since,
            (Some(_) | None, _) => true,
        }
    }
}

/// Collects the lines of a window in bounded memory.
#[derive(Debug)]
pub struct Collector<T> {
    window: Window,
    last: VecDeque<T>,
}

impl<T> Collector<T> {
    /// Collects for this window.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, last: VecDeque::new() }
    }

    /// Takes the next line; returns it at once where no tail is wanted, so that nothing need be kept.
    pub fn push(&mut self, line: &Line, value: T) -> Option<T> {
        if !self.window.admits(line) {
            return None;
        }
        let Some(tail) = self.window.tail else { return Some(value) };
        self.last.push_back(value);
        while self.last.len() > tail {
            self.last.pop_front();
        }
        None
    }

    /// The last lines.
    pub fn finish(self) -> impl Iterator<Item = T> {
        self.last.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::line::Stream;
    use super::*;

    fn line(second: Option<i64>) -> Line {
        Line { time: second.map(|s| Timestamp::from_second(s).unwrap()), stream: Stream::Stdout, text: b"x".to_vec() }
    }

    proptest! {
        /// The model: filter the whole log by time, then take the last lines of it.
        #[test]
        fn a_window_is_the_tail_of_what_is_young_enough(
            seconds in prop::collection::vec(prop::option::of(0_i64..20), 0..20),
            since in prop::option::of(0_i64..20),
            tail in prop::option::of(0_usize..8),
        ) {
            let window = Window { since: since.map(|s| Timestamp::from_second(s).unwrap()), tail };
            let mut collector = Collector::new(window);
            let mut found = Vec::new();
            for (i, second) in seconds.iter().enumerate() {
                found.extend(collector.push(&line(*second), i));
            }
            found.extend(collector.finish());

            let young: Vec<usize> = (0..seconds.len())
                .filter(|i| since.is_none_or(|since| seconds[*i].is_none_or(|s| s >= since)))
                .collect();
            let skip = tail.map_or(0, |tail| young.len().saturating_sub(tail));
            prop_assert_eq!(found, &young[skip..]);
        }
    }
}
