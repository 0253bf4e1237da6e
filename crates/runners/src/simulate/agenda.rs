//! What is still to happen, in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use jiff::Timestamp;

/// A queue of happenings: the earliest first, and of one moment in the order in which they were put down.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Item<T>>>,
    /// So many were put down.
    number: u64,
}

#[derive(Debug)]
struct Item<T> {
    when: (Timestamp, u64),
    what: T,
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when
    }
}

impl<T> Eq for Item<T> {}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.when.cmp(&other.when)
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), number: 0 }
    }
}

impl<T> Agenda<T> {
    /// Puts something down.
    pub fn put(&mut self, when: Timestamp, what: T) {
        self.number += 1;
        self.heap.push(Reverse(Item { when: (when, self.number), what }));
    }

    /// The number of what was put down last: they are counted from 1.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.number
    }

    /// When the next happens.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse(item)| item.when.0)
    }

    /// The next, if it is due by then.
    pub fn take(&mut self, until: Timestamp) -> Option<(Timestamp, T)> {
        self.next().filter(|when| *when <= until)?;
        self.heap.pop().map(|Reverse(item)| (item.when.0, item.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_one_moment_the_one_put_down_first() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut agenda = Agenda::default();
        for (when, what) in [(2, "c"), (1, "a"), (1, "b"), (3, "d")] {
            agenda.put(at(when), what);
        }
        assert_eq!((agenda.next(), agenda.last_number()), (Some(at(1)), 4));
        assert_eq!(agenda.take(at(0)), None);
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take(at(2))).map(|(_, what)| what).collect();
        assert_eq!(taken, ["a", "b", "c"]);
        assert_eq!(agenda.next(), Some(at(3)));
    }
}
