use super::super::facts::{Ended, Fault, Outlook};
use super::*;
use crate::ids::Slot;
use jiff::SignedDuration;
use minke_core::judgement::Cause;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const ID: RunnerId = RunnerId(7);
const JOB: JobId = JobId(9);

fn timing() -> Timing {
    Timing::default()
}

fn pod() -> PodFacts {
    PodFacts {
        uid: "u".to_owned(),
        scheduled: true,
        running_since: Some(NOW),
        deleting_since: None,
        ended: None,
        node_lost: false,
        outlook: Outlook::Fine,
    }
}

fn hopeless(pod: PodFacts) -> PodFacts {
    let fault = Fault { cause: Cause::ImageNotFound, evidence: String::new() };
    PodFacts { outlook: Outlook::Hopeless(fault), ..pod }
}

fn ended(class: EndClass) -> PodFacts {
    PodFacts { ended: Some(Ended { class, at: NOW }), ..pod() }
}

fn deleted() -> PodFacts {
    PodFacts { deleting_since: Some(NOW), ..pod() }
}

fn lost() -> PodFacts {
    PodFacts { node_lost: true, ..deleted() }
}

fn runner(life: Life) -> Runner {
    Runner { slot: Slot(0), template: "t".to_owned(), life, since: NOW, looked: NOW, pod: Some(pod()) }
}

fn busy() -> Life {
    Life::Busy { id: ID, job: Some(JOB) }
}

fn draining(why: Why) -> Life {
    Life::Draining { id: ID, why, tries: 1, due: NOW + timing().ask }
}

fn after(life: Life, event: Event) -> (Life, Vec<Action>) {
    let (runner, actions) = step(runner(life), event, NOW, &timing());
    (runner.life, actions)
}

fn later(runner: &Runner, by: SignedDuration) -> (Runner, Vec<Action>) {
    step(runner.clone(), Event::Tick, NOW + by, &timing())
}

#[test]
fn a_whole_life_with_one_job() {
    let mut runner = Runner::requested(Slot(0), "t".to_owned(), NOW);
    for (event, life, expected) in [
        (Event::Registered(ID), Life::Registered { id: ID }, vec![Action::CreatePod(ID)]),
        (Event::Pod(pod()), Life::Registered { id: ID }, vec![]),
        (Event::Online { busy: false }, Life::Idle { id: ID }, vec![Action::Persist]),
        (Event::JobStarted(JOB), busy(), vec![Action::Persist]),
        (
            Event::JobCompleted(JOB),
            Life::Draining { id: ID, why: Why::Done, tries: 0, due: NOW + timing().exit },
            vec![],
        ),
        (Event::Pod(ended(EndClass::Success)), Life::Deregistered { why: Why::Done }, vec![Action::Persist]),
        (Event::PodGone, Life::Gone, vec![]),
    ] {
        let (next, actions) = step(runner, event, NOW, &timing());
        assert_eq!((next.life, actions), (life, expected));
        runner = next;
    }
    assert_eq!(runner.deadline(&timing()), None);
}

#[test]
fn the_forge_is_asked_first_and_its_answer_decides() {
    let (asked, actions) = after(Life::Idle { id: ID }, Event::Retire(Why::Surplus));
    assert_eq!((asked, actions), (draining(Why::Surplus), vec![Action::Remove(ID), Action::Persist]));
    let deregistered = (Life::Deregistered { why: Why::Surplus }, vec![Action::Persist]);
    assert_eq!(after(asked, Event::Removal(Removal::Gone)), deregistered);
    let busy = (Life::Busy { id: ID, job: None }, vec![Action::Persist]);
    assert_eq!(after(asked, Event::Removal(Removal::Busy)), busy);
}

#[test]
fn a_busy_runner_is_never_retired() {
    assert_eq!(after(busy(), Event::Retire(Why::Surplus)), (busy(), vec![]));
    assert_eq!(after(busy(), Event::Pod(deleted())), (busy(), vec![]));
}

