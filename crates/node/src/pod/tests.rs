use jiff::{SignedDuration, Timestamp};
use minke_core::identity::PodUid;
use serde_json::json;

use super::*;

fn moment() -> Now {
    Now { instant: Instant::now(), wall: Timestamp::from_second(1_800_000_000).unwrap() }
}

fn later(now: Now, seconds: i64) -> Now {
    let ahead = Duration::from_secs(u64::try_from(seconds).unwrap());
    Now { instant: now.instant + ahead, wall: now.wall + SignedDuration::from_secs(seconds) }
}

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

fn key() -> PodKey {
    PodKey::new("ns", "web", PodUid::new("u").unwrap())
}

fn with_status(pod: &Pod, status: Value) -> Arc<Pod> {
    Arc::new(Pod { status: Some(serde_json::from_value(status).unwrap()), ..pod.clone() })
}

fn leaving(pod: &Pod, now: Now, grace: i64) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now.wall + SignedDuration::from_secs(grace)));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

fn running() -> PodStatus {
    serde_json::from_value(json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}}],
    }))
    .unwrap()
}

fn ended(exit_code: i32) -> PodStatus {
    let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
    serde_json::from_value(json!({
        "phase": phase,
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": exit_code, "reason": "Error"}}}],
    }))
    .unwrap()
}

struct World {
    machine: PodMachine,
    now: Now,
}

impl World {
    fn new(object: Pod, held: Option<Pod>) -> Self {
        let now = moment();
        Self { machine: PodMachine::new(key(), Arc::new(object), held.map(Arc::new), now).0, now }
    }

    fn step(&mut self, event: PodEvent) -> Vec<Action> {
        self.machine.step(event, self.now)
    }

    fn call(&mut self) -> Option<Call> {
        let actions = self.step(PodEvent::ProviderTurn { clear: true });
        actions.into_iter().find_map(|a| if let Action::Call(call) = a { Some(call) } else { None })
    }

    fn write(&mut self) -> Option<Write> {
        let actions = self.step(PodEvent::ApiTurn);
        actions.into_iter().find_map(|a| if let Action::Write(write) = a { Some(write) } else { None })
    }

    /// Writes what there is to write, as an API that takes patches would; returns the status patched.
    fn patch(&mut self) -> Option<Value> {
        let Some(Write::Patch(patch)) = self.write() else { return None };
        let mut status = serde_json::to_value(self.machine.object.status.clone().unwrap_or_default()).unwrap();
        for (field, value) in patch["status"].as_object().unwrap() {
            status[field] = value.clone();
            if let Some(ips) = status[field].as_array_mut() {
                ips.retain(|ip| ip.get("$patch").is_none());
            }
        }
        let mut object = (*self.machine.object).clone();
        object.status = Some(serde_json::from_value(status).unwrap());
        drop(self.step(PodEvent::Wrote(WriteResult::Done(Some(Arc::new(object))))));
        Some(patch["status"].clone())
    }

    fn created(object: Pod) -> Self {
        let mut world = Self::new(object, None);
        let Some(Call::Create(pod)) = world.call() else { panic!("not created") };
        drop(world.step(PodEvent::Called(CallResult::Applied { pod, called: true })));
        world
    }

    fn runs() -> Self {
        let mut world = Self::created(pod());
        drop(world.step(PodEvent::Status(Box::new(running()))));
        world.patch();
        world
    }

    fn fail(&mut self, permanent: bool, perhaps: bool) -> Vec<Action> {
        let trouble = Trouble::Failed { message: "no luck".to_owned(), permanent };
        self.step(PodEvent::Called(CallResult::Failed { trouble, perhaps }))
    }

    fn object(&self) -> Pod {
        (*self.machine.object).clone()
    }

    fn status(&self) -> PodStatus {
        self.machine.object.status.clone().unwrap_or_default()
    }
}

fn reasons(actions: &[Action]) -> Vec<&'static str> {
    let reason = |a: &Action| if let Action::Tell { reason, .. } = a { Some(*reason) } else { None };
    actions.iter().filter_map(reason).collect()
}

