use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const RETRY: Outcome = Outcome::Retry { at_least: Duration::ZERO };

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(Backoff { first: MS * 10, longest: MS * 80 })
}

#[test]
fn keys_come_out_as_they_became_due_and_ties_as_they_were_added() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("late", Urgency::News, now + MS);
    for key in ["a", "b", "c"] {
        queue.add(key, Urgency::News, now);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.take(now + MS)).collect();
    assert_eq!(order, ["a", "b", "c", "late"]);
    assert_eq!((queue.waiting(), queue.running()), (0, 4));
}

#[test]
fn nothing_is_taken_before_its_time_and_the_next_time_is_known() {
    let (mut queue, now) = (queue(), Instant::now());
    assert_eq!(queue.next_due(), None);
    queue.add("a", Urgency::News, now + MS);
    assert_eq!((queue.take(now), queue.next_due()), (None, Some(now + MS)));
}

#[test]
fn a_waiting_key_moves_earlier_and_never_later() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now + MS * 5);
    queue.add("a", Urgency::News, now + MS * 9);
    assert_eq!(queue.next_due(), Some(now + MS * 5));
    queue.add("a", Urgency::News, now + MS * 2);
    assert_eq!((queue.next_due(), queue.waiting()), (Some(now + MS * 2), 1));
}

#[test]
fn a_key_that_is_added_while_it_runs_runs_exactly_twice() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now);
    assert_eq!(queue.take(now), Some("a"));
    for _ in 0..5 {
        queue.add("a", Urgency::News, now);
    }
    assert_eq!(queue.take(now), None, "it runs once at a time");
    queue.finish(&"a", Outcome::Done, now);
    assert_eq!(queue.take(now), Some("a"));
    queue.finish(&"a", Outcome::Done, now);
    assert_eq!(queue.take(now), None);
}

#[test]
fn failures_double_up_to_the_longest_and_never_drop_the_key() {
    let (mut queue, mut now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now);
    for expected in [10, 20, 40, 80, 80].into_iter().chain(std::iter::repeat_n(80, 100)) {
        assert_eq!(queue.take(now), Some("a"));
        queue.finish(&"a", RETRY, now);
        assert_eq!(queue.next_due(), Some(now + MS * expected));
        now += MS * expected;
    }
    assert_eq!(queue.failures(&"a"), 105);
    queue.take(now);
    queue.finish(&"a", Outcome::Done, now);
    assert_eq!(queue.failures(&"a"), 0);
}

#[test]
fn the_other_sides_wish_for_patience_is_kept() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now);
    queue.take(now);
    queue.finish(&"a", Outcome::Retry { at_least: MS * 500 }, now);
    assert_eq!(queue.next_due(), Some(now + MS * 500));
}

#[test]
fn r25_what_may_cure_a_failure_runs_at_once_and_mere_news_waits() {
    for while_running in [false, true] {
        for (urgency, due) in [(Urgency::Cure, 1), (Urgency::News, 10)] {
            let (mut queue, now) = (queue(), Instant::now());
            queue.add("a", Urgency::News, now);
            queue.take(now);
            if while_running {
                queue.add("a", urgency, now + MS);
            }
            queue.finish(&"a", RETRY, now);
            if !while_running {
                queue.add("a", urgency, now + MS);
            }
            assert_eq!(queue.next_due(), Some(now + MS * due), "{while_running} {urgency:?}");
            assert_eq!(queue.failures(&"a"), 1, "the count is kept");
        }
    }
}

#[test]
fn s7_a_success_in_one_queue_leaves_the_back_off_of_another() {
    let (mut one, mut other, now) = (queue(), queue(), Instant::now());
    for queue in [&mut one, &mut other] {
        queue.add("a", Urgency::News, now);
        queue.take(now);
    }
    one.finish(&"a", RETRY, now);
    other.finish(&"a", Outcome::Done, now);
    assert_eq!((one.failures(&"a"), other.failures(&"a")), (1, 0));
}

#[test]
fn s8_thousands_of_keys_are_due_at_once() {
    let (mut queue, now) = (WorkQueue::new(Backoff::default()), Instant::now());
    for key in 0..10_000 {
        queue.add(key, Urgency::News, now);
    }
    assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), 10_000, "nothing holds back keys that did not fail");
}

#[test]
fn s27_the_queue_tells_how_long_it_is() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now);
    queue.add("b", Urgency::News, now + MS);
    queue.take(now);
    assert_eq!((queue.waiting(), queue.running()), (1, 1));
}

