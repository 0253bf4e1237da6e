//! Twenty ways to fail, each told to a watcher and to a poller in the same moment.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams};
use minke_core::clock::{Clock, SystemClock};
use minke_core::judgement::{History, Now, Policy, Presence, Sight, Verdict, judge};
use minke_watch::{Cluster, KubeCluster, Scope, Settings, Target, Watcher};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::api::{self, Embedded};
use crate::failure::Failure;
use crate::report::{Peer, Row};
use crate::sample::Sample;

/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a poller asks, as GitLab Runner's does.
const POLL: Duration = Duration::from_secs(3);

/// How it happens.
enum Story {
    Status(Value),
    Deleted,
    Disrupted(&'static str),
    Event(&'static str, &'static str),
}

fn stories() -> Vec<(&'static str, Story)> {
    let waits = |reason: &str, message: &str| {
        Story::Status(api::status("Pending", &json!({"waiting": {"reason": reason, "message": message}})))
    };
    let ended = |code: i32, reason: &str| {
        Story::Status(api::status("Failed", &json!({"terminated": {"exitCode": code, "reason": reason}})))
    };
    let failed =
        |reason: &str, message: &str| Story::Status(json!({"phase": "Failed", "reason": reason, "message": message}));
    vec![
        ("image name", waits("InvalidImageName", "bad")),
        ("image missing", waits("ErrImagePull", "manifest unknown")),
        ("image denied", waits("ErrImagePull", "pull access denied")),
        ("image never pulled", waits("ErrImageNeverPull", "")),
        ("no variant for the platform", waits("ErrImagePull", "no match for platform in manifest: not found")),
        ("registry away", waits("ErrImagePull", "dial tcp: i/o timeout")),
        ("registry limits", waits("ErrImagePull", "toomanyrequests")),
        ("secret missing", waits("CreateContainerConfigError", "secret \"s\" not found")),
        ("create refused", waits("CreateContainerError", "bad device")),
        ("command missing", waits("RunContainerError", "exec: \"x\": executable file not found in $PATH")),
        ("crash loop", waits("CrashLoopBackOff", "back-off 10s")),
        ("unknown reason", waits("BrandNew", "of tomorrow")),
        ("exit code 3", ended(3, "Error")),
        ("out of memory", ended(137, "OOMKilled")),
        ("evicted", failed("Evicted", "The node was low on resource: memory.")),
        ("deadline", failed("DeadlineExceeded", "")),
        ("no room", failed("OutOfcpu", "Pod was rejected: no cpu")),
        ("deleted", Story::Deleted),
        ("drained", Story::Disrupted("EvictionByEvictionAPI")),
        ("sandbox", Story::Event("FailedCreatePodSandBox", "plugin failed")),
    ]
}

fn policy() -> Policy {
    let budgets = Policy::default().budgets.fail_fast();
    Policy { budgets, ..Policy::default() }
}

/// Each failure so many times, all together each time.
pub(super) async fn measure(rounds: usize) -> Result<Vec<Row>, Failure> {
    let server = Embedded::start().await?;
    let settings = Settings { policy: policy(), ..Settings::default() };
    let cluster = Arc::new(KubeCluster::new(server.client.clone()));
    let watcher = Watcher::start(Arc::<KubeCluster>::clone(&cluster), Scope::namespace("default"), settings);
    let names: Vec<&'static str> = stories().iter().map(|(name, _)| *name).collect();
    let mut watched = vec![Vec::new(); names.len()];
    let mut polled = vec![Vec::new(); names.len()];
    for round in 0..rounds {
        let mut all = JoinSet::new();
        for (place, (_, story)) in stories().into_iter().enumerate() {
            let pod = format!("failure-{round}-{place}");
            let mut subscription = watcher.subscribe(Target::named("default", pod.clone()), 1);
            let (client, cluster) = (server.client.clone(), Arc::clone(&cluster));
            all.spawn(async move {
                let pods = api::pods(&client);
                let creating = api::status("Pending", &json!({"waiting": {"reason": "ContainerCreating"}}));
                let object = api::create(&pods, &api::pod(&pod), &creating).await?;
                // At another moment of the poller's period each time.
                let phase = POLL.mul_f64(share(round * 20 + place));
                let poller = tokio::spawn(poll(cluster, object.clone(), pod.clone(), POLL - phase));
                sleep(Duration::from_millis(1500)).await;
                let told = Instant::now();
                happen(&client, &pods, &object, &pod, story).await?;
                let late = |_| Failure::Unexpected(format!("no verdict about {pod}"));
                let watch = async {
                    while !matches!(subscription.latest().verdict, Some(Verdict::Failed(_))) {
                        subscription.changed().await;
                    }
                    told.elapsed()
                };
                let by_watch = timeout(PATIENCE, watch).await.map_err(late)?;
                let by_poll = timeout(PATIENCE, poller).await.map_err(late)?;
                let by_poll = by_poll.map_err(Failure::runtime("a poller"))?.saturating_duration_since(told);
                Ok::<_, Failure>((place, by_watch, by_poll))
            });
        }
        while let Some(one) = all.join_next().await {
            let (place, by_watch, by_poll) = one.map_err(Failure::runtime("a failure"))??;
            watched[place].push(by_watch);
            polled[place].push(by_poll);
        }
    }
    let none = || Failure::Unexpected("nothing was measured".to_owned());
    let row = |what: String, ours: &[Duration], peer: &[Duration], aim| {
        let sample = Sample::of_times(peer).ok_or_else(none)?;
        let peer = Peer::Measured { name: "polling every 3 s".to_owned(), sample };
        Ok(Row { what, ours: Sample::of_times(ours).ok_or_else(none)?, peer, aim })
    };
    let mut rows = Vec::new();
    for ((name, ours), peer) in names.iter().zip(&watched).zip(&polled) {
        rows.push(row(format!("time to verdict: {name}"), ours, peer, "")?);
    }
    rows.push(row("time to verdict: all of them".to_owned(), &watched.concat(), &polled.concat(), "")?);
    Ok(rows)
}

/// Shares of a period that lie apart.
fn share(n: usize) -> f64 {
    f64::from(u32::try_from(n * 37 % 100).unwrap_or(0)) / 100.0
}

async fn happen(client: &Client, pods: &Api<Pod>, object: &Pod, name: &str, story: Story) -> Result<(), Failure> {
    let deleted = || async {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete(name, &now).await.map(drop).map_err(Failure::runtime("can't delete a Pod"))
    };
    match story {
        Story::Status(status) => api::set(pods, name, &status).await,
        Story::Deleted => deleted().await,
        Story::Disrupted(reason) => {
            let mark = json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]});
            api::set(pods, name, &mark).await?;
            deleted().await
        }
        Story::Event(reason, message) => api::event(client, object, reason, message).await,
    }
}

