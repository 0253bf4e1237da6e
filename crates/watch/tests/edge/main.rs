//! The whole watcher over a real client and a real socket, with an API that misbehaves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "the tests of `minke watch` use all of it")]
mod server;

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};
use minke_core::judgement::{Cause, Verdict};
use minke_watch::compat::PodWatcher;
use minke_watch::{
    KubeCluster, Metrics, Observer, Report, Scope, Settings, Subscription, Target, Watcher, Whereabouts,
};
use serde_json::{Value, json};
use server::{Fault, Server};
use tokio::time::timeout;

/// Longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(20);

fn client(server: &Server) -> Client {
    // The only provider that is compiled in.
    Client::try_from(Config::new(server.url.parse().unwrap())).unwrap()
}

fn settings() -> Settings {
    Settings {
        verify_after: Duration::from_millis(300),
        poll_every: Duration::from_millis(100),
        probe_every: Duration::from_secs(1),
        stale_after: Duration::from_millis(300),
        events_every: Some(Duration::from_millis(200)),
        ..Settings::default()
    }
}

fn watch(server: &Server) -> Watcher {
    Watcher::start(Arc::new(KubeCluster::new(client(server))), Scope::namespace("ns"), settings())
}

fn pod(uid: &str, status: &Value) -> Value {
    json!({"metadata": {"uid": uid},
           "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": [{"name": "app", "image": "i:1"}]},
           "status": status})
}

fn state(phase: &str, state: &Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"phase": phase, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
           "containerStatuses": [{"name": "app", "image": "i:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state}]})
}

fn running() -> Value {
    state("Running", &json!({"running": {}}))
}

fn waits(reason: &str, message: &str) -> Value {
    state("Pending", &json!({"waiting": {"reason": reason, "message": message}}))
}

async fn until(subscription: &mut Subscription, what: &str, holds: impl Fn(&Report) -> bool) -> Report {
    let wait = async {
        loop {
            let report = subscription.latest();
            if holds(&report) {
                return report;
            }
            subscription.changed().await;
        }
    };
    match timeout(LIMIT, wait).await {
        Ok(report) => report,
        Err(_) => panic!("never {what}: {:?}", subscription.latest()),
    }
}

async fn healthy(subscription: &mut Subscription) {
    until(subscription, "healthy", |r| matches!(r.verdict, Some(Verdict::Healthy(_)))).await;
}

async fn cause(subscription: &mut Subscription) -> Cause {
    let report = until(subscription, "failed", |r| matches!(r.verdict, Some(Verdict::Failed(_)))).await;
    let Some(Verdict::Failed(failure)) = report.verdict else { unreachable!() };
    failure.cause
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LIMIT, wait).await.is_ok(), "never: {what}");
}

#[tokio::test]
async fn a_pod_from_its_creation_to_its_end() {
    let server = Server::start().await;
    let watcher = watch(&server);
    let mut web = watcher.subscribe(Target::named("ns", "web"), 3);
    until(&mut web, "missing", |r| r.whereabouts == Whereabouts::Missing).await;
    server.put("web", pod("u1", &waits("ContainerCreating", "")));
    until(&mut web, "waiting", |r| matches!(r.verdict, Some(Verdict::Waiting { .. }))).await;
    server.put("web", pod("u1", &running()));
    healthy(&mut web).await;
    server.put("web", pod("u1", &state("Failed", &json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))));
    assert_eq!(cause(&mut web).await, Cause::OomKilled);
    let report = web.latest();
    assert_eq!((report.attempt, report.uid.as_deref(), report.observer), (3, Some("u1"), Observer::Current));
    let counters = watcher.counters().await.unwrap();
    assert_eq!((counters.lists, counters.watches), (1, 1));
}

#[tokio::test]
async fn one_watch_serves_all() {
    let server = Server::start().await;
    let watcher = watch(&server);
    let mut all = Vec::new();
    for i in 0..100 {
        server.put(&format!("p{i}"), pod(&format!("u{i}"), &running()));
        all.push(watcher.subscribe(Target::named("ns", format!("p{i}")), 1));
    }
    for subscription in &mut all {
        healthy(subscription).await;
    }
    for i in 0..100 {
        server.put(&format!("p{i}"), pod(&format!("u{i}"), &waits("InvalidImageName", "")));
    }
    for subscription in &mut all {
        assert_eq!(cause(subscription).await, Cause::InvalidImageName);
    }
    assert_eq!((server.count("list"), server.count("watch")), (1, 1));
}