#[test]
fn a_wanted_pod_is_created_once_and_reported() {
    let mut world = World::new(pod(), None);
    let Some(Call::Create(object)) = world.call() else { panic!("not created") };
    let actions = world.step(PodEvent::Called(CallResult::Applied { pod: object, called: true }));
    assert_eq!(reasons(&actions), ["ProviderCreateSuccess"]);
    assert_eq!(world.call(), None);
    drop(world.step(PodEvent::Status(Box::new(running()))));
    assert_eq!(world.patch().unwrap()["phase"], "Running");
    assert_eq!(world.write(), None, "said once");
}

#[test]
fn a_changed_pod_is_updated() {
    let mut world = World::runs();
    let mut changed = world.object();
    changed.spec.as_mut().unwrap().active_deadline_seconds = Some(7);
    let actions = world.step(PodEvent::Seen(Arc::new(changed.clone())));
    assert!(matches!(actions[0], Action::Look(Lane::Provider, Urgency::Cure, _)));
    let expected = Call::Update { pod: Arc::new(changed), unless: None };
    assert_eq!(world.call(), Some(expected));
}

#[test]
fn a_pod_that_has_ended_before_is_not_touched() {
    for phase in ["Failed", "Succeeded"] {
        let mut world = World::new((*with_status(&pod(), json!({"phase": phase}))).clone(), None);
        assert_eq!((world.call(), world.write()), (None, None));
    }
}

#[test]
fn s10_a_write_to_a_pod_that_is_gone_is_not_repeated() {
    let mut world = World::runs();
    let actions = world.step(PodEvent::Wrote(WriteResult::Gone));
    assert_eq!(actions, [Action::Finish(Lane::Api, Outcome::Done)]);
}

#[test]
fn s4_a_foreign_change_of_the_status_is_repaired() {
    let mut world = World::runs();
    let mut object = world.object();
    object.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "False".to_owned();
    let actions = world.step(PodEvent::Seen(Arc::new(object)));
    assert!(actions.iter().any(|a| matches!(a, Action::Look(Lane::Api, ..))));
    assert_eq!(world.patch().unwrap()["conditions"][0]["status"], "True");
}

#[test]
fn s6_a_provider_that_failed_once_is_believed_again() {
    let mut world = World::new(pod(), None);
    world.call();
    assert_eq!(reasons(&world.fail(false, false)), ["ProviderCreateFailed"]);
    let status = world.patch().unwrap();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Pending"), &json!("ProviderFailed")));
    let Some(Call::Create(object)) = world.call() else { panic!("not tried again") };
    drop(world.step(PodEvent::Called(CallResult::Applied { pod: object, called: true })));
    drop(world.step(PodEvent::Status(Box::new(running()))));
    let status = world.patch().unwrap();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Running"), &Value::Null));
}

#[test]
fn s9_an_eviction_behind_the_provider_deletes_the_object() {
    let mut world = World::runs();
    drop(world.step(PodEvent::Evicted(Duration::from_secs(5))));
    assert_eq!(world.write(), Some(Write::Evict(Duration::from_secs(5))));
    drop(world.step(PodEvent::Wrote(WriteResult::Done(None))));
    assert_eq!(world.write(), None);
}

#[test]
fn s11_s13_a_pod_without_any_status_is_no_panic() {
    let mut world = World::created(pod());
    assert_eq!(world.write(), None);
    drop(world.step(PodEvent::Listed { held: Some(Arc::new(pod())), asked: later(world.now, 1).instant }));
    drop(world.step(PodEvent::Status(Box::default())));
    assert_eq!(world.write(), None);
}

