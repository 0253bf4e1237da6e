//! What people do and what goes wrong, one at a time.

use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Pod;
use minke_runners::controller::FINALIZER;
use serde_json::{Value, json};

use crate::cluster::Rates;
use crate::world::{World, set};

/// Longer than the forge's runners are listed apart.
const LONG_JOBS: Rates =
    Rates { call_fails: 0, answer_lost: 0, runner_fails: 0, lag: 0, job: Some((150_000, 200_000)) };

#[tokio::test(start_paused = true)]
async fn a_burst_runs_and_nothing_is_left() {
    let world = World::new(1, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["max"] = json!(50)));
    world.secs(1).await;
    world.queue(&["self-hosted", "linux"], 50);
    world.until(300, "all jobs run", |world| world.unfinished() == 0).await;
    world.until(120, "all is tidied up", |world| world.cluster.all_pods().is_empty()).await;
    world.secs(5).await;
    world.assert_clean();
    let inner = world.cluster.lock();
    assert_eq!(inner.made, 50, "a job, a Pod");
    let each = inner.writes as f64 / 50.0;
    // The status of the set is written once a second at most, and is none of a runner's own writes.
    let own = world.metrics.calls(&["create_secret", "create_pod", "patch_pod", "delete_pod", "delete_secret"]);
    assert!(own <= 5 * 50 + 20, "{own} writes, {each} with those of the set");
    assert!(world.metrics.calls(&["register", "remove"]) <= 2 * 50);
}

/// ARC 2798, 3203: two sets, one scope; each job is one set's, and none makes more than it may.
#[tokio::test(start_paused = true)]
async fn two_sets_of_a_scope_share_its_jobs_and_its_lists() {
    let world = World::new(2, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["max"] = json!(5)));
    world.cluster.apply(set("gpu", &["linux", "gpu"], |spec| spec["max"] = json!(3)));
    world.secs(1).await;
    world.queue(&["linux"], 12);
    world.queue(&["gpu"], 4);
    world.queue(&["windows"], 1);
    world.until(600, "all that can run has run", |world| world.unfinished() == 1).await;
    world.secs(90).await;
    assert_eq!(world.cluster.all_pods().len(), 0, "{}", world.describe());
    assert!(world.cluster.lock().most_pods <= 8);
    assert!(world.metrics.text().contains("minke_runners_unserved_jobs 1"));
    assert_eq!(world.cluster.lock().violations, Vec::<String>::new());
}

/// Jobs of a repository that a runner group is closed to are none of its sets'; runners for them would wait for nothing.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_closed_to_a_repository_makes_no_runners_for_it() {
    let world = World::new(17, Rates::default());
    world.state.lock().unwrap().restrict(2, &["octo/lib"]);
    world.cluster.apply(set("linux", &["linux"], |spec| spec["github"]["groupId"] = json!(2)));
    world.secs(2).await;
    world.queue(&["linux"], 4);
    world.secs(120).await;
    assert_eq!(world.cluster.lock().made, 0, "{}", world.describe());
    assert!(world.metrics.text().contains("minke_runners_unserved_jobs 4"));
    world.state.lock().unwrap().restrict(2, &["octo/lib", "Octo/App"]);
    world.until(700, "it was opened, and they run", |world| world.unfinished() == 0).await;
    world.secs(200).await;
    world.assert_clean();
    let asked = world.metrics.calls(&["group"]);
    assert!((2..=6).contains(&asked), "{asked} times in some minutes");
}

/// The job goes to the group that its repository may use, though another set fits it better.
#[tokio::test(start_paused = true)]
async fn a_job_goes_to_the_group_that_its_repository_may_use() {
    let world = World::new(18, Rates::default());
    world.state.lock().unwrap().restrict(2, &["octo/lib"]);
    world.cluster.apply(set("closed", &["linux"], |spec| spec["github"]["groupId"] = json!(2)));
    world.cluster.apply(set("open", &["linux", "gpu"], |_| {}));
    world.secs(2).await;
    world.queue(&["linux"], 5);
    world.until(300, "all run", |world| world.unfinished() == 0).await;
    world.secs(200).await;
    world.assert_clean();
    assert_eq!(world.cluster.lock().made, 5, "a Pod a job, all of the open group");
}