#[tokio::test]
async fn a_watch_that_is_cut_loses_nothing() {
    let server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    eventually("a watch", || server.count("watch") == 1).await;
    server.cut();
    server.put("web", pod("u1", &waits("InvalidImageName", "")));
    assert_eq!(cause(&mut web).await, Cause::InvalidImageName);
}

#[tokio::test]
async fn a_deletion_while_the_watch_was_cut_and_its_version_forgotten() {
    let server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    eventually("a watch", || server.count("watch") == 1).await;
    server.faults(&[Fault::Watch(503)]);
    server.cut();
    server.remove("web");
    server.compact();
    server.faults(&[]);
    assert_eq!(cause(&mut web).await, Cause::Deleted);
}

#[tokio::test]
async fn a_half_open_watch_is_found_out() {
    let server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    eventually("a watch", || server.count("watch") == 1).await;
    server.faults(&[Fault::HalfOpen]);
    server.put("web", pod("u1", &waits("InvalidImageName", "")));
    assert_eq!(cause(&mut web).await, Cause::InvalidImageName);
    eventually("another watch", || server.count("watch") >= 2).await;
}

#[tokio::test]
async fn an_api_that_is_overloaded_or_down_fails_no_pod() {
    for code in [429, 500, 503] {
        let server = Server::start().await;
        server.faults(&[Fault::List(code)]);
        let watcher = watch(&server);
        server.put("web", pod("u1", &running()));
        let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
        eventually("a list", || server.count("list") >= 1).await;
        server.faults(&[]);
        healthy(&mut web).await;
    }
}

#[tokio::test]
async fn an_api_that_goes_away_is_said_to_be_stale() {
    let mut server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    server.stop();
    let report = until(&mut web, "stale", |r| r.observer == Observer::Stale).await;
    assert!(matches!(report.verdict, Some(Verdict::Healthy(_))));
}

#[tokio::test]
async fn without_the_right_to_list_pods_are_polled() {
    let server = Server::start().await;
    server.deny(&["list", "watch"]);
    server.put("web", pod("u1", &running()));
    let watcher = watch(&server);
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    let report = until(&mut web, "polling", |r| matches!(r.observer, Observer::Polling(_))).await;
    let Observer::Polling(why) = report.observer else { unreachable!() };
    assert_eq!(why, "not allowed to list pods: by the test");
    server.put("web", pod("u1", &waits("ErrImageNeverPull", "")));
    assert_eq!(cause(&mut web).await, Cause::ImageNeverPull);
    assert_eq!(server.count("list"), 0);
}

#[tokio::test]
async fn with_no_right_at_all_it_says_so() {
    let server = Server::start().await;
    server.deny(&["list", "watch", "get"]);
    let watcher = watch(&server);
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    let report = until(&mut web, "blind", |r| matches!(r.observer, Observer::Blind(_))).await;
    assert_eq!(report.verdict, None);
    // Granted later, it is used.
    server.deny(&[]);
    server.put("web", pod("u1", &running()));
    healthy(&mut web).await;
}

#[tokio::test]
async fn rights_taken_away_while_watching() {
    let server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    eventually("a watch", || server.count("watch") == 1).await;
    server.deny(&["list", "watch"]);
    server.cut();
    server.put("web", pod("u1", &waits("InvalidImageName", "")));
    assert_eq!(cause(&mut web).await, Cause::InvalidImageName);
}

#[tokio::test]
async fn events_explain_what_the_status_does_not() {
    let server = Server::start().await;
    let watcher = watch(&server);
    server.put("web", pod("u1", &waits("ContainerCreating", "")));
    server.event("u1", "FailedMount", "MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found");
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    assert_eq!(cause(&mut web).await, Cause::VolumeMissing);
}

#[tokio::test]
async fn an_expected_pod_is_bound_after_its_creation() {
    let server = Server::start().await;
    server.put("job", pod("old", &waits("InvalidImageName", "")));
    let watcher = watch(&server);
    let mut job = watcher.subscribe(Target::Expected { namespace: "ns".into(), name: "job".into() }, 2);
    server.remove("job");
    server.put("job", pod("new", &running()));
    job.bind("new");
    healthy(&mut job).await;
    job.deleting();
    server.remove("job");
    assert_eq!(cause(&mut job).await, Cause::OwnDeletion);
}

/// What happens to a Pod of the old watcher's tests.
enum Step {
    Put(Value),
    PutAndRemove(Value),
}