#[test]
fn s14_r4_r5_r6_patches_carry_the_uid_and_the_status_and_nothing_else() {
    let mut world = World::created(pod());
    drop(world.step(PodEvent::Status(Box::new(running()))));
    let mut patches = vec![world.write()];
    let mut failed = World::new(pod(), None);
    failed.call();
    drop(failed.fail(false, false));
    patches.push(failed.write());
    for write in patches {
        let Some(Write::Patch(patch)) = write else { panic!("no patch") };
        assert_eq!(patch["metadata"], json!({"uid": "u"}));
        assert_eq!(patch.as_object().unwrap().len(), 2, "{patch}");
    }
}

#[test]
fn conditions_of_others_stay() {
    let mut world = World::runs();
    let mut object = world.object();
    let foreign = json!({"type": "example.com/gate", "status": "True"});
    let conditions = object.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions.push(serde_json::from_value(foreign).unwrap());
    drop(world.step(PodEvent::Seen(Arc::new(object))));
    assert_eq!(world.write(), None);
}

#[test]
fn a_server_that_keeps_something_else_is_not_patched_for_ever() {
    let mut world = World::created(pod());
    drop(world.step(PodEvent::Status(Box::new(running()))));
    assert!(matches!(world.write(), Some(Write::Patch(_))));
    let unchanged = Arc::new(world.object());
    drop(world.step(PodEvent::Wrote(WriteResult::Done(Some(unchanged)))));
    assert_eq!(world.write(), None);
    let mut news = running();
    news.message = Some("new".to_owned());
    drop(world.step(PodEvent::Status(Box::new(news))));
    assert!(matches!(world.write(), Some(Write::Patch(_))), "news are tried");
}

#[test]
fn r1_the_object_is_removed_the_moment_the_last_container_is_gone() {
    let mut world = World::runs();
    let going = leaving(&world.object(), world.now, 30);
    drop(world.step(PodEvent::Seen(Arc::new(going))));
    assert_eq!(world.call(), Some(Call::Delete(Duration::from_secs(30))));
    drop(world.step(PodEvent::Called(CallResult::Deleted)));
    assert_eq!(world.write(), None, "it runs");
    drop(world.step(PodEvent::Status(Box::new(ended(0)))));
    assert_eq!(world.patch().unwrap()["phase"], "Succeeded");
    assert_eq!(world.write(), Some(Write::Remove));
    assert_eq!(world.write(), None, "removed once");
}

#[test]
fn the_grace_is_counted_from_the_deletion_and_only_shrinks() {
    let mut world = World::runs();
    let going = leaving(&world.object(), world.now, 30);
    drop(world.step(PodEvent::Seen(Arc::new(going.clone()))));
    world.now = later(world.now, 20);
    assert_eq!(world.call(), Some(Call::Delete(Duration::from_secs(10))));
    drop(world.step(PodEvent::Called(CallResult::Deleted)));
    assert_eq!(world.call(), None);
    let sooner = leaving(&going, world.now, 2);
    drop(world.step(PodEvent::Seen(Arc::new(sooner))));
    assert_eq!(world.call(), Some(Call::Delete(Duration::from_secs(2))));
}

#[test]
fn a_deletion_that_was_lost_is_noticed_and_repeated() {
    let mut world = World::runs();
    let going = leaving(&world.object(), world.now, 1);
    drop(world.step(PodEvent::Seen(Arc::new(going))));
    world.call();
    drop(world.step(PodEvent::Called(CallResult::Deleted)));
    world.now = later(world.now, 11);
    assert_eq!(world.call(), Some(Call::Get));
    drop(world.step(PodEvent::Called(CallResult::Got(Some(with_status(&pod(), json!({})))))));
    assert_eq!(world.call(), Some(Call::Delete(Duration::ZERO)));
}

#[test]
fn a_pod_that_never_started_is_removed_without_asking_the_provider() {
    let now = moment();
    let mut world = World::new(leaving(&pod(), now, 30), None);
    assert_eq!((world.call(), world.write()), (None, Some(Write::Remove)));
}