/// Asked of another scope, busy runners would seem to be gone, and their Pods would go with their jobs.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_moved_to_another_scope_stays_where_it_is_and_says_so() {
    let world = World::new(19, LONG_JOBS);
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.secs(1).await;
    world.queue(&["linux"], 3);
    world.until(60, "three run", |world| world.running() == 3).await;
    let moved = json!({"organization": "elsewhere", "credentialsSecret": "github"});
    world.cluster.apply(set("linux", &["linux"], |spec| spec["github"] = moved));
    world.until(10, "the status says so", |world| world.reason("linux", "Scaled") == "Invalid").await;
    let told = world.status("linux").conditions[0].message.clone();
    assert!(told.starts_with("spec.github: ") && told.contains("make another RunnerSet"), "{told}");
    world.queue(&["linux"], 1);
    world.until(400, "its jobs are still served", |world| world.unfinished() == 0).await;
    world.cluster.delete_set("ci", "linux");
    world.until(300, "and it may go", |world| !world.cluster.has_set("linux")).await;
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn min_idle_is_kept_and_a_lower_maximum_retires_whom_it_may() {
    let world = World::new(3, LONG_JOBS);
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(4)));
    world.until(150, "four wait", |world| world.status("linux").idle == 4).await;
    world.queue(&["linux"], 2);
    world
        .until(150, "two run, and four wait", |world| {
            world.status("linux").busy == 2 && world.status("linux").idle == 4
        })
        .await;
    world.cluster.apply(set("linux", &["linux"], |spec| spec["max"] = json!(1)));
    world.until(300, "nobody is left", |world| world.cluster.all_pods().is_empty()).await;
    world.secs(5).await;
    world.assert_clean();
}

/// ARC 4093, 4655, 3574: the secret is missing; nothing wedges, and it goes on when it is there.
#[tokio::test(start_paused = true)]
async fn without_a_credential_the_status_says_so_and_pods_are_let_go() {
    let world = World::new(4, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["min"] = json!(3)));
    world.until(150, "three wait", |world| world.status("linux").idle == 3).await;
    world.forges.0.no_credential.store(true, Ordering::Relaxed);
    world.cluster.delete_as_someone("linux-0");
    world.until(120, "the status says so", |world| world.reason("linux", "ForgeReachable") == "Credential").await;
    let told = world.cluster.lock().notices.iter().any(|notice| notice.reason == "NoCredential");
    assert!(told, "{:?}", world.cluster.lock().notices);
    world.cluster.delete_set("ci", "linux");
    world.secs(300).await;
    assert_eq!(world.cluster.all_pods().len(), 2, "who may have a job is not touched without the forge's word");
    for name in ["linux-1", "linux-2"] {
        world.cluster.delete_as_someone(name);
    }
    world.until(120, "Pods that someone deletes are let go", |world| world.cluster.all_pods().is_empty()).await;
    world.until(1200, "and the set does not stay for ever", |world| !world.cluster.has_set("linux")).await;
    assert!(world.cluster.lock().notices.iter().any(|notice| notice.reason == "RegistrationsLeft"));
    assert_eq!(world.cluster.lock().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_set_lets_its_jobs_finish() {
    let world = World::new(5, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(2)));
    world.queue(&["linux"], 3);
    world.until(60, "three run", |world| world.running() == 3).await;
    world.cluster.delete_set("ci", "linux");
    world.until(300, "the set is gone", |world| !world.cluster.has_set("linux")).await;
    world.secs(60).await;
    world.assert_clean();
}