/// The old watcher's own table: each case three times on one watcher, as with pulls that are tried again.
#[tokio::test]
async fn the_old_watchers_cases_three_times_on_one_watcher() {
    let server = Server::start().await;
    // It grants no time to anything.
    let mut settings = settings();
    settings.policy.budgets = settings.policy.budgets.fail_fast();
    let watcher = Watcher::start(Arc::new(KubeCluster::new(client(&server))), Scope::namespace("ns"), settings);
    let watcher = PodWatcher::new(watcher, "ns");
    let mut disrupted = running();
    disrupted["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}]);
    let mut looping = waits("CrashLoopBackOff", "back-off 10s");
    looping["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 1, "message": "no such table"}});
    let pull = |message: &str| Step::Put(waits("ErrImagePull", message));
    // Name, what happens, the failure reason, and what the error says.
    type Case = (&'static str, Step, &'static str, &'static [&'static str]);
    let cases: [Case; 13] = [
        ("deleted", Step::PutAndRemove(running()), "runner_system_failure", &["gone"]),
        ("deleting", Step::Put(running()), "runner_system_failure", &["being deleted"]),
        (
            "disrupted",
            Step::Put(disrupted),
            "runner_system_failure",
            &["disrupted", "EvictionByEvictionAPI", "drained"],
        ),
        ("neutral", pull("pull failed"), "image_pull_failure", &["pull failed"]),
        (
            "backoff",
            Step::Put(waits("ImagePullBackOff", "Back-off pulling image")),
            "image_pull_failure",
            &["Back-off"],
        ),
        ("network", pull("dial tcp: lookup x: no such host"), "runner_external_dependency_failure", &["no such host"]),
        ("access", pull("pull access denied"), "runner_configuration_error", &["pull access denied"]),
        ("missing", pull("manifest unknown"), "runner_configuration_error", &["manifest unknown"]),
        (
            "crash",
            Step::Put(waits("CrashLoopBackOff", "back-off 10s")),
            "runner_configuration_error",
            &["app", "back-off 10s"],
        ),
        ("crash-said", Step::Put(looping), "runner_configuration_error", &["back-off 10s", "no such table"]),
        (
            "config",
            Step::Put(waits("CreateContainerConfigError", "secret \"x\" not found")),
            "runner_configuration_error",
            &["secret"],
        ),
        ("name", Step::Put(waits("InvalidImageName", "bad")), "runner_configuration_error", &["bad"]),
        ("healthy", Step::Put(running()), "", &[]),
    ];
    for (name, step, reason, words) in cases {
        for attempt in 0..3 {
            let name = format!("{name}-{attempt}");
            eventually("a watch", || server.count("watch") >= 1).await;
            let asked = server.count("get");
            watcher.update_pod_name(&name);
            // It is looked for before it is there; a Pod that nobody ever saw could not be missed.
            eventually("a look", || server.count("get") > asked).await;
            let (Step::Put(status) | Step::PutAndRemove(status)) = &step;
            let mut object = pod(&name, status);
            if name.starts_with("deleting") {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
            }
            server.put(&name, object);
            if matches!(step, Step::PutAndRemove(_)) {
                server.remove(&name);
            }
            if reason.is_empty() {
                assert!(timeout(Duration::from_millis(100), watcher.next_error()).await.is_err());
                continue;
            }
            let error = timeout(LIMIT, watcher.next_error()).await.unwrap_or_else(|_| panic!("nothing about {name}"));
            let text = error.to_string();
            assert!(text.contains(&name) && words.iter().all(|word| text.contains(word)), "{name}: {text}");
            assert_eq!(error.failure_reason(), reason, "{error}");
        }
    }
}

#[tokio::test]
async fn an_api_that_is_away_at_the_start_and_then_back() {
    // A port that nobody listens on, for now.
    let server = Server::start().await;
    let (address, url) = (server.address(), server.url.clone());
    drop(server);
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let watcher = Watcher::start(Arc::new(KubeCluster::new(client)), Scope::namespace("ns"), settings());
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    let report = until(&mut web, "stale", |r| r.observer == Observer::Stale).await;
    assert_eq!((report.verdict, report.whereabouts), (None, Whereabouts::Unseen));
    let mut server = Server::start_at(address).await;
    server.put("web", pod("u1", &running()));
    healthy(&mut web).await;
    // Its place is taken by another, as when a control plane is rotated.
    let versions = server.version();
    server.stop();
    until(&mut web, "stale", |r| r.observer == Observer::Stale).await;
    drop(server);
    let server = Server::start_at(address).await;
    server.resume(versions);
    server.put("web", pod("u1", &waits("InvalidImageName", "")));
    assert_eq!(cause(&mut web).await, Cause::InvalidImageName);
}

#[tokio::test]
async fn an_api_without_reviews_is_watched_all_the_same() {
    let server = Server::start().await;
    server.faults(&[Fault::Reviews(500)]);
    server.put("web", pod("u1", &running()));
    let watcher = watch(&server);
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    assert_eq!(web.latest().observer, Observer::Current);
}

#[tokio::test]
async fn a_watch_lives_as_long_as_its_watcher_and_not_as_long_as_who_prepared_it() {
    let server = Server::start().await;
    server.put("web", pod("u1", &running()));
    let (client, settings) = (client(&server), settings());
    // The preparation ends; what it made goes on.
    let preparation = tokio::spawn(async move {
        let watcher = Watcher::start(Arc::new(KubeCluster::new(client)), Scope::namespace("ns"), settings);
        let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
        healthy(&mut web).await;
        (watcher, web)
    });
    let (watcher, mut web) = preparation.await.unwrap();
    eventually("a watch", || server.watchers() == 1).await;
    server.put("web", pod("u1", &waits("InvalidImageName", "")));
    assert_eq!(cause(&mut web).await, Cause::InvalidImageName);
    drop(watcher);
    eventually("no watch", || server.watchers() == 0).await;
}

#[tokio::test]
async fn what_is_counted_is_in_the_callers_registry() {
    let server = Server::start().await;
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::register(&mut registry);
    let cluster = Arc::new(KubeCluster::new(client(&server)));
    let (watcher, _) = Watcher::start_measured(cluster, Scope::namespace("ns"), settings(), metrics);
    server.put("web", pod("u1", &running()));
    let mut web = watcher.subscribe(Target::named("ns", "web"), 1);
    healthy(&mut web).await;
    eventually("a watch", || server.count("watch") == 1).await;
    server.cut();
    eventually("another watch", || server.count("watch") == 2).await;
    server.put("web", pod("u1", &state("Failed", &json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))));
    assert_eq!(cause(&mut web).await, Cause::OomKilled);
    let shown = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    for line in [
        "minke_watch_open_watches 1",
        "minke_watch_subscribers 1",
        "minke_watch_pods 1",
        "minke_watch_observers{state=\"current\"} 1",
        "minke_watch_requests_total{kind=\"list\"} 1",
        "minke_watch_requests_total{kind=\"watch\"} 2",
        // The client takes a body that is cut for one that ended.
        "minke_watch_reconnects_total{reason=\"ended\"} 1",
        "minke_watch_verdicts_total{verdict=\"Failed\",cause=\"OomKilled\",category=\"program\"} 1",
    ] {
        assert!(shown().lines().any(|have| have == line), "{line} in {}", shown());
    }
    assert!(!shown().contains("minke_watch_report_seconds_count 0\n"), "{}", shown());
    drop(watcher);
    eventually("nothing is held", || {
        shown().contains("minke_watch_subscribers 0\n") && shown().contains("minke_watch_open_watches 0\n")
    })
    .await;
}