#[test]
fn r13_a_provider_that_does_not_know_the_pod_has_deleted_it() {
    let mut world = World::runs();
    let going = leaving(&world.object(), world.now, 30);
    drop(world.step(PodEvent::Seen(Arc::new(going))));
    world.call();
    let actions = world.step(PodEvent::Called(CallResult::NotFound));
    assert_eq!(reasons(&actions), Vec::<&str>::new(), "no warning");
    while world.patch().is_some() {}
    assert!(world.machine.has_ended());
}

#[test]
fn a_deletion_that_fails_is_tried_again_and_the_object_stays() {
    let mut world = World::runs();
    let going = leaving(&world.object(), world.now, 30);
    drop(world.step(PodEvent::Seen(Arc::new(going))));
    for _ in 0..3 {
        assert!(matches!(world.call(), Some(Call::Delete(_))));
        let actions = world.fail(false, true);
        assert_eq!(actions[0], Action::Finish(Lane::Provider, Outcome::Retry { at_least: Duration::ZERO }));
        assert_eq!(reasons(&actions), ["ProviderDeleteFailed"]);
    }
    assert_eq!(world.write(), None);
}

#[test]
fn a_create_that_may_have_happened_is_looked_for_before_anything_else() {
    let mut world = World::new(pod(), None);
    world.call();
    drop(world.fail(false, true));
    assert_eq!(world.call(), Some(Call::Get));
    drop(world.step(PodEvent::Called(CallResult::Got(None))));
    assert!(matches!(world.call(), Some(Call::Create(_))));
    drop(world.fail(false, true));
    world.call();
    let held = with_status(&pod(), json!({}));
    drop(world.step(PodEvent::Called(CallResult::Got(Some(held.clone())))));
    assert_eq!(world.call(), Some(Call::Update { pod: Arc::new(pod()), unless: Some(held) }));
}

#[test]
fn a_pod_that_ran_and_is_not_held_fails_and_is_not_started_again() {
    let object = with_status(&pod(), serde_json::to_value(running()).unwrap());
    let mut world = World::new((*object).clone(), None);
    assert_eq!(world.call(), None);
    let status = world.patch().unwrap();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("NotFound")));
    let ended = world.status().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(world.write(), None);
}

#[test]
fn lists_that_are_older_than_a_call_say_nothing() {
    let mut world = World::runs();
    assert_eq!(world.step(PodEvent::Listed { held: None, asked: world.now.instant }), []);
    let asked = later(world.now, 1).instant;
    world.now = later(world.now, 2);
    assert!(!world.step(PodEvent::Listed { held: None, asked }).is_empty());
    assert_eq!(world.machine.holding, Holding::Lost);
}

#[test]
fn r9_exit_codes_that_come_after_the_phase_are_written() {
    let mut world = World::runs();
    let mut early = running();
    early.phase = Some("Failed".to_owned());
    early.container_statuses.as_mut().unwrap()[0].state = None;
    drop(world.step(PodEvent::Status(Box::new(early))));
    assert_eq!(world.patch().unwrap()["phase"], "Failed");
    drop(world.step(PodEvent::Status(Box::new(ended(3)))));
    let status = world.patch().unwrap();
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
}

#[test]
fn r10_a_missing_reference_is_told_by_the_container_that_waits_for_it() {
    let mut world = World::new(pod(), None);
    world.call();
    let trouble = Trouble::Config { container: "c".to_owned(), message: "configmap \"m\" not found".to_owned() };
    drop(world.step(PodEvent::Called(CallResult::Failed { trouble, perhaps: false })));
    let status = world.patch().unwrap();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "CreateContainerConfigError");
    assert!(matches!(world.step(PodEvent::ObjectsChanged(2))[0], Action::Look(Lane::Provider, Urgency::Cure, _)));
    assert!(matches!(world.call(), Some(Call::Create(_))), "r2: a late arrival is taken up");
}

#[test]
fn r12_an_update_that_fails_takes_no_phase_back() {
    let mut world = World::runs();
    let mut changed = world.object();
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    drop(world.step(PodEvent::Seen(Arc::new(changed))));
    world.call();
    assert_eq!(reasons(&world.fail(true, false)), ["ProviderUpdateFailed"]);
    let status = world.patch().unwrap();
    assert_eq!((status.get("phase"), &status["reason"]), (None, &json!("ProviderFailed")));
    assert_eq!(world.status().phase.as_deref(), Some("Running"));
}

