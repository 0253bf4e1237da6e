//! Each row of the legacy engine's tables, by name.

use super::super::bucket::tests::{NOW, pod};
use super::super::bucket::{Phase, RunnerPod};
use super::*;
use proptest::prelude::*;

fn ago(seconds: i64) -> Timestamp {
    NOW - SignedDuration::from_secs(seconds)
}

fn owner(name: &str, age: i64, pods: Vec<RunnerPod>) -> Owner {
    Owner {
        name: name.to_owned(),
        created: ago(age),
        deleting: false,
        template_hash: Some("now".to_owned()),
        requested: false,
        complete: false,
        synced: true,
        sync_time: None,
        pods,
    }
}

fn running(name: &str, age: i64) -> Owner {
    owner(name, age, vec![pod(Phase::Running)])
}

fn pending(name: &str, age: i64) -> Owner {
    owner(name, age, vec![pod(Phase::Pending)])
}

fn ended(name: &str) -> Owner {
    owner(name, 100, vec![pod(Phase::Succeeded)])
}

fn inputs(desired: u32, owners: &[Owner]) -> Inputs<'_> {
    Inputs { desired, effective: None, ephemeral: true, template_hash: "now", owners }
}

fn run(desired: u32, owners: &[Owner]) -> LegacyPlan {
    decide(&inputs(desired, owners), NOW)
}

fn reason(plan: &LegacyPlan) -> Option<&HoldReason> {
    plan.hold.as_ref().map(|hold| &hold.reason)
}

#[test]
fn c0_an_owner_without_a_hash_is_left_alone() {
    let plan = run(2, &[Owner { template_hash: None, ..running("odd", 9) }, running("a", 5)]);
    assert_eq!((plan.create, plan.unmanaged), (1, vec!["odd".to_owned()]));
}

#[test]
fn c0b_an_empty_hash_ends_the_pass() {
    let plan = run(2, &[Owner { template_hash: Some(String::new()), ..running("odd", 9) }]);
    assert_eq!(reason(&plan), Some(&HoldReason::EmptyHash("odd".to_owned())));
    assert_eq!((plan.create, plan.status), (0, None));
}

#[test]
fn c1_a_deleted_owner_is_ignored() {
    let plan = run(1, &[Owner { deleting: true, complete: true, ..running("a", 9) }]);
    assert_eq!((plan.create, plan.delete.len()), (1, 0));
}

#[test]
fn c2_a_complete_owner_is_deleted_and_not_counted() {
    let plan = run(1, &[Owner { complete: true, ..running("a", 9) }]);
    assert_eq!((plan.create, plan.delete), (1, vec!["a".to_owned()]));
}

#[test]
fn c3_a_requested_owner_whose_pods_are_safe_becomes_complete() {
    let safe = RunnerPod { unregistered: true, ..pod(Phase::Running) };
    let deleted = RunnerPod { deleting: true, ..pod(Phase::Running) };
    for pods in [vec![safe], vec![deleted], vec![]] {
        let plan = run(0, &[Owner { requested: true, ..owner("a", 9, pods) }]);
        assert_eq!((plan.complete, plan.delete.len()), (vec!["a".to_owned()], 0));
    }
}

#[test]
fn c3_prime_a_requested_owner_that_is_not_safe_still_counts() {
    let plan = run(1, &[Owner { requested: true, ..running("a", 9) }]);
    assert_eq!((plan.create, plan.retire.len()), (0, 0));
    assert_eq!(plan.status, Some(Counts { total: 1, running: 1 }));
}

#[test]
fn c4_the_newest_stamp_counts() {
    let owners = [
        Owner { sync_time: Some(ago(700)), ..running("a", 9) },
        Owner { sync_time: Some(ago(30)), ..running("b", 8) },
        Owner { sync_time: None, ..running("c", 7) },
    ];
    assert_eq!(collect(&inputs(1, &owners), NOW).last_sync, Some(ago(30)));
}

#[test]
fn c5_one_completed_owner_a_pass() {
    let plan = run(5, &[ended("a"), ended("b")]);
    assert_eq!((plan.delete.clone(), plan.create, plan.status), (vec!["a".to_owned()], 0, None));
    assert_eq!(reason(&plan), Some(&HoldReason::OneCompletedOwnerAPass("a".to_owned())));
    let half = owner("c", 9, vec![pod(Phase::Succeeded), pod(Phase::Running)]);
    assert_eq!(run(1, &[half]).delete.len(), 0);
}

#[test]
fn c6_an_unsynced_owner_holds_up_all() {
    let plan = run(5, &[Owner { synced: false, ..pending("a", 9) }, running("b", 8)]);
    assert_eq!((plan.create, plan.status), (0, None));
    assert_eq!(reason(&plan), Some(&HoldReason::Unsynced("a".to_owned())));
}

fn row_1_inputs(owners: &[Owner], effective: Option<Timestamp>, ephemeral: bool) -> LegacyPlan {
    decide(&Inputs { effective, ephemeral, ..inputs(3, owners) }, NOW)
}

#[test]
fn row_1_missing_ephemeral_runners_are_presumed_finished() {
    let owners = [Owner { sync_time: Some(ago(60)), ..running("a", 60) }];
    let plan = row_1_inputs(&owners, Some(ago(61)), true);
    assert_eq!(plan.hold, Some(Hold { reason: HoldReason::PresumedFinished, wake_at: ago(60) + RECREATION_DELAY }));
    assert_eq!((plan.create, plan.status), (0, Some(Counts { total: 1, running: 1 })));
}