#[test]
fn a_job_that_comes_between_look_and_removal_saves_the_runner() {
    assert_eq!(after(draining(Why::Stale), Event::JobStarted(JOB)).0, busy());
    let listed = after(draining(Why::Stale), Event::Online { busy: true }).0;
    assert_eq!(listed, Life::Busy { id: ID, job: None });
}

#[test]
fn a_late_list_does_not_revive_what_is_done() {
    let done = draining(Why::Done);
    assert_eq!(after(done, Event::Online { busy: true }), (done, vec![]));
    assert_eq!(after(done, Event::JobStarted(JOB)), (done, vec![]));
}

#[test]
fn forbidden_waits_and_is_told_and_touches_no_pod() {
    let (life, actions) = after(draining(Why::Surplus), Event::Removal(Removal::Forbidden));
    assert!(matches!(life, Life::Draining { due, .. } if due == NOW + timing().ask * 10));
    assert_eq!(actions, [Action::WarnForbidden]);
}

#[test]
fn a_rate_limit_is_waited_for() {
    let until = NOW + SignedDuration::from_mins(40);
    let (life, actions) = after(draining(Why::Surplus), Event::Removal(Removal::Limited(until)));
    assert!(matches!(life, Life::Draining { due, .. } if due == until));
    assert_eq!(actions, []);
}

#[test]
fn a_missing_credential_lets_pods_go_that_go_anyway() {
    let mut deleted_one = runner(draining(Why::PodDeleted));
    deleted_one.pod = Some(deleted());
    let (gone, actions) = step(deleted_one, Event::Removal(Removal::NoCredential), NOW, &timing());
    assert_eq!(gone.life, Life::Deregistered { why: Why::PodDeleted });
    assert_eq!(actions, [Action::WarnNoCredential, Action::Forget(ID), Action::Persist]);
    let (kept, _) = after(draining(Why::Surplus), Event::Removal(Removal::NoCredential));
    assert!(matches!(kept, Life::Draining { .. }), "one that runs is kept");
}

#[test]
fn a_failed_runner_asks_and_goes_without_an_answer() {
    let (asked, actions) = after(Life::Idle { id: ID }, Event::Pod(ended(EndClass::Runner)));
    assert_eq!(asked, draining(Why::Ended(EndClass::Runner)));
    assert_eq!(actions, [Action::Remove(ID), Action::Persist]);
    let mut unanswered = runner(asked);
    unanswered.pod = Some(ended(EndClass::Runner));
    let (gone, actions) = later(&unanswered, timing().ended);
    assert_eq!(gone.life, Life::Deregistered { why: Why::Ended(EndClass::Runner) });
    assert_eq!(actions, [Action::WarnUnanswered, Action::Forget(ID), Action::Persist]);
}

#[test]
fn a_lost_node_holds_nothing_for_ever() {
    let (asked, _) = after(busy(), Event::Pod(lost()));
    assert_eq!(asked, draining(Why::NodeLost));
    let mut waiting = runner(asked);
    waiting.pod = Some(lost());
    let (waiting, _) = step(waiting, Event::Removal(Removal::Busy), NOW, &timing());
    assert!(matches!(waiting.life, Life::Draining { .. }), "its job can't go on");
    let (gone, _) = later(&waiting, timing().node_lost);
    assert_eq!(gone.life, Life::Deregistered { why: Why::NodeLost });
    let (forced, actions) = step(gone.clone(), Event::Tick, gone.since + timing().force, &timing());
    assert_eq!((forced.life, actions), (gone.life, vec![Action::ForceDelete]));
}

#[test]
fn a_node_that_comes_back_saves_its_job() {
    let (asked, _) = after(busy(), Event::Pod(lost()));
    let (back, _) = step(runner(asked), Event::Pod(deleted()), NOW, &timing());
    let (saved, _) = step(back, Event::Removal(Removal::Busy), NOW, &timing());
    assert_eq!(saved.life, Life::Busy { id: ID, job: None });
}

