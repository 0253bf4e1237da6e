//! Bounded memory of one Pod's transitions: how it began stays, the newest stay, what is between goes and is counted.

use std::collections::VecDeque;

use super::Entry;

/// The first transitions of a Pod: how it started is asked for most.
const HEAD: usize = 48;
/// The newest ones.
const TAIL: usize = 208;

/// At most [`HEAD`] + [`TAIL`] entries.
#[derive(Debug, Default)]
pub(super) struct Ring {
    head: Vec<Entry>,
    tail: VecDeque<Entry>,
    dropped: u64,
}

impl Ring {
    pub(super) fn push(&mut self, entry: Entry) {
        if self.head.len() < HEAD {
            self.head.push(entry);
            return;
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
            self.dropped += 1;
        }
        self.tail.push_back(entry);
    }

    /// The newest entry of this lane.
    pub(super) fn last(&self, container: Option<&str>) -> Option<&Entry> {
        self.iter().rev().find(|e| e.container.as_deref() == container)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.head.iter().chain(&self.tail)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transition;
    use super::*;

    #[test]
    fn the_beginning_and_the_newest_stay_and_the_rest_is_counted() {
        let mut ring = Ring::default();
        let all = i64::try_from(HEAD + TAIL).unwrap() + 7;
        for at in 0..all {
            ring.push(Entry { at, container: None, attempt: 0, transition: Transition::Ready });
        }
        let kept: Vec<i64> = ring.iter().map(|e| e.at).collect();
        assert_eq!(kept.len(), HEAD + TAIL);
        assert_eq!(ring.dropped(), 7);
        let head = i64::try_from(HEAD).unwrap();
        assert_eq!(&kept[..HEAD], (0..head).collect::<Vec<_>>());
        assert_eq!(&kept[HEAD..], (head + 7..all).collect::<Vec<_>>());
    }
}
