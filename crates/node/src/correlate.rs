//! Which events are told anew, counted, or dropped, so that a Pod that fails every second does not fill the API. Pure.
//!
//! Upstream source: client-go's `tools/record/events_cache.go` (`EventCorrelator`), with its numbers:
//!
//! 1. Ten that differ in their message alone within ten minutes: the further ones are one event, `(combined from similar events)`.
//! 2. The same again is counted.
//! 3. About one object a source tells 25 at once, and one more every five minutes; what is beyond is counted and not told.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};

/// About how many things something is remembered; then all of it is forgotten, and begins anew.
const REMEMBERED: usize = 4096;
/// So many different messages, and the next is combined.
const SIMILAR: usize = 10;
/// Messages this far apart are not similar.
const INTERVAL: SignedDuration = SignedDuration::from_secs(600);
/// Most at once about one object.
const BURST: f64 = 25.0;
/// Until one more.
const REFILL_SECONDS: f64 = 300.0;
const COMBINED: &str = "(combined from similar events): ";

/// What an event is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Who tells.
    pub source: &'static str,
    /// The uid of the Pod.
    pub object: String,
    /// The container of it that the event is about; empty for the Pod.
    pub part: String,
    /// Upstream's reason.
    pub reason: String,
    /// Something is wrong.
    pub warning: bool,
}

/// What to do with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Create it, and say by [`Correlator::told`] under which name.
    New(Known),
    /// Count it once more on the event of this name.
    Again {
        /// The event's name.
        name: String,
        /// How often it came, with this time.
        count: i32,
        /// What it says now.
        message: String,
    },
    /// Nobody is told.
    Dropped,
}

/// An event as the correlator knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Known {
    subject: Subject,
    /// `None`: all similar ones together.
    own: Option<String>,
    /// What it says.
    pub message: String,
}

impl Known {
    /// An event that was known and is not there any more: `own` is what it is about, `message` what it says.
    pub fn again(subject: Subject, own: &str, message: String) -> Self {
        let own = (message == own).then(|| own.to_owned());
        Self { subject, own, message }
    }
}

#[derive(Debug)]
struct Similar {
    messages: HashSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Timestamp,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Correlator {
    similar: HashMap<Subject, Similar>,
    told: HashMap<(Subject, Option<String>), (String, i32)>,
    allowances: HashMap<(&'static str, String), Allowance>,
}

/// The place of a key in a map that stays bounded.
fn entry<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>, key: K, new: impl FnOnce() -> V) -> &mut V {
    if map.len() >= REMEMBERED && !map.contains_key(&key) {
        map.clear();
    }
    map.entry(key).or_insert_with(new)
}

impl Correlator {
    /// What to do with this event.
    pub fn judge(&mut self, subject: Subject, message: &str, now: Timestamp) -> Verdict {
        let similar = entry(&mut self.similar, subject.clone(), || Similar { messages: HashSet::new(), last: now });
        if now.duration_since(similar.last) > INTERVAL {
            similar.messages.clear();
        }
        similar.last = now;
        let combined = similar.messages.len() >= SIMILAR && !similar.messages.contains(message);
        if !combined {
            similar.messages.insert(message.to_owned());
        }
        let known = Known {
            own: (!combined).then(|| message.to_owned()),
            message: if combined { format!("{COMBINED}{message}") } else { message.to_owned() },
            subject,
        };
        let allowed = self.allowed(&known.subject, now);
        let told = self.told.get_mut(&(known.subject.clone(), known.own.clone())).map(|(name, count)| {
            // Also if nobody is told this time: the next one that is told says how often it really came.
            *count = count.saturating_add(1);
            (name.clone(), *count)
        });
        match told {
            _ if !allowed => Verdict::Dropped,
            Some((name, count)) => Verdict::Again { name, count, message: known.message },
            None => Verdict::New(known),
        }
    }

    /// The event was created under this name.
    pub fn told(&mut self, known: Known, name: String) {
        *entry(&mut self.told, (known.subject, known.own), || (String::new(), 1)) = (name, 1);
    }