/// PR 4473: a call that hangs held ARC's controller for 15 to 20 minutes.
#[tokio::test(start_paused = true)]
async fn a_forge_that_hangs_holds_nobody_up() {
    let world = World::new(6, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(1)));
    world.until(150, "one waits", |world| world.status("linux").idle == 1).await;
    world.forges.0.hangs.store(true, Ordering::Relaxed);
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(0)));
    world.secs(90).await;
    world.queue(&["linux"], 10);
    world.until(240, "jobs run meanwhile", |world| world.unfinished() == 0).await;
    world.forges.0.hangs.store(false, Ordering::Relaxed);
    world.secs(600).await;
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_forge_is_a_hold_and_goes_by() {
    let world = World::new(7, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.forges.0.away.store(true, Ordering::Relaxed);
    world.secs(1).await;
    world.queue(&["linux"], 5);
    world.until(60, "the status says so", |world| world.reason("linux", "ForgeReachable") == "ForgeUnavailable").await;
    world.secs(1800).await;
    let calls = world.metrics.calls(&["register"]);
    assert!(calls < 120, "{calls} tries in half an hour");
    world.forges.0.away.store(false, Ordering::Relaxed);
    world.until(600, "all run", |world| world.unfinished() == 0).await;
    world.secs(300).await;
    world.assert_clean();
}

/// ARC 4489: two were created for one, since the cache was behind; 1307 and others: nobody knows what a dead controller did.
#[tokio::test(start_paused = true)]
async fn a_controller_that_dies_at_any_moment_is_followed_by_one_that_knows() {
    for moment in [50, 300, 700, 1_500, 4_000, 9_000, 20_000] {
        let mut world = World::new(8 + moment, Rates { lag: 2_000, ..Rates::default() });
        // A repository's jobs are polled even if nobody has ever told of one.
        let github = json!({"repository": "Octo/app", "credentialsSecret": "github"});
        world.cluster.apply(set("linux", &["linux"], |spec| spec["github"] = github));
        world.secs(5).await;
        world.queue(&["linux"], 10);
        tokio::time::sleep(std::time::Duration::from_millis(moment)).await;
        world.crash();
        world.secs(3).await;
        world.start();
        world.until(900, "all jobs run", |world| world.unfinished() == 0).await;
        world.secs(600).await;
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_deliveries_are_made_up_for() {
    let world = World::new(9, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.secs(1).await;
    world.queue(&["linux"], 3);
    world.until(60, "some run", |world| world.running() == 3).await;
    *world.lost.lock().unwrap() = 1000;
    world.queue(&["linux"], 5);
    world.until(400, "all run, although nobody was told", |world| world.unfinished() == 0).await;
    world.secs(600).await;
    world.assert_clean();
}

fn claims(spec: &mut Value) {
    spec["workVolume"] = json!({"unusedSeconds": 900, "claimTemplate":
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}});
}

/// ARC 1286, 2092, 2266, 2282, 3221.
#[tokio::test(start_paused = true)]
async fn claims_are_used_again_and_none_is_left() {
    let world = World::new(10, Rates { lag: 500, ..Rates::default() });
    world.cluster.apply(set("linux", &["linux"], |spec| {
        claims(spec);
        spec["max"] = json!(4);
    }));
    world.secs(1).await;
    for _ in 0..5 {
        world.queue(&["linux"], 4);
        world.until(600, "all run", |world| world.unfinished() == 0).await;
    }
    assert_eq!(world.cluster.lock().claims_made, 4, "20 jobs, and a claim a slot");
    world.until(1800, "unused ones go", |world| world.cluster.all_claims().is_empty()).await;
    world.queue(&["linux"], 2);
    world.until(300, "all run", |world| world.unfinished() == 0).await;
    world.cluster.delete_set("ci", "linux");
    world.until(300, "the set is gone", |world| !world.cluster.has_set("linux")).await;
    assert_eq!(world.cluster.all_claims(), Vec::<String>::new());
    world.assert_clean();
}

/// ARC 1535: a rollout killed jobs.
#[tokio::test(start_paused = true)]
async fn a_new_template_serves_new_jobs_and_lets_old_ones_finish() {
    let world = World::new(11, LONG_JOBS);
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(2)));
    world.queue(&["linux"], 2);
    world.until(150, "two run and two wait", |world| world.running() == 2 && world.status("linux").idle == 2).await;
    world.cluster.apply(set("linux", &["linux"], |spec| {
        spec["minIdle"] = json!(2);
        spec["template"]["spec"]["containers"][0]["image"] = json!("runner:2");
    }));
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    world
        .until(120, "those that wait are new", |world| {
            let pods = world.cluster.all_pods();
            pods.iter().filter(|pod| image(pod).as_deref() == Some("runner:2")).count() == 2
        })
        .await;
    world.until(300, "the old ones finish", |world| world.unfinished() == 0).await;
    assert_eq!(world.cluster.lock().violations, Vec::<String>::new());
}

/// ARC 1307, 1369, 1575, 3010: a node is lost with all that runs on it.
#[tokio::test(start_paused = true)]
async fn a_lost_node_keeps_nobody() {
    let world = World::new(12, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["min"] = json!(2)));
    world.until(150, "two wait", |world| world.status("linux").idle == 2).await;
    world.cluster.lock().node_lost = true;
    for name in ["linux-0", "linux-1"] {
        world.cluster.delete_as_someone(name);
    }
    let lost = world.cluster.all_pods();
    world.secs(5).await;
    world.cluster.lock().node_lost = false;
    world
        .until(900, "others take their places", |world| {
            world.status("linux").idle == 2
                && world
                    .cluster
                    .all_pods()
                    .iter()
                    .all(|pod| lost.iter().all(|old| old.metadata.uid != pod.metadata.uid))
        })
        .await;
    assert_eq!(world.registrations(), 2, "{}", world.describe());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_set_says_all_that_is_wrong_and_begins_when_it_is_put_right() {
    let world = World::new(13, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| {
        spec["min"] = json!(30);
        spec["template"]["spec"]["containers"][0]["name"] = json!("main");
    }));
    world.until(10, "the status says so", |world| world.reason("linux", "Scaled") == "Invalid").await;
    let message = world.status("linux").conditions[0].message.clone();
    assert_eq!(
        message,
        "spec.template.spec.containers: must have a container called runner; spec.min: must not be above max: lower min, or raise max"
    );
    let writes = world.cluster.lock().writes;
    world.secs(600).await;
    assert_eq!(world.cluster.lock().writes, writes, "said once");
    world.cluster.apply(set("linux", &["linux"], |spec| spec["min"] = json!(3)));
    world.until(150, "three wait", |world| world.status("linux").idle == 3).await;
    assert_eq!(world.reason("linux", "Scaled"), "AsWanted");
}

