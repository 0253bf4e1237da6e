//! From processor time since the start to processor time a second: what was used since an earlier look. Pure.
//!
//! The counters are the provider's; nobody samples in the background. The first look at a container has no rate, which is said
//! by saying none.

use std::collections::HashMap;
use std::time::Duration;

use minke_core::identity::PodUid;
use tokio::time::Instant;

/// Whose time: a Pod's, one of its containers', or (without either) the node's.
pub(crate) type Consumer = Option<(PodUid, Option<String>)>;

/// Rates over less would be noise.
const SHORTEST: Duration = Duration::from_secs(1);
/// A look that old is followed by a newer one, so that rates are of now.
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    nanos: u64,
    /// What the looks before came to; told while this one is too young.
    rate: Option<u64>,
}

/// Earlier looks at what consumes.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    looks: HashMap<Consumer, Look>,
}

impl Rates {
    /// Nanoseconds of one core that are used a second, given the counter now. `None` at the first look, and when the counter has
    /// begun anew.
    pub(crate) fn look(&mut self, consumer: Consumer, nanos: u64, now: Instant) -> Option<u64> {
        let first = Look { at: now, nanos, rate: None };
        let look = self.looks.entry(consumer).or_insert(first);
        if nanos < look.nanos {
            *look = first;
            return None;
        }
        let passed = now.saturating_duration_since(look.at);
        if passed < SHORTEST {
            return look.rate;
        }
        let rate = u128::from(nanos - look.nanos) * 1_000_000_000 / passed.as_nanos().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if passed >= WINDOW {
            *look = Look { at: now, nanos, rate: Some(rate) };
        }
        Some(rate)
    }

    /// Forgets whoever was not looked at since long: they are gone.
    pub(crate) fn forget_before(&mut self, oldest: Instant) {
        self.looks.retain(|_, look| look.at >= oldest);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.looks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_what_was_used_between_two_looks() {
        let mut rates = Rates::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(rates.look(None, 7 * SECOND, at(0)), None);
        // Too soon.
        assert_eq!(rates.look(None, 8 * SECOND, at(500)), None);
        assert_eq!(rates.look(None, 9 * SECOND, at(4_000)), Some(SECOND / 2));
        assert_eq!(rates.look(None, 17 * SECOND, at(10_000)), Some(SECOND));
        // The window has moved: what was used before does not count, and what it came to is told while it is young.
        assert_eq!(rates.look(None, 17 * SECOND, at(10_500)), Some(SECOND));
        assert_eq!(rates.look(None, 17 * SECOND, at(12_000)), Some(0));
        // A counter that begins anew is another's.
        assert_eq!(rates.look(None, 3, at(20_000)), None);
        assert_eq!(rates.look(None, 3, at(22_000)), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_gone_is_forgotten() {
        let mut rates = Rates::default();
        let start = Instant::now();
        rates.look(None, 1, start);
        let pod = PodUid::new("u").unwrap();
        rates.look(Some((pod, Some("c".to_owned()))), 1, start + WINDOW);
        rates.forget_before(start + SHORTEST);
        assert_eq!(rates.len(), 1);
    }
}