/// Asks for a Pod every three seconds until it is judged to have failed; when that was. Who polls has created it, so that one
/// that is gone before the first look is missed.
async fn poll(cluster: Arc<KubeCluster>, created: Pod, name: String, first: Duration) -> Instant {
    let begun = Instant::now();
    let (policy, mut history) = (policy(), History::default());
    let (mut pod, mut presence) = (created, Presence::Here);
    sleep(first).await;
    loop {
        let asked = Instant::now();
        match cluster.get("default", &name).await {
            Ok(Some(seen)) => pod = seen,
            Ok(None) => presence = Presence::Gone,
            // Asked again.
            Err(_) => {}
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let events = cluster.events("default", &uid).await.unwrap_or_default();
        // What settles is judged again when it has, as the watcher does.
        loop {
            let now = Now { moment: begun.elapsed(), wall: SystemClock.now() };
            let sight = Sight { presence, events: &events, ..Sight::of(&pod) };
            let judged = judge(&sight, &policy, history, now);
            history = judged.history;
            match judged.verdict {
                Verdict::Failed(_) => return Instant::now(),
                Verdict::Doomed { until: Some(until), .. } if until < now.moment + POLL => {
                    sleep(until.saturating_sub(now.moment) + Duration::from_millis(1)).await;
                }
                Verdict::Doomed { .. } | Verdict::Healthy(_) | Verdict::Waiting { .. } | Verdict::Succeeded => {
                    break;
                }
            }
        }
        sleep(POLL.saturating_sub(asked.elapsed())).await;
    }
}