#[test]
fn row_2_every_other_case_creates_the_difference() {
    let stamped = |seconds| [Owner { sync_time: Some(ago(seconds)), ..running("a", 60) }];
    for (owners, effective, ephemeral, why) in [
        (stamped(60), Some(ago(61)), false, "static runners"),
        (stamped(60), None, true, "no demand was ever seen"),
        (stamped(60), Some(ago(60)), true, "the same second"),
        (stamped(60), Some(ago(5)), true, "fresh demand"),
        (stamped(600), Some(ago(601)), true, "the delay is over"),
        ([running("a", 60)], Some(ago(5)), true, "never stamped"),
    ] {
        let plan = row_1_inputs(&owners, effective, ephemeral);
        assert_eq!((plan.create, plan.status), (2, None), "{why}");
    }
    assert_eq!(row_1_inputs(&[], Some(ago(5)), true).create, 3, "no owners at all");
}

#[test]
fn row_2_returns_before_stale_owners_are_looked_at() {
    let stale = Owner { template_hash: Some("then".to_owned()), ..running("s", 50) };
    let plan = run(1, &[stale]);
    assert_eq!((plan.create, plan.delete.len()), (1, 0));
}

#[test]
fn row_3_the_oldest_go_first() {
    let plan = run(1, &[running("old", 30), running("new", 10), running("older", 40)]);
    assert_eq!(plan.retire, ["old", "older"]);
    assert_eq!(plan.status, Some(Counts { total: 3, running: 3 }));
}

#[test]
fn row_3_pending_timed_out_and_empty_owners_go_too() {
    let timed_out = RunnerPod { ready_since: Some(ago(601)), ..pod(Phase::Running) };
    let owners = [running("a", 50), pending("b", 40), owner("c", 30, vec![timed_out]), owner("d", 20, vec![])];
    assert_eq!(run(1, &owners).retire, ["d", "c", "b"]);
}

#[test]
fn row_3_who_was_asked_is_not_asked_again() {
    let plan = run(0, &[Owner { requested: true, ..running("a", 9) }, running("b", 8)]);
    assert_eq!(plan.retire, ["b"]);
}

#[test]
fn row_3_retained_too_many_does_nothing() {
    let plan = run(1, &[owner("twin", 9, vec![pod(Phase::Running), pod(Phase::Running)])]);
    assert_eq!((plan.retire.len(), plan.status), (0, None));
    assert_eq!(reason(&plan), Some(&HoldReason::NotDivisible));
}

#[test]
fn row_4_pending_pods_are_trusted_to_come_up() {
    let plan = run(2, &[running("a", 9), pending("b", 8)]);
    assert_eq!((plan.create, plan.retire.len()), (0, 0));
    assert_eq!(plan.status, Some(Counts { total: 2, running: 1 }));
}

#[test]
fn a5_one_stale_owner_a_pass_is_deleted_directly_and_no_status_is_told() {
    let stale = |name: &str| Owner { template_hash: Some("then".to_owned()), ..running(name, 50) };
    let plan = run(1, &[running("a", 9), stale("s"), stale("t")]);
    assert_eq!((plan.delete, plan.status), (vec!["s".to_owned()], None));
}

fn any_pod() -> impl Strategy<Value = RunnerPod> {
    let phase =
        prop::sample::select(vec![Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed, Phase::Unknown]);
    (phase, any::<[bool; 5]>(), prop::option::of(0_i64..1200)).prop_map(|(phase, b, ready)| RunnerPod {
        phase,
        deleting: b[0],
        has_container_statuses: b[1],
        runner_terminated: b[2],
        has_runner_id: b[3],
        ready_since: ready.map(ago),
        unregistered: b[4],
    })
}

fn any_owner() -> impl Strategy<Value = Owner> {
    let hash = prop::option::weighted(0.95, prop::sample::select(vec!["now", "now", "now", "then", ""]));
    let pods = prop::collection::vec(any_pod(), 0..3);
    let flags = prop::collection::vec(prop::bool::weighted(0.1), 4);
    (hash, pods, flags, 0_i64..100, prop::option::of(0_i64..1200), any::<u16>()).prop_map(
        |(hash, pods, flags, age, sync, number)| Owner {
            name: format!("o{number}"),
            created: ago(age),
            deleting: flags[0],
            template_hash: hash.map(str::to_owned),
            requested: flags[1],
            complete: flags[2],
            synced: !flags[3],
            sync_time: sync.map(ago),
            pods,
        },
    )
}

proptest! {
    #[test]
    fn total_never_both_and_sums_hold(
        owners in prop::collection::vec(any_owner(), 0..8),
        desired in 0_u32..10,
        effective in prop::option::of(0_i64..1200),
        ephemeral: bool,
    ) {
        let inputs = Inputs { desired, effective: effective.map(ago), ephemeral, template_hash: "now", owners: &owners };
        let plan = decide(&inputs, NOW);
        prop_assert!(plan.create == 0 || plan.retire.is_empty());
        prop_assert_eq!(&plan, &decide(&inputs, NOW));
        prop_assert!(reason(&plan) != Some(&HoldReason::Inconsistent));
        let collected = collect(&inputs, NOW);
        if collected.abort.is_none() {
            let current = collected.owners.iter().filter(|(o, _)| o.template_hash.as_deref() == Some("now"));
            let (running, live) = current.fold((0, 0), |(r, m), (_, t)| (r + t.running, m + t.running + t.pending));
            let desired = desired as usize;
            prop_assert!(plan.create == 0 || plan.create == desired.saturating_sub(live));
            prop_assert!(plan.retire.is_empty() || desired <= running);
            let kept: usize = collected.owners.iter()
                .filter(|(o, _)| o.template_hash.as_deref() == Some("now") && !plan.retire.contains(&o.name))
                .map(|(_, t)| t.running).sum();
            prop_assert!(kept >= desired.min(running));
        }
    }
}
