//! Who of several replicas acts: a Lease of the cluster, as client-go's leader election has it.
//!
//! ```text
//!            free, or not renewed for its duration (by our own clock)
//! Waiting ───────────────────────────────────────────────────────────► Leading
//!    ▲                                                                    │ renewed every two seconds
//!    └──────────── another holds it, or not renewed for ten ──────────────┘
//! ```
//! Nobody's clock is believed: what counts is how long *we* have seen the Lease unchanged. Who could not renew stops acting five
//! seconds before another may begin. [`Candidate`] is pure; [`hold`] performs.

mod kube;

use std::time::Duration;

pub use self::kube::{LeaseName, hold};

/// How long what takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// A Lease that was not renewed for so long is free.
    pub duration: Duration,
    /// Who has not renewed for so long does not act any more.
    pub renew: Duration,
    /// Between two looks.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { duration: seconds(15), renew: seconds(10), retry: seconds(2) }
    }
}

/// The Lease as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Who has it; empty: nobody.
    pub holder: String,
    /// When it was renewed, as it stands there: only whether it changes matters.
    pub renewed: String,
    /// How long it holds, as its holder says.
    pub duration: Duration,
    /// How often it changed hands.
    pub transitions: i32,
}

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Somebody else has it.
    Wait,
    /// It is to be ours, with this many changes of hands.
    Take(i32),
    /// It is ours and stays so.
    Renew,
}

/// One who would act. Time is monotonic, from any beginning.
#[derive(Debug, Clone)]
pub struct Candidate {
    identity: String,
    terms: Terms,
    seen: Option<(Held, Duration)>,
    renewed: Option<Duration>,
}

impl Candidate {
    /// One who knows nothing yet.
    #[must_use]
    pub fn new(identity: impl Into<String>, terms: Terms) -> Self {
        Self { identity: identity.into(), terms, seen: None, renewed: None }
    }

    /// The Lease was read; `None`: there is none.
    pub fn see(&mut self, held: Option<Held>, now: Duration) -> Wish {
        let Some(held) = held else {
            self.seen = None;
            return Wish::Take(0);
        };
        let transitions = held.transitions;
        if held.holder == self.identity {
            self.seen = Some((held, now));
            return Wish::Renew;
        }
        self.renewed = None;
        if held.holder.is_empty() {
            return Wish::Take(transitions.saturating_add(1));
        }
        let since = match &self.seen {
            Some((known, since)) if *known == held => *since,
            Some(_) | None => now,
        };
        let expired = since + held.duration.max(self.terms.duration) <= now;
        self.seen = Some((held, since));
        if expired { Wish::Take(transitions.saturating_add(1)) } else { Wish::Wait }
    }

    /// What was wished is written. `asked` is when the write began: the Lease may be older than its answer.
    pub fn wrote(&mut self, asked: Duration) {
        self.renewed = Some(asked);
    }

    /// Whether this one may act.
    #[must_use]
    pub fn leads(&self, now: Duration) -> bool {
        self.renewed.is_some_and(|renewed| now < renewed + self.terms.renew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(holder: &str, renewed: u64) -> Held {
        Held { holder: holder.to_owned(), renewed: renewed.to_string(), duration: at(15), transitions: 3 }
    }

    #[test]
    fn a_free_lease_is_taken_and_renewed() {
        let mut me = Candidate::new("a", Terms::default());
        assert_eq!(me.see(None, at(0)), Wish::Take(0));
        assert!(!me.leads(at(0)), "not before it is written");
        me.wrote(at(0));
        assert!(me.leads(at(9)) && !me.leads(at(10)), "who can't renew stops");
        assert_eq!(me.see(Some(held("a", 0)), at(2)), Wish::Renew);
        assert_eq!(me.see(Some(held("", 0)), at(3)), Wish::Take(4), "it was let go");
    }

    #[test]
    fn anothers_is_waited_for_by_our_own_clock() {
        let mut me = Candidate::new("a", Terms::default());
        assert_eq!(me.see(Some(held("b", 1)), at(100)), Wish::Wait);
        assert_eq!(me.see(Some(held("b", 2)), at(114)), Wish::Wait, "it was renewed");
        assert_eq!(me.see(Some(held("b", 2)), at(128)), Wish::Wait);
        assert_eq!(me.see(Some(held("b", 2)), at(129)), Wish::Take(4));
    }

    #[test]
    fn who_is_replaced_does_not_lead_any_more() {
        let mut me = Candidate::new("a", Terms::default());
        me.see(None, at(0));
        me.wrote(at(0));
        assert_eq!(me.see(Some(held("b", 5)), at(1)), Wish::Wait);
        assert!(!me.leads(at(1)));
    }

    proptest! {
        /// Two candidates over one Lease, with writes that fail and looks that are late: never both lead.
        #[test]
        fn never_two_lead(steps in prop::collection::vec((0_usize..2, 1_u64..9, any::<bool>()), 1..200)) {
            let mut both = [Candidate::new("a", Terms::default()), Candidate::new("b", Terms::default())];
            let (mut lease, mut now, mut writes) = (None::<Held>, at(0), 0_u64);
            for (who, wait, fails) in steps {
                now += at(wait);
                let wish = both[who].see(lease.clone(), now);
                let transitions = match wish {
                    Wish::Wait => continue,
                    Wish::Take(transitions) => transitions,
                    Wish::Renew => lease.as_ref().map_or(0, |lease| lease.transitions),
                };
                if !fails {
                    writes += 1;
                    let holder = both[who].identity.clone();
                    lease = Some(Held { holder, renewed: writes.to_string(), duration: at(15), transitions });
                    both[who].wrote(now);
                }
                prop_assert!(!(both[0].leads(now) && both[1].leads(now)));
            }
        }
    }
}