#[test]
fn a_forgotten_key_does_not_run_and_may_come_again() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add("a", Urgency::News, now);
    queue.forget(&"a");
    queue.forget(&"unknown");
    assert_eq!(queue.take(now), None);
    queue.add("a", Urgency::News, now);
    queue.take(now);
    queue.add("a", Urgency::News, now);
    queue.forget(&"a");
    queue.finish(&"a", Outcome::Done, now);
    assert_eq!(queue.take(now), None);
    queue.finish(&"a", Outcome::Done, now);
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, Urgency, u64),
    Take,
    Finish(u8, bool),
    Forget(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let urgency = prop_oneof![Just(Urgency::News), Just(Urgency::Cure)];
    prop_oneof![
        4 => (0..4_u8, urgency, 0..30_u64).prop_map(|(key, urgency, at)| Step::Add(key, urgency, at)),
        4 => Just(Step::Take),
        4 => (0..4_u8, any::<bool>()).prop_map(|(key, ok)| Step::Finish(key, ok)),
        1 => (0..4_u8).prop_map(Step::Forget),
        3 => (1..60_u64).prop_map(Step::Pass),
    ]
}

/// What a key's history amounts to, by the rules alone.
#[derive(Debug, Clone, Default)]
struct Key {
    /// When it is due, and since when by order of adding.
    due: Option<(u64, u64)>,
    held: Option<u64>,
    running: bool,
    again: Option<(u64, Urgency)>,
    failures: u32,
}

proptest! {
    /// The queue against a list of keys with the rules written out.
    #[test]
    fn the_queue_follows_its_rules(steps in prop::collection::vec(step(), 1..120)) {
        let epoch = Instant::now();
        let at = |ms: u64| epoch + MS * u32::try_from(ms).unwrap();
        let (mut queue, mut model, mut now, mut sequence) =
            (WorkQueue::new(Backoff { first: MS * 10, longest: MS * 80 }), BTreeMap::<u8, Key>::new(), 0_u64, 0_u64);
        for step in steps {
            sequence += 1;
            match step {
                Step::Pass(ms) => now += ms,
                Step::Add(key, urgency, later) => {
                    let wish = now + later;
                    queue.add(key, urgency, at(wish));
                    let key = model.entry(key).or_default();
                    if key.running {
                        let (before, strongest) = key.again.unwrap_or((wish, urgency));
                        key.again = Some((before.min(wish), strongest.max(urgency)));
                    } else {
                        let floor = key.held.filter(|_| urgency == Urgency::News && key.due.is_some());
                        let wish = wish.max(floor.unwrap_or(0));
                        if key.due.is_none_or(|(due, _)| wish < due) {
                            key.due = Some((wish, sequence));
                        }
                    }
                }
                Step::Take => {
                    let due = model.iter().filter_map(|(k, key)| Some((key.due.filter(|(due, _)| *due <= now)?, *k)));
                    let expected = due.min().map(|(_, key)| key);
                    prop_assert_eq!(queue.take(at(now)), expected);
                    if let Some(key) = expected.and_then(|key| model.get_mut(&key)) {
                        (key.due, key.held, key.running, key.again) = (None, None, true, None);
                    }
                }
                Step::Finish(name, ok) => {
                    queue.finish(&name, if ok { Outcome::Done } else { RETRY }, at(now));
                    let key = model.entry(name).or_default();
                    if key.running {
                        key.running = false;
                        let again = key.again.take();
                        if ok {
                            key.failures = 0;
                            key.due = again.map(|(wish, _)| (wish, sequence));
                        } else {
                            key.failures += 1;
                            let held = now + (10 << (key.failures - 1).min(3));
                            let cure = again.filter(|(_, urgency)| *urgency == Urgency::Cure);
                            key.due = Some((cure.map_or(held, |(wish, _)| wish.min(held)), sequence));
                            key.held = Some(held);
                        }
                    }
                }
                Step::Forget(name) => {
                    queue.forget(&name);
                    let key = model.entry(name).or_default();
                    *key = Key { running: key.running, ..Key::default() };
                }
            }
            let first = model.values().filter_map(|key| key.due).min().map(|(due, _)| at(due));
            prop_assert_eq!(queue.next_due(), first);
            prop_assert_eq!(queue.waiting(), model.values().filter(|key| key.due.is_some()).count());
            prop_assert_eq!(queue.running(), model.values().filter(|key| key.running).count());
        }
    }
}