/// Whoever was never seen by the forge goes with the judgement's cause at once, not at the deadline of its start.
#[test]
fn a_pod_that_will_never_work_goes_at_once_unless_it_works() {
    let never = draining(Why::NeverWorks(Cause::ImageNotFound));
    let troubled = PodFacts {
        outlook: Outlook::Troubled(Fault { cause: Cause::Unschedulable, evidence: String::new() }),
        ..pod()
    };
    let registered = Life::Registered { id: ID };
    for (life, pod, expected) in [
        (registered, hopeless(pod()), never),
        (registered, troubled, registered),
        (registered, hopeless(deleted()), draining(Why::PodDeleted)),
        (Life::Idle { id: ID }, hopeless(pod()), Life::Idle { id: ID }),
        (busy(), hopeless(pod()), busy()),
        (Life::Deregistered { why: Why::Surplus }, hopeless(pod()), Life::Deregistered { why: Why::Surplus }),
    ] {
        assert_eq!(after(life, Event::Pod(pod.clone())).0, expected, "{life:?} {pod:?}");
    }
    let (_, actions) = after(registered, Event::Pod(hopeless(pod())));
    assert_eq!(actions, [Action::Remove(ID), Action::Persist]);
}

#[test]
fn each_state_has_a_deadline_and_something_happens_then() {
    let unstarted = PodFacts { running_since: None, scheduled: false, ..pod() };
    for (life, pod, by, expected) in [
        (Life::Requested, None, timing().register, Life::Gone),
        (Life::Registered { id: ID }, None, timing().pod, Life::Gone),
        (Life::Registered { id: ID }, Some(unstarted), timing().start, draining(Why::NeverStarted)),
        (Life::Registered { id: ID }, Some(pod()), timing().online, draining(Why::NeverOnline)),
        (Life::Idle { id: ID }, Some(pod()), timing().idle, Life::Idle { id: ID }),
        (busy(), Some(pod()), timing().job, busy()),
    ] {
        let mut runner = runner(life);
        runner.pod = pod;
        assert_eq!(runner.deadline(&timing()), Some(NOW + by), "{life:?}");
        assert_eq!(later(&runner, by - SignedDuration::from_nanos(1)).1, [], "{life:?} early");
        let (next, actions) = later(&runner, by);
        assert_eq!(next.life.word(), expected.word(), "{life:?}");
        let looked = actions == [Action::Look];
        assert_eq!(looked, matches!(life, Life::Idle { .. } | Life::Busy { .. }));
    }
}

#[test]
fn a_job_beyond_its_time_is_looked_up_and_never_killed() {
    let (once, actions) = later(&runner(busy()), timing().job);
    assert_eq!((once.life, actions), (busy(), vec![Action::Look]));
    assert_eq!(once.deadline(&timing()), Some(NOW + timing().job + timing().job_again));
    let (done, _) = step(once, Event::Missing, NOW, &timing());
    assert!(matches!(done.life, Life::Draining { why: Why::Done, .. }), "the forge does not know it any more");
}

#[test]
fn a_registration_that_nobody_waits_for_is_removed() {
    let mut gone = runner(Life::Gone);
    gone.pod = None;
    assert_eq!(step(gone, Event::Registered(ID), NOW, &timing()).1, [Action::Forget(ID)]);
}

#[test]
fn a_pod_that_vanishes_leaves_a_registration_to_remove() {
    assert_eq!(after(busy(), Event::PodGone), (Life::Gone, vec![Action::Forget(ID)]));
    let (life, actions) = after(Life::Registered { id: ID }, Event::NotCreated);
    assert_eq!((life, actions), (Life::Registered { id: ID }, vec![]), "its Pod was seen, so it was made");
}