/// A template that the cluster refuses: few tries, a reason, and jobs run when it is put right.
#[tokio::test(start_paused = true)]
async fn a_template_that_is_refused_is_tried_less_and_less() {
    let world = World::new(14, Rates::default());
    world.cluster.lock().refuses_pods = true;
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.queue(&["linux"], 5);
    world.until(60, "the status says so", |world| world.reason("linux", "Scaled") == "ApiUnavailable").await;
    world.secs(3600).await;
    let calls = world.metrics.calls(&["register"]);
    assert!(calls < 5 * 25, "{calls} registrations in an hour");
    world.cluster.lock().refuses_pods = false;
    world.until(900, "all run", |world| world.unfinished() == 0).await;
    world.secs(900).await;
    world.assert_clean();
}

/// ARC 3629: a quota that is used up is no failure.
#[tokio::test(start_paused = true)]
async fn a_quota_holds_back_and_is_told() {
    let world = World::new(15, Rates::default());
    world.cluster.lock().quota = Some(2);
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.secs(1).await;
    world.queue(&["linux"], 6);
    world.until(60, "the status says so", |world| world.reason("linux", "Scaled") == "Quota").await;
    world.until(1200, "all run, two at a time", |world| world.unfinished() == 0).await;
    assert!(world.cluster.lock().most_pods <= 2);
    world.secs(900).await;
    world.assert_clean();
}

/// What no set's engine knows of would be held by the finalizer for ever.
#[tokio::test(start_paused = true)]
async fn pods_of_sets_that_are_no_more_are_let_go() {
    let world = World::new(16, Rates::default());
    let pod = |name: &str, status: Value| -> Pod {
        let metadata = json!({"name": name, "namespace": "ci", "labels": {"runners.minke.dev/set": "gone"},
            "finalizers": [FINALIZER], "annotations": {"test/stopped": ""}});
        let spec = json!({"containers": [{"name": "runner"}], "nodeName": "node"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    };
    world.cluster.plant(pod("gone-0", json!({"phase": "Succeeded"})));
    world.cluster.plant(pod("gone-1", json!({"phase": "Running"})));
    world.until(120, "the one that has ended goes", |world| world.cluster.all_pods().len() == 1).await;
    assert_eq!(world.cluster.all_pods()[0].metadata.name.as_deref(), Some("gone-1"), "the other one still runs");
    assert!(world.metrics.text().contains("minke_runners_stray_pods"));
}