#[test]
fn a_failed_update_is_no_reason_for_an_end_that_came_by_itself() {
    let mut world = World::runs();
    let mut changed = world.object();
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    drop(world.step(PodEvent::Seen(Arc::new(changed))));
    world.call();
    drop(world.fail(false, false));
    world.patch();
    drop(world.step(PodEvent::Status(Box::new(ended(1)))));
    world.patch();
    assert_eq!((world.status().phase.as_deref(), world.status().reason), (Some("Failed"), None));
}

#[test]
fn a_rejected_pod_fails_with_the_providers_reason_and_stays_so() {
    let mut world = World::new(pod(), None);
    world.call();
    let trouble = Trouble::Rejected { reason: "OutOfcpu".to_owned(), message: "no cpu".to_owned() };
    drop(world.step(PodEvent::Called(CallResult::Failed { trouble, perhaps: false })));
    let status = world.patch().unwrap();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert_eq!((world.call(), world.write()), (None, None));
}

#[test]
fn what_fails_for_good_waits_longer_and_fails_only_pods_that_are_never_restarted() {
    for (policy, phase) in [("Never", "Failed"), ("Always", "Pending")] {
        let mut object = pod();
        object.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        let mut world = World::new(object, None);
        world.call();
        let actions = world.fail(true, false);
        let retry = Outcome::Retry { at_least: Duration::from_secs(300) };
        assert_eq!(actions[0], Action::Finish(Lane::Provider, retry));
        assert_eq!(world.patch().unwrap()["phase"], phase);
    }
}

#[test]
fn leftovers_end_and_are_forgotten() {
    let now = moment();
    let (machine, _) = PodMachine::leftover(key(), Arc::new(pod()), now);
    let mut world = World { machine, now };
    assert_eq!(world.call(), Some(Call::Delete(Duration::from_secs(30))));
    drop(world.step(PodEvent::Called(CallResult::Deleted)));
    assert_eq!(world.step(PodEvent::Forgotten).last(), Some(&Action::Drop));
    assert_eq!(world.write(), None);
}

#[test]
fn s1_s2_r8_a_former_pod_in_the_way_is_waited_for() {
    let mut world = World::new(pod(), None);
    let actions = world.step(PodEvent::ProviderTurn { clear: false });
    assert_eq!(actions, [Action::Finish(Lane::Provider, Outcome::Done)]);
    assert!(matches!(world.call(), Some(Call::Create(_))));
}

#[test]
fn s5_a_change_of_labels_alone_is_told_to_the_provider() {
    let mut world = World::runs();
    assert_eq!(world.call(), None);
    let mut object = world.object();
    object.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    drop(world.step(PodEvent::Seen(Arc::new(object))));
    let Some(Call::Update { pod, .. }) = world.call() else { panic!("the provider is not told") };
    assert_eq!(pod.metadata.labels.as_ref().unwrap()["tier"], "web");
    assert_eq!(world.write(), None, "the status is as it was");
}

#[test]
fn r6_a_failure_is_written_as_any_status_is() {
    let mut world = World::new(pod(), None);
    assert!(world.call().is_some());
    drop(world.fail(false, false));
    let Some(Write::Patch(patch)) = world.write() else { panic!("nothing is written") };
    assert_eq!(patch["status"]["reason"], "ProviderFailed");
    assert_eq!(patch["metadata"], json!({"uid": "u"}), "guarded by the uid, not by a version");
}

#[test]
fn the_end_is_known_once_the_api_says_so() {
    let mut world = World::runs();
    drop(world.step(PodEvent::Status(Box::new(ended(0)))));
    assert!(!world.machine.api_knows_its_end());
    world.patch();
    assert!(world.machine.api_knows_its_end());
}