#[test]
fn a_pod_that_is_made_and_not_seen_yet_keeps_its_slot() {
    let mut unseen = runner(draining(Why::Surplus));
    unseen.pod = None;
    let (waiting, _) = step(unseen, Event::Removal(Removal::Gone), NOW, &timing());
    assert_eq!(waiting.life, Life::Deregistered { why: Why::Surplus });
    let (seen, _) = step(waiting.clone(), Event::Pod(pod()), NOW, &timing());
    assert_eq!(seen.life, Life::Deregistered { why: Why::Surplus });
    assert_eq!(later(&waiting, timing().pod).0.life, Life::Gone, "it never came to be");
}

fn any_event() -> impl Strategy<Value = Event> {
    let pods = vec![
        pod(),
        deleted(),
        lost(),
        ended(EndClass::Success),
        ended(EndClass::Runner),
        ended(EndClass::Infrastructure),
        PodFacts { running_since: None, ..pod() },
    ];
    let answers = vec![
        Removal::Gone,
        Removal::Busy,
        Removal::Forbidden,
        Removal::Limited(NOW + SignedDuration::from_mins(3)),
        Removal::Failed,
        Removal::NoCredential,
    ];
    prop_oneof![
        1 => Just(Event::Registered(ID)),
        1 => Just(Event::NotRegistered),
        1 => Just(Event::NotCreated),
        4 => prop::sample::select(pods).prop_map(Event::Pod),
        1 => Just(Event::PodGone),
        1 => any::<bool>().prop_map(|busy| Event::Online { busy }),
        1 => Just(Event::Missing),
        1 => (8_u64..10).prop_map(|job| Event::JobStarted(JobId(job))),
        1 => (8_u64..10).prop_map(|job| Event::JobCompleted(JobId(job))),
        2 => Just(Event::Retire(Why::Surplus)),
        3 => prop::sample::select(answers).prop_map(Event::Removal),
        3 => Just(Event::Tick),
    ]
}

proptest! {
    /// Whatever happens in whatever order: one Pod a life, a deadline until the end that passes when it is served, and
    /// nothing is let go but by the forge's word or because it can't run any more.
    #[test]
    fn no_order_of_events_breaks_the_rules(events in prop::collection::vec((any_event(), 0_i64..400), 1..60)) {
        let timing = timing();
        let mut now = NOW;
        let mut runner = Runner::requested(Slot(0), "t".to_owned(), now);
        let mut created = 0;
        for (event, seconds) in events {
            now += SignedDuration::from_secs(seconds);
            let before = runner.clone();
            let (next, actions) = step(runner, event.clone(), now, &timing);
            created += actions.iter().filter(|action| matches!(action, Action::CreatePod(_))).count();
            prop_assert!(created <= 1);
            let let_go = matches!(next.life, Life::Deregistered { .. }) && before.life != next.life;
            if let_go {
                let gone = event == Event::Removal(Removal::Gone);
                let dying = event == Event::Removal(Removal::NoCredential) && (next.ended() || next.deleting());
                prop_assert!(gone || dying || next.ended() || next.node_lost(), "{before:?} {event:?}");
            }
            if matches!(before.life, Life::Busy { .. }) {
                prop_assert!(!actions.contains(&Action::ForceDelete));
                let asked = actions.iter().any(|action| matches!(action, Action::Remove(_)));
                prop_assert!(!asked || next.ended() || next.node_lost(), "{before:?} {event:?}");
            }
            match next.deadline(&timing) {
                None => prop_assert_eq!(next.life, Life::Gone),
                Some(deadline) => {
                    let (served, _) = step(next.clone(), Event::Tick, deadline.max(now), &timing);
                    prop_assert!(served.deadline(&timing).is_none_or(|again| again > deadline.max(now)), "{next:?}");
                }
            }
            let is_gone = before.life == Life::Gone;
            prop_assert!(!is_gone || next.life == Life::Gone);
            runner = next;
        }
    }
}
