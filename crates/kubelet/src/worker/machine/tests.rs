//! Rows of the worker's table; a property test against a small model is in `model`.

mod model;

use super::syncing::FIRST_PACE;
use super::*;
use crate::worker::lifecycle::Step;
use crate::{DesiredPod, Eviction, PodStage, StopRequest};

fn pod() -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some("u".to_owned());
    pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(30);
    Arc::new(pod)
}

fn start() -> (Machine, Vec<Action>) {
    Machine::start(pod(), SavedLifecycle::Syncing)
}

fn stop(grace: Option<u64>, remove: bool) -> Event {
    Event::Stop(StopRequest { grace: grace.map(Duration::from_secs), remove })
}

fn stop_containers(seconds: u64) -> Action {
    Action::Step(Step::StopContainers { grace: Duration::from_secs(seconds) })
}

fn done(machine: &mut Machine) -> Vec<Action> {
    machine.step(Event::Stepped(StepOutcome::Done), Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_is_synced_and_then_resynced() {
    let (mut machine, actions) = start();
    assert_eq!(actions, [Action::Sync(Mode::Act)]);
    let now = Instant::now();
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Settled), now), []);
    let due = machine.timer().unwrap();
    assert!((60..90).contains(&(due - now).as_secs()));
    assert_eq!(machine.step(Event::Timer, now), [], "the timer is early");
    assert_eq!(machine.step(Event::Timer, due), [Action::Sync(Mode::Act)]);
}

#[tokio::test(start_paused = true)]
async fn complete_work_pending_update() {
    let (mut machine, _) = start();
    let now = Instant::now();
    assert_eq!(machine.step(Event::Changed, now), [], "one job at a time");
    assert_eq!(machine.step(Event::Changed, now), []);
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Settled), now), [Action::Sync(Mode::Act)], "changes coalesce");
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Settled), now), []);
}