#[tokio::test]
async fn the_old_watchers_disruption_deletion_and_stale_verdict() {
    let server = Server::start().await;
    let watcher = PodWatcher::new(watch(&server), "ns");
    watcher.update_pod_name("a");
    let mut marked = running();
    marked["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}]);
    server.put("a", pod("u1", &marked));
    let error = timeout(LIMIT, watcher.next_error()).await.unwrap();
    let text = error.to_string();
    assert!(text.contains("disrupted") && text.contains("EvictionByEvictionAPI") && text.contains("drained"), "{text}");
    assert_eq!(error.failure_reason(), "runner_system_failure");
    // Nobody reads the error of this one; the next attempt must not get it.
    watcher.update_pod_name("b");
    server.put("b", pod("u2", &waits("InvalidImageName", "")));
    tokio::time::sleep(Duration::from_millis(500)).await;
    watcher.update_pod_name("c");
    server.put("c", pod("u3", &running()));
    assert!(timeout(Duration::from_millis(300), watcher.next_error()).await.is_err());
    server.remove("c");
    let error = timeout(LIMIT, watcher.next_error()).await.unwrap();
    assert_eq!((error.cause, error.pod.as_str()), (Cause::Deleted, "ns/c"));
}

#[tokio::test]
async fn the_old_watchers_no_op_never_yields() {
    let mut watcher = PodWatcher::no_op();
    watcher.update_pod_name("a");
    assert!(timeout(Duration::from_millis(50), watcher.next_error()).await.is_err());
    watcher.stop();
}
