//! The writes of runners' states, in order: one at a time a slot, the newest only, until it is written. Pure.
//!
//! ```text
//! submit ─► in flight ──ok──► the next, if there is one
//!               │
//!               └─ failed ─► the newest again, after a wait
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::Slot;
use crate::life::Record;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// A state that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Whose.
    pub slot: Slot,
    /// On this Pod.
    pub uid: String,
    /// What.
    pub record: Record,
    /// Not before this has passed.
    pub after: Duration,
}

#[derive(Debug)]
struct Pending {
    current: Write,
    next: Option<(String, Record)>,
    failures: u32,
}

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Writes(BTreeMap<Slot, Pending>);

impl Writes {
    /// Something is to be written. `None`: it waits for what is in flight.
    pub(super) fn submit(&mut self, slot: Slot, uid: String, record: Record) -> Option<Write> {
        if let Some(pending) = self.0.get_mut(&slot) {
            pending.next = Some((uid, record));
            return None;
        }
        let write = Write { slot, uid, record, after: Duration::ZERO };
        self.0.insert(slot, Pending { current: write.clone(), next: None, failures: 0 });
        Some(write)
    }

    /// How the write of this slot went: `again` if it is worth another try. What is to be written now, if anything.
    pub(super) fn finished(&mut self, slot: Slot, again: bool) -> Option<Write> {
        let mut pending = self.0.remove(&slot)?;
        let failures = if again { pending.failures.saturating_add(1) } else { 0 };
        let (uid, record) = match pending.next.take() {
            Some(next) => next,
            None if again => (pending.current.uid, pending.current.record),
            None => return None,
        };
        let after = if again { (FIRST * (1 << failures.min(7))).min(LONGEST) } else { Duration::ZERO };
        let write = Write { slot, uid, record, after };
        self.0.insert(slot, Pending { current: write.clone(), next: None, failures });
        Some(write)
    }

    /// The Pod of this slot is gone: nothing is tried again.
    pub(super) fn gone(&mut self, slot: Slot, uid: &str) {
        if let Some(pending) = self.0.get_mut(&slot)
            && pending.next.as_ref().is_some_and(|(next, _)| next == uid)
        {
            pending.next = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RunnerId;
    use crate::life::{Life, Runner};
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn record(id: u64) -> Record {
        let requested = Runner::requested(Slot(0), "t".to_owned(), Timestamp::UNIX_EPOCH);
        Record::of(&Runner { life: Life::Idle { id: RunnerId(id) }, ..requested }).unwrap()
    }

    #[test]
    fn one_at_a_time_and_the_newest_only() {
        let mut writes = Writes::default();
        let submit = |writes: &mut Writes, id| writes.submit(Slot(0), "u".to_owned(), record(id));
        assert_eq!(submit(&mut writes, 1).unwrap().record, record(1));
        assert_eq!(submit(&mut writes, 2), None);
        assert_eq!(submit(&mut writes, 3), None);
        let next = writes.finished(Slot(0), false).unwrap();
        assert_eq!((next.record, next.after), (record(3), Duration::ZERO), "the second is old news");
        let again = writes.finished(Slot(0), true).unwrap();
        assert_eq!((again.record, again.after), (record(3), FIRST * 2));
        assert_eq!(writes.finished(Slot(0), true).unwrap().after, FIRST * 4);
        assert_eq!(writes.finished(Slot(0), false), None);
        assert!(submit(&mut writes, 4).is_some());
    }

    proptest! {
        /// Whatever fails: what was submitted last is what is written in the end, and no two are in flight.
        #[test]
        fn the_last_word_is_written(steps in prop::collection::vec((any::<bool>(), any::<bool>()), 1..60)) {
            let mut writes = Writes::default();
            let (mut in_flight, mut written, mut number) = (None::<Write>, None, 0);
            for (submits, again) in steps {
                if submits {
                    number += 1;
                    if let Some(write) = writes.submit(Slot(0), "u".to_owned(), record(number)) {
                        prop_assert!(in_flight.is_none(), "two in flight");
                        in_flight = Some(write);
                    }
                } else if let Some(write) = in_flight.take() {
                    if !again {
                        written = Some(write.record);
                    }
                    in_flight = writes.finished(Slot(0), again);
                }
            }
            while let Some(write) = in_flight.take() {
                written = Some(write.record);
                in_flight = writes.finished(Slot(0), false);
            }
            prop_assert_eq!(written, (number > 0).then(|| record(number)));
        }
    }
}
