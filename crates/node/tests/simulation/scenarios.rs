//! Single stories, by name.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use minke_core::fake::{
    FakeClock, FakePodLife, FakeProvider, ProviderFault, ProviderFaultAction, ProviderFaultError, ProviderOp,
};
use minke_core::identity::PodKey;
use minke_core::provider::Notices;
use minke_node::controller::{Controller, MissingPart, Options};
use minke_node::environment::NodeFacts;
use minke_node::references::{Known, ObjectKind, ObjectRef};
use serde_json::json;

use crate::api::{FakeApi, Rates};
use crate::world::World;

const BOTH: [Notices; 2] = [Notices::Pushed, Notices::Polled];

async fn running(notices: Notices) -> World {
    let mut world = World::new(1, notices);
    assert!(world.start().ready().await);
    world
}

fn key(world: &World, name: &str) -> PodKey {
    PodKey::of(&world.api.pod(name).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_created_runs_and_goes() {
    for notices in BOTH {
        let world = running(notices).await;
        let stops_after = Duration::from_secs(2);
        world.provider.set_life(FakePodLife { starts_after: Duration::from_secs(1), ends: None, stops_after });
        world.api.create("a", &json!({}));
        world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
        world.api.delete_pod("a", Duration::from_secs(10));
        world.until("gone", |w| w.api.pods().is_empty() && w.provider.held() == 0).await;
        let reasons = world.api.reasons();
        assert_eq!(reasons, ["ProviderCreateSuccess", "ProviderDeleteSuccess"], "{notices:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r1_a_deleted_pod_does_not_linger_for_its_grace() {
    let world = running(Notices::Pushed).await;
    world.provider.set_life(FakePodLife { stops_after: Duration::from_secs(2), ..FakePodLife::default() });
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.api.delete_pod("a", Duration::from_secs(300));
    let before = tokio::time::Instant::now();
    world.until("gone", |w| w.api.pods().is_empty()).await;
    assert!(before.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_provider_does_not_know_removes_the_object() {
    let world = running(Notices::Pushed).await;
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.provider.lose(&key(&world, "a"));
    world.api.delete_pod("a", Duration::from_secs(10));
    world.until("gone", |w| w.api.pods().is_empty()).await;
    assert!(!world.api.reasons().iter().any(|reason| reason == "ProviderDeleteFailed"), "r13: no warning");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_repeated_and_the_object_stays() {
    let world = running(Notices::Pushed).await;
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.provider.add_fault(ProviderFault::fail(ProviderOp::Delete));
    world.api.delete_pod("a", Duration::from_secs(10));
    world.until("tried", |w| w.provider.calls(ProviderOp::Delete) > 5).await;
    assert!(world.api.pod("a").is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_when_the_controller_starts_goes() {
    let mut world = running(Notices::Pushed).await;
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.kill().await;
    world.api.delete_pod("a", Duration::from_secs(10));
    world.start();
    world.until("gone", |w| w.api.pods().is_empty() && w.provider.held() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_not_touched() {
    for phase in ["Failed", "Succeeded"] {
        let mut world = World::new(1, Notices::Pushed);
        world.api.create("a", &json!({}));
        world.api.edit("a", |pod| pod.status.as_mut().unwrap().phase = Some(phase.to_owned()));
        world.start().ready().await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!((world.api.writes(), world.provider.calls(ProviderOp::Create)), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_that_is_changed_is_updated() {
    for notices in BOTH {
        let world = running(notices).await;
        world.api.create("a", &json!({}));
        world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
        world.api.edit("a", |pod| pod.spec.as_mut().unwrap().active_deadline_seconds = Some(9));
        world.until("updated", |w| w.provider.calls(ProviderOp::Update) == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_pod_that_comes_again_within_the_grace_of_the_former_is_safe() {
    let world = running(Notices::Pushed).await;
    world.provider.set_life(FakePodLife { stops_after: Duration::from_secs(8), ..FakePodLife::default() });
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.api.delete_pod("a", Duration::from_secs(30));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.api.delete_pod("a", Duration::ZERO);
    world.api.create("a", &json!({}));
    world.until("the second runs", |w| w.phase("a").as_deref() == Some("Running")).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.unrest().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn s9_an_eviction_behind_the_provider_reaches_the_api() {
    let world = running(Notices::Pushed).await;
    world.api.create("a", &json!({}));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    world.provider.evict(&key(&world, "a"), Duration::from_secs(5));
    world.until("gone", |w| w.api.pods().is_empty() && w.provider.held() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn s6_r2_a_provider_that_recovers_after_an_hour_runs_the_pod() {
    let world = running(Notices::Pushed).await;
    world
        .provider
        .add_fault(ProviderFault::on(ProviderOp::Create, ProviderFaultAction::Fail(ProviderFaultError::Unavailable)));
    world.api.create("a", &json!({"restartPolicy": "Never"}));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let status = world.api.pod("a").unwrap().status.unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Pending"), Some("ProviderFailed")));
    world.provider.clear_faults();
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
    assert_eq!(world.api.pod("a").unwrap().status.unwrap().reason, None);
}

#[tokio::test(start_paused = true)]
async fn r2_r10_a_configmap_that_comes_late_starts_the_pod() {
    let world = running(Notices::Pushed).await;
    let env = json!([{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "m"}}]}]);
    world.api.create("a", &json!({"containers": env}));
    let waits = |w: &World| {
        let status = w.api.pod("a").unwrap().status.unwrap();
        let state = status.container_statuses.unwrap_or_default().first().and_then(|c| c.state.clone());
        state.and_then(|s| s.waiting).and_then(|w| w.reason).as_deref() == Some("CreateContainerConfigError")
    };
    world.until("told", waits).await;
    assert!(world.api.reasons().iter().any(|reason| reason == "MandatoryConfigMapNotFound"));
    let map = ConfigMap { data: Some([("K".to_owned(), "v".to_owned())].into()), ..ConfigMap::default() };
    let mut map = map;
    (map.metadata.namespace, map.metadata.name) = (Some("ns".to_owned()), Some("m".to_owned()));
    let object = ObjectRef { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: "m".to_owned() };
    world.api.set_object(&object, Known::ConfigMap(Arc::new(map)));
    world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
}

#[tokio::test(start_paused = true)]
async fn r3_r8_what_happens_while_the_watch_is_away_is_noticed() {
    let world = running(Notices::Pushed).await;
    for name in ["a", "b"] {
        world.api.create(name, &json!({}));
        world.until("running", |w| w.phase(name).as_deref() == Some("Running")).await;
    }
    world.api.set_rates(Rates { fails: 1000, ..Rates::default() });
    world.api.lose_watches(true);
    world.api.delete_pod("a", Duration::ZERO);
    world.api.delete_pod("b", Duration::ZERO);
    world.api.create("b", &json!({}));
    world.api.lose_watches(true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.provider.held(), 2, "an API that is away wants nothing else than before");
    world.api.set_rates(Rates::default());
    world.until("b runs again", |w| w.provider.keys().iter().any(|k| &*k.uid.to_string() == "b-3")).await;
    world.until("a is gone", |w| w.provider.held() == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.unrest().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_away_for_ten_minutes_and_back_with_an_older_history_moves_no_pod_that_it_knows() {
    for notices in BOTH {
        let world = running(notices).await;
        for name in ["kept", "ended", "removed"] {
            world.api.create(name, &json!({}));
            world.until("running", |w| w.phase(name).as_deref() == Some("Running")).await;
        }
        let (kept, backup) = (key(&world, "kept"), world.api.backup());
        world.api.delete_pod("removed", Duration::from_secs(10));
        world.until("gone", |w| w.api.pods().len() == 2).await;
        world.api.create("new", &json!({}));
        world.until("running", |w| w.phase("new").as_deref() == Some("Running")).await;

        world.api.set_rates(Rates { fails: 1000, ..Rates::default() });
        world.api.lose_watches(true);
        // What ends while nobody can be told is told later.
        world.provider.end(&key(&world, "ended"), 3);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.provider.held(), 3, "an API that is away ends nothing");
        world.api.restore(backup);
        world.api.set_rates(Rates::default());

        world.until("told", |w| w.phase("ended").as_deref() == Some("Failed")).await;
        // It was deleted, and its API has forgotten that: it is not started a second time.
        world.until("told", |w| w.phase("removed").as_deref() == Some("Failed")).await;
        // Nobody knows it any more.
        world.until("ended", |w| w.provider.keys().iter().all(|key| &*key.name != "new")).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.provider.calls(ProviderOp::Create), 4, "{notices:?}: nothing was started twice");
        assert!(world.provider.keys().contains(&kept) && world.phase("kept").as_deref() == Some("Running"));
        let writes = world.api.writes();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.api.writes(), writes, "{notices:?}: it has come to rest");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_clock_is_two_hours_wrong_gives_pods_their_grace_and_no_more() {
    for hours in [-2, 2] {
        let world = running(Notices::Pushed).await;
        world.set_clock(SignedDuration::from_hours(hours));
        world.provider.set_life(FakePodLife { stops_after: Duration::from_secs(20), ..FakePodLife::default() });
        world.api.create("a", &json!({}));
        world.until("running", |w| w.phase("a").as_deref() == Some("Running")).await;
        world.api.delete_pod("a", Duration::from_secs(30));
        let before = tokio::time::Instant::now();
        world.until("gone", |w| w.api.pods().is_empty() && w.provider.held() == 0).await;
        let took = before.elapsed().as_secs();
        assert!((20..25).contains(&took), "it stops by itself after 20 s, and took {took} s with {hours} h");
    }
}

#[tokio::test(start_paused = true)]
async fn r22_polling_costs_one_list_a_sweep_however_many_pods() {
    let world = running(Notices::Polled).await;
    for number in 0..200 {
        world.api.create(&format!("p{number}"), &json!({}));
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.api.pods().iter().all(|p| p.status.as_ref().unwrap().phase.as_deref() == Some("Running")));
    let (lists, gets) = (world.provider.calls(ProviderOp::List), world.provider.calls(ProviderOp::Status));
    assert!(lists <= 8 && gets == 0, "{lists} lists, {gets} single questions");
}

#[tokio::test(start_paused = true)]
async fn r24_an_empty_list_ends_nobody() {
    let mut world = running(Notices::Pushed).await;
    for number in 0..30 {
        world.api.create(&format!("p{number}"), &json!({}));
    }
    world.until("running", |w| w.provider.held() == 30).await;
    world.kill().await;
    for number in 0..30 {
        world.api.delete_pod(&format!("p{number}"), Duration::ZERO);
    }
    world.start();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.provider.held(), 30);
}

#[tokio::test(start_paused = true)]
async fn s8_a_thousand_pods_start_and_go_without_a_limit_of_ours() {
    let world = running(Notices::Pushed).await;
    let before = tokio::time::Instant::now();
    for number in 0..1000 {
        world.api.create(&format!("p{number}"), &json!({}));
    }
    world.until("held", |w| w.provider.held() == 1000 && w.api.writes() >= 1000).await;
    assert!(before.elapsed() < Duration::from_secs(1), "virtual time passes only while something is held back");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.api.writes() <= 2000, "{} writes", world.api.writes());
    for number in 0..1000 {
        world.api.delete_pod(&format!("p{number}"), Duration::from_secs(30));
    }
    world.until("gone", |w| w.provider.held() == 0 && w.api.pods().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn slow_calls_run_side_by_side_as_many_as_there_are_workers() {
    let world = running(Notices::Pushed).await;
    let slow = ProviderFaultAction::Delay(Duration::from_secs(10));
    world.provider.add_fault(ProviderFault::on(ProviderOp::Create, slow));
    let workers = Options::default().workers;
    for number in 0..2 * workers {
        world.api.create(&format!("p{number}"), &json!({}));
    }
    let before = tokio::time::Instant::now();
    world.until("half is held", |w| w.provider.held() == workers).await;
    world.until("all are held", |w| w.provider.held() == 2 * workers).await;
    let took = before.elapsed().as_secs();
    assert!((20..23).contains(&took), "two turns of ten seconds, not {took} s");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_controller_ends_without_an_error_as_often_as_it_is_told() {
    let mut world = World::new(1, Notices::Pushed);
    let handle = world.start();
    assert!(handle.ready().await);
    assert!(handle.shutdown().await.is_none());
    assert!(handle.shutdown().await.is_none(), "idempotent");
    world.provider.add_fault(ProviderFault::fail(ProviderOp::List));
    let handle = world.start();
    assert!(handle.shutdown().await.is_none());
    assert!(!handle.ready().await, "it never was");
}

#[test]
fn each_missing_part_has_a_name() {
    let api = || Arc::new(FakeApi::new(1, FakeClock::new()));
    let provider = || Arc::new(FakeProvider::new(Notices::Pushed, FakeClock::new()));
    let node = NodeFacts { name: "n".to_owned(), ..NodeFacts::default() };
    let missing = |builder: minke_node::controller::Builder| builder.build().err();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    assert_eq!(missing(Controller::builder()), Some(MissingPart::Api));
    assert_eq!(missing(Controller::builder().api(api())), Some(MissingPart::Provider));
    let named = || Controller::builder().api(api()).provider(provider());
    assert_eq!(missing(named()), Some(MissingPart::NodeName));
    let with = |options| named().node(node.clone()).options(options);
    assert_eq!(missing(with(Options { workers: 0, ..Options::default() })), Some(MissingPart::Workers));
    assert_eq!(missing(with(Options { writers: 0, ..Options::default() })), Some(MissingPart::Writers));
    assert_eq!(missing(with(Options::default())), None);
}