#[tokio::test(start_paused = true)]
async fn a_failing_pod_publishes_at_once_but_acts_at_its_pace() {
    let (mut machine, _) = start();
    let now = Instant::now();
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Failed), now), []);
    assert!((10..=15).contains(&(machine.timer().unwrap() - now).as_secs()));
    assert_eq!(machine.step(Event::Changed, now), [Action::Sync(Mode::Observe)]);
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Settled), now), []);
    assert_eq!(machine.timer(), Some(now + FIRST_PACE), "then it acts, well before the error back-off ends");
    assert_eq!(machine.step(Event::Timer, now + FIRST_PACE), [Action::Sync(Mode::Act)]);
    // The pace slows with every failure.
    let mut gaps = Vec::new();
    for _ in 0..8 {
        drop(machine.step(Event::Synced(SyncOutcome::Failed), now));
        drop(machine.step(Event::Changed, now));
        drop(machine.step(Event::Synced(SyncOutcome::Settled), now));
        let due = machine.timer().unwrap();
        gaps.push((due - now).as_millis());
        assert_eq!(machine.step(Event::Timer, due), [Action::Sync(Mode::Act)]);
    }
    assert_eq!(gaps, [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn update_pod_does_not_forget_sync_pod_kill() {
    let (mut machine, _) = start();
    let now = Instant::now();
    let actions = machine.step(stop(Some(5), false), now);
    assert_eq!(actions, [Action::Cancel, Action::Save, Action::Publish, stop_containers(5)]);
    for event in [Event::Changed, Event::Timer, Event::Deadline, Event::Synced(SyncOutcome::Settled)] {
        assert_eq!(machine.step(event.clone(), now), [], "{event:?} does not bring a stopped pod back");
    }
    assert_eq!(machine.lifecycle().stage(), PodStage::Terminating);
}

#[tokio::test(start_paused = true)]
async fn the_way_to_the_end() {
    let (mut machine, _) = start();
    let now = Instant::now();
    let first = machine.step(Event::Synced(SyncOutcome::Terminal), now);
    assert_eq!(first, [Action::Save, Action::Publish, stop_containers(30)]);
    assert_eq!(done(&mut machine), [Action::Step(Step::StopSandboxes)]);
    assert_eq!(done(&mut machine), [Action::Step(Step::Confirm)]);
    assert_eq!(done(&mut machine), [Action::Save, Action::Publish, Action::Step(Step::Volumes)]);
    assert_eq!(machine.lifecycle().stage(), PodStage::Terminated);
    assert_eq!(done(&mut machine), [Action::Step(Step::Sandboxes)]);
    assert_eq!(done(&mut machine), [Action::Save, Action::Publish]);
    assert_eq!(machine.lifecycle(), &Lifecycle::Finished { cause: Cause::Completed });
    assert_eq!(machine.timer(), None);
    assert_eq!(machine.step(stop(None, false), now), [], "a finished pod ignores what does not remove it");
    assert_eq!(machine.step(stop(None, true), now), [Action::Save, Action::Publish, Action::Step(Step::Logs)]);
    assert_eq!(done(&mut machine), [Action::Step(Step::Checkpoint)]);
    assert_eq!(done(&mut machine), [Action::End]);
    assert_eq!(machine.lifecycle(), &Lifecycle::Removed);
}

#[tokio::test(start_paused = true)]
async fn grace_only_shrinks() {
    let (mut machine, _) = start();
    let now = Instant::now();
    drop(machine.step(stop(Some(20), false), now));
    assert_eq!(machine.step(stop(Some(60), false), now), []);
    assert_eq!(machine.step(stop(Some(5), false), now), [Action::Cancel, Action::Save, stop_containers(5)]);
    assert_eq!(machine.step(stop(Some(0), false), now), [Action::Cancel, Action::Save, stop_containers(0)]);
    assert_eq!(machine.step(stop(None, true), now), [Action::Save], "only the wish to remove it is new");
    drop(done(&mut machine));
    assert_eq!(machine.step(stop(Some(0), false), now), []);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_ends_a_wait_for_the_next_try() {
    let (mut machine, _) = start();
    let now = Instant::now();
    drop(machine.step(stop(Some(20), false), now));
    drop(machine.step(Event::Stepped(StepOutcome::Failed), now));
    assert_eq!(
        machine.step(stop(Some(0), false), now),
        [Action::Save, stop_containers(0)],
        "there is no job to cancel"
    );
}

#[tokio::test(start_paused = true)]
async fn teardown_resumes_at_the_step_that_failed() {
    let steps = [Step::StopSandboxes, Step::Confirm, Step::Volumes, Step::Sandboxes, Step::Logs, Step::Checkpoint];
    let (mut machine, _) = start();
    let mut now = Instant::now();
    let mut current = stop_containers(1);
    assert!(machine.step(stop(Some(1), true), now).contains(&current));
    for next in steps.into_iter().map(Some).chain([None]) {
        assert_eq!(machine.step(Event::Stepped(StepOutcome::Failed), now), []);
        now = machine.timer().unwrap();
        assert_eq!(machine.step(Event::Timer, now), [current], "the same step again");
        let actions = machine.step(Event::Stepped(StepOutcome::Done), now);
        match next {
            Some(next) => {
                current = Action::Step(next);
                assert!(actions.contains(&current), "{next:?} in {actions:?}");
            }
            None => assert_eq!(actions, [Action::End]),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_found_alive_is_stopped_again() {
    let (mut machine, _) = start();
    let now = Instant::now();
    drop(machine.step(stop(Some(7), false), now));
    drop(done(&mut machine));
    assert_eq!(done(&mut machine), [Action::Step(Step::Confirm)]);
    assert_eq!(machine.step(Event::Stepped(StepOutcome::StillRunning), now), []);
    assert_eq!(machine.step(Event::Timer, machine.timer().unwrap()), [stop_containers(7)]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_pod_as_failed() {
    let (mut machine, _) = start();
    let now = Instant::now();
    assert_eq!(machine.step(Event::Deadline, now)[0], Action::Cancel, "even while a sync runs");
    assert_eq!(machine.lifecycle().cause(), Some(&Cause::Failed(FailureOverride::deadline_exceeded())));
}

#[tokio::test(start_paused = true)]
async fn a_new_agent_begins_the_stage_anew() {
    let grace = Duration::from_secs(3);
    let cause = Cause::Stopped;
    let saved = SavedLifecycle::Terminating { cause: cause.clone(), grace, then: Then::Keep };
    assert_eq!(Machine::start(pod(), saved).1, [stop_containers(3)]);
    let saved = SavedLifecycle::Terminated { cause: cause.clone(), then: Then::Remove };
    assert_eq!(Machine::start(pod(), saved).1, [Action::Step(Step::Volumes)]);
    assert_eq!(Machine::start(pod(), SavedLifecycle::Finished { cause }).1, []);
}

fn evict(grace: Option<u64>) -> Event {
    let (reason, message) = ("Evicted".to_owned(), "no room".to_owned());
    Event::Evict(Eviction { reason, message, grace: grace.map(Duration::from_secs), disrupts: true })
}

#[tokio::test(start_paused = true)]
async fn update_pod_eviction_terminates() {
    let evicted = Cause::Evicted(FailureOverride { reason: "Evicted".to_owned(), message: "no room".to_owned() });
    let now = Instant::now();
    let (mut machine, _) = start();
    assert_eq!(machine.step(evict(Some(1)), now), [Action::Cancel, Action::Save, Action::Publish, stop_containers(1)]);
    assert_eq!(machine.lifecycle().cause(), Some(&evicted));
    assert_eq!(machine.step(evict(None), now), [], "once is enough");

    let (mut machine, _) = start();
    drop(machine.step(stop(Some(20), true), now));
    let actions = machine.step(evict(Some(5)), now);
    assert_eq!(actions, [Action::Cancel, Action::Save, stop_containers(5)], "an eviction shrinks the grace of a stop");
    assert_eq!(machine.lifecycle().cause(), Some(&evicted), "and says how the Pod ends");
    assert_eq!(machine.step(evict(Some(60)), now), []);

    let (mut machine, _) = start();
    drop(machine.step(stop(Some(20), false), now));
    assert_eq!(machine.step(evict(Some(60)), now), [Action::Save], "only how it ends is new");

    let (mut machine, _) = start();
    drop(machine.step(Event::Synced(SyncOutcome::Terminal), now));
    drop(machine.step(evict(Some(60)), now));
    assert_eq!(machine.lifecycle().cause(), Some(&Cause::Completed), "what completed by itself was not evicted");
    for _ in 0..3 {
        drop(done(&mut machine));
    }
    assert_eq!(machine.step(evict(Some(0)), now), [], "nothing of it is left to evict");
}

/// The Pod with another image, perhaps being deleted with this grace.
fn updated(deletion: Option<i64>) -> Event {
    let mut pod = (*pod()).clone();
    pod.metadata.labels = Some([("version".to_owned(), "2".to_owned())].into());
    if deletion.is_some() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        pod.metadata.deletion_grace_period_seconds = deletion;
    }
    Event::Updated(DesiredPod { pod: Arc::new(pod), objects: Arc::default() })
}

fn ended(phase: &str) -> Event {
    let mut pod = (*pod()).clone();
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
    Event::Updated(DesiredPod { pod: Arc::new(pod), objects: Arc::default() })
}

#[tokio::test(start_paused = true)]
async fn an_update_is_acted_on_at_once_even_by_a_failing_pod() {
    let now = Instant::now();
    let (mut machine, _) = start();
    assert_eq!(machine.step(updated(None), now), [], "a sync that runs goes on");
    assert_eq!(machine.step(Event::Changed, now), [], "and news do not outrank an update");
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Failed), now), [Action::Sync(Mode::Act)]);
    drop(machine.step(Event::Synced(SyncOutcome::Failed), now));
    assert_eq!(
        machine.step(updated(None), now),
        [Action::Sync(Mode::Act)],
        "its failures were of what was wanted before"
    );
    drop(machine.step(Event::Synced(SyncOutcome::Settled), now));
    assert_eq!(machine.step(updated(None), now), [Action::Sync(Mode::Act)]);
}

#[tokio::test(start_paused = true)]
async fn update_pod_deletion_timestamp_terminates() {
    let now = Instant::now();
    let (mut machine, _) = start();
    assert_eq!(
        machine.step(updated(Some(5)), now),
        [Action::Cancel, Action::Save, Action::Publish, stop_containers(5)]
    );
    assert_eq!(machine.lifecycle().cause(), Some(&Cause::Stopped));
    assert_eq!(machine.step(updated(Some(50)), now), [], "grace only shrinks");
    assert_eq!(machine.step(updated(Some(2)), now), [Action::Cancel, Action::Save, stop_containers(2)]);
    assert_eq!(machine.step(updated(None), now), [], "a deletion is not taken back");
}

#[tokio::test(start_paused = true)]
async fn terminal_phase_transition() {
    let now = Instant::now();
    for phase in ["Succeeded", "Failed"] {
        let (mut machine, _) = start();
        let actions = machine.step(ended(phase), now);
        assert_eq!(actions, [Action::Cancel, Action::Save, Action::Publish, stop_containers(30)], "{phase}");
        assert_eq!(machine.lifecycle().cause(), Some(&Cause::Completed));
    }
    for phase in ["Pending", "Running", ""] {
        let (mut machine, _) = start();
        assert_eq!(machine.step(ended(phase), now), [], "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_updates_during_termination_change_nothing_else() {
    let now = Instant::now();
    let (mut machine, _) = start();
    drop(machine.step(stop(Some(5), false), now));
    for event in [updated(None), ended("Failed"), updated(Some(60)), updated(None)] {
        assert_eq!(machine.step(event, now), []);
    }
    for _ in 0..5 {
        drop(done(&mut machine));
        drop(machine.step(updated(None), now));
    }
    assert_eq!(machine.lifecycle(), &Lifecycle::Finished { cause: Cause::Stopped });
    assert_eq!(machine.step(updated(Some(1)), now), [], "a finished pod ignores everything");
}

#[test]
fn update_pod_first_seen_terminal_or_deleted() {
    use minke_core::identity::PodUid;
    let of = |event: Event| match event {
        Event::Updated(desired) => desired.pod,
        other => panic!("{other:?}"),
    };
    let nothing = minke_core::runtime::PodRuntimeStatus::empty(PodUid::new("u").unwrap());
    let grace = Duration::from_secs(30);
    let (completed, keep) = (Cause::Completed, Then::Keep);
    assert_eq!(first_seen(&pod(), Some(&nothing)), SavedLifecycle::Syncing);
    assert_eq!(first_seen(&pod(), None), SavedLifecycle::Syncing, "what is to run needs no look");
    let failed = of(ended("Failed"));
    let cleaned = SavedLifecycle::Terminated { cause: completed.clone(), then: keep };
    assert_eq!(first_seen(&failed, Some(&nothing)), cleaned, "not finished, so that it is cleaned up");
    let stopped = SavedLifecycle::Terminating { cause: completed, grace, then: keep };
    assert_eq!(first_seen(&failed, None), stopped, "who knows what runs");
    let deleted = SavedLifecycle::Terminating { cause: Cause::Stopped, grace: Duration::from_secs(4), then: keep };
    assert_eq!(first_seen(&of(updated(Some(4))), Some(&nothing)), deleted);
}

#[tokio::test(start_paused = true)]
async fn what_probes_say_is_news_whatever_the_worker_does() {
    let now = Instant::now();
    let (mut machine, _) = start();
    assert_eq!(machine.step(Event::Probed, now), [Action::Refresh], "beside the sync that runs");
    let actions = machine.step(Event::Synced(SyncOutcome::Settled), now);
    assert_eq!(actions, [Action::Sync(Mode::Act)], "which may have begun too early to act on it");
    drop(machine.step(Event::Synced(SyncOutcome::Settled), now));
    assert_eq!(machine.step(Event::Probed, now), [Action::Sync(Mode::Act)]);
    drop(machine.step(stop(Some(5), false), now));
    assert_eq!(machine.step(Event::Probed, now), [Action::Refresh]);
    for _ in 0..3 {
        drop(done(&mut machine));
    }
    assert_eq!(machine.step(Event::Probed, now), []);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_can_not_be_made_is_tried_again_soon_and_then_ever_later() {
    let (mut machine, _) = start();
    let mut now = Instant::now();
    let mut gaps = Vec::new();
    for _ in 0..6 {
        assert_eq!(machine.step(Event::Synced(SyncOutcome::SandboxFailed), now), []);
        let due = machine.timer().unwrap();
        gaps.push((due - now).as_secs_f64());
        now = due;
        assert_eq!(machine.step(Event::Timer, now), [Action::Sync(Mode::Act)]);
    }
    for (gap, least) in gaps.iter().zip([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]) {
        assert!((least..=least * 1.5).contains(gap), "{gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_tried_again_when_the_runtime_is_back() {
    let (mut machine, _) = start();
    let now = Instant::now();
    assert_eq!(machine.step(Event::Returned, now), [], "a sync runs");
    assert_eq!(machine.step(Event::Synced(SyncOutcome::Failed), now), [Action::Sync(Mode::Observe)], "it had news");
    drop(machine.step(Event::Synced(SyncOutcome::Settled), now));
    assert_eq!(machine.step(Event::Returned, now), [Action::Sync(Mode::Act)], "long before its back-off ends");
    drop(machine.step(Event::Synced(SyncOutcome::Settled), now));
    assert_eq!(machine.step(Event::Returned, now), [], "nothing had failed");
    drop(machine.step(stop(Some(5), false), now));
    for _ in 0..6 {
        assert_eq!(machine.step(Event::Stepped(StepOutcome::Failed), now), []);
        assert_eq!(machine.step(Event::Returned, now), [stop_containers(5)]);
    }
    assert_eq!(machine.step(Event::Returned, now), [], "one job at a time");
}
