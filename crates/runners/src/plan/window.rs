//! What was wanted lately: the least and the most within a window, by the second.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// The longest window that is kept.
pub(super) const LONGEST: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    second: i64,
    low: u32,
    high: u32,
    last: u32,
}

/// The wishes of the last hour at most.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    samples: VecDeque<Sample>,
}

impl Window {
    /// So many are wanted now.
    pub fn push(&mut self, value: u32, now: Timestamp) {
        let second = now.as_second();
        match self.samples.back_mut() {
            // A clock that was set back: what was said "later" was said before.
            Some(sample) if sample.second >= second => {
                sample.low = sample.low.min(value);
                sample.high = sample.high.max(value);
                sample.last = value;
            }
            Some(sample) if sample.low == value && sample.high == value => {}
            Some(_) | None => self.samples.push_back(Sample { second, low: value, high: value, last: value }),
        }
        let oldest = (now - LONGEST).as_second();
        while self.samples.get(1).is_some_and(|next| next.second <= oldest) {
            self.samples.pop_front();
        }
    }

    /// The least that was wanted at any time within `window` before now.
    #[must_use]
    pub fn least(&self, window: SignedDuration, now: Timestamp) -> Option<u32> {
        self.within(window, now).map(|sample| sample.low).min()
    }

    /// The most.
    #[must_use]
    pub fn most(&self, window: SignedDuration, now: Timestamp) -> Option<u32> {
        self.within(window, now).map(|sample| sample.high).max()
    }

    /// When what is [least](Self::least) or [most](Self::most) may change if nothing else is wanted.
    #[must_use]
    pub fn next_change(&self, window: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let begin = now.as_second() - window.as_secs();
        // A wish holds until the next one: the first within leaves nothing behind that was not there before.
        let leaves =
            |(index, sample): &(usize, &Sample)| sample.second > begin && (*index > 0 || sample.low != sample.high);
        let (_, next) = self.samples.iter().enumerate().find(leaves)?;
        Timestamp::from_second(next.second + window.as_secs()).ok().filter(|at| *at > now)
    }

    /// The samples within; of the last one before, what it left behind.
    fn within(&self, window: SignedDuration, now: Timestamp) -> impl Iterator<Item = Sample> + '_ {
        let begin = now.as_second() - window.as_secs();
        let before = self.samples.iter().rev().find(|sample| sample.second <= begin);
        let before = before.map(|sample| Sample { low: sample.last, high: sample.last, ..*sample });
        before.into_iter().chain(self.samples.iter().filter(move |sample| sample.second > begin).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn at(seconds: i64) -> Timestamp {
        NOW + SignedDuration::from_secs(seconds)
    }

    const MINUTE: SignedDuration = SignedDuration::from_secs(60);

    #[test]
    fn a_peak_counts_for_as_long_as_the_window() {
        let mut window = Window::default();
        window.push(5, at(0));
        window.push(2, at(1));
        assert_eq!(window.most(MINUTE, at(60)), Some(5), "it was wanted until just before the first second");
        assert_eq!(window.next_change(MINUTE, at(60)), Some(at(61)));
        assert_eq!(window.most(MINUTE, at(61)), Some(2));
        assert_eq!(window.least(MINUTE, at(2)), Some(2));
    }

    #[test]
    fn nothing_was_wanted_before_the_first() {
        assert_eq!(Window::default().most(MINUTE, NOW), None);
        let mut window = Window::default();
        window.push(7, NOW);
        assert_eq!((window.least(MINUTE, NOW), window.most(MINUTE, NOW)), (Some(7), Some(7)));
    }

    proptest! {
        /// A model that keeps everything.
        #[test]
        fn it_is_what_a_full_record_says(pushes in prop::collection::vec((0_i64..90, 0_u32..9), 1..60), length in 0_i64..3600) {
            let mut window = Window::default();
            let mut all: Vec<(i64, u32)> = Vec::new();
            let mut second = 0;
            for (passed, value) in pushes {
                second += passed;
                window.push(value, at(second));
                all.push((second, value));
                let begin = second - length;
                let before = all.iter().rev().find(|(when, _)| *when <= begin);
                let seen = all.iter().filter(|(when, _)| *when > begin).chain(before).map(|(_, value)| *value);
                let length = SignedDuration::from_secs(length);
                prop_assert_eq!(window.most(length, at(second)), seen.clone().max());
                prop_assert_eq!(window.least(length, at(second)), seen.min());
            }
        }
    }
}