    fn allowed(&mut self, subject: &Subject, now: Timestamp) -> bool {
        let key = (subject.source, subject.object.clone());
        let allowance = entry(&mut self.allowances, key, || Allowance { left: BURST, at: now });
        let passed = now.duration_since(allowance.at).as_secs_f64().max(0.0);
        allowance.left = (allowance.left + passed / REFILL_SECONDS).min(BURST);
        allowance.at = now;
        let allowed = allowance.left >= 1.0;
        if allowed {
            allowance.left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subject(object: &str, reason: &str) -> Subject {
        let (object, reason) = (object.to_owned(), reason.to_owned());
        Subject { source: "kubelet", object, part: String::new(), reason, warning: true }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn tell(correlator: &mut Correlator, object: &str, message: &str, seconds: i64) -> Verdict {
        let verdict = correlator.judge(subject(object, "Failed"), message, at(seconds));
        if let Verdict::New(known) = &verdict {
            correlator.told(known.clone(), format!("{object}.{message}"));
        }
        verdict
    }

    #[test]
    fn the_same_again_is_counted() {
        let mut correlator = Correlator::default();
        assert!(matches!(tell(&mut correlator, "a", "m", 0), Verdict::New(_)));
        for count in 2..5 {
            let again = Verdict::Again { name: "a.m".to_owned(), count, message: "m".to_owned() };
            assert_eq!(tell(&mut correlator, "a", "m", i64::from(count)), again);
        }
        assert!(matches!(tell(&mut correlator, "b", "m", 9), Verdict::New(_)), "another Pod");
    }

    #[test]
    fn the_eleventh_similar_one_is_combined_until_ten_minutes_pass() {
        let mut correlator = Correlator::default();
        for n in 0..10 {
            assert!(matches!(tell(&mut correlator, "a", &format!("m{n}"), n), Verdict::New(_)));
        }
        let Verdict::New(combined) = tell(&mut correlator, "a", "m10", 10) else { panic!() };
        assert_eq!(combined.message, "(combined from similar events): m10");
        let Verdict::Again { name, count: 2, message } = tell(&mut correlator, "a", "m11", 11) else { panic!() };
        assert_eq!((name.as_str(), message.as_str()), ("a.m10", "(combined from similar events): m11"));
        assert!(matches!(tell(&mut correlator, "a", "m3", 12), Verdict::Again { count: 2, .. }), "one of the ten");
        let Verdict::New(fresh) = tell(&mut correlator, "a", "m12", 12 + 601) else { panic!() };
        assert_eq!(fresh.message, "m12");
    }

    #[test]
    fn one_object_gets_twenty_five_at_once_and_one_every_five_minutes() {
        let mut correlator = Correlator::default();
        let told = (0..100).filter(|_| tell(&mut correlator, "a", "m", 0) != Verdict::Dropped).count();
        assert_eq!(told, 25);
        assert_eq!(tell(&mut correlator, "a", "m", 299), Verdict::Dropped);
        assert_ne!(tell(&mut correlator, "a", "m", 301), Verdict::Dropped);
        assert_eq!(tell(&mut correlator, "a", "m", 302), Verdict::Dropped);
        assert_ne!(tell(&mut correlator, "b", "m", 302), Verdict::Dropped, "another Pod has its own");
    }

    #[test]
    fn what_is_not_told_is_counted() {
        let mut correlator = Correlator::default();
        let dropped = (0..100).filter(|_| tell(&mut correlator, "a", "m", 0) == Verdict::Dropped).count();
        assert_eq!(dropped, 75);
        assert!(matches!(tell(&mut correlator, "a", "m", 301), Verdict::Again { count: 101, .. }));
    }

    proptest! {
        #[test]
        fn an_object_never_gets_more_than_its_allowance(
            events in prop::collection::vec((0_usize..3, 0_usize..20, 0_i64..200), 1..300),
        ) {
            let mut correlator = Correlator::default();
            let (mut now, mut told) = (0, [0_u32; 3]);
            for (object, message, wait) in events {
                now += wait;
                let verdict = tell(&mut correlator, &object.to_string(), &message.to_string(), now);
                told[object] += u32::from(verdict != Verdict::Dropped);
                prop_assert!(f64::from(told[object]) <= BURST + now as f64 / REFILL_SECONDS + 1e-6);
            }
        }
    }
}
