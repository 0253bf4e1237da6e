//! The agent and its client in one process, over the fake runtime.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use minke_core::fake::{FakeRuntime, Life};
use minke_core::identity::PodUid;
use minke_core::runtime::ImageUser;
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::{Admission, KubeletConfig, PodStage};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::*;
use crate::backend::Wanted;
use crate::client::{Client, ConnectError, Update, Watch};
use crate::protocol::{Channel, PROTOCOL, Reply, Request};

struct Agent {
    place: Place,
    runtime: FakeRuntime,
    served: JoinHandle<Result<(), AgentError>>,
    _directory: tempfile::TempDir,
}

fn place_in(directory: &Path) -> Place {
    let under = |name: &str| {
        let path = directory.join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    Place {
        state: under("s"),
        run: under("r"),
        logs: under("l"),
        cni: under("c"),
        cni_plugins: None,
        backend: None,
        instance: Some("test".to_owned()),
    }
}

impl Agent {
    async fn start(mode: Mode) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = place_in(directory.path());
        let runtime = FakeRuntime::new();
        runtime.add_image("image", ImageUser::Root);
        let clock = Arc::new(runtime.clock());
        // How full this machine's disk is, is not what is tested.
        let eviction = EvictionConfig { thresholds: Vec::new(), ..EvictionConfig::default() };
        let config = KubeletConfig { eviction, ..settings(&place) };
        let kubelet = Kubelet::start(config, Arc::new(runtime.clone()), clock).await.unwrap();
        let serving = place.clone();
        let identity = Identity { runtime: Some("embedded".to_owned()), ..Identity::own() };
        let served = tokio::spawn(async move {
            serve(&serving, mode, &[], &Notifier::default(), &mut Readiness::Nobody, (kubelet, identity), &mut Alone)
                .await
        });
        let agent = Self { place, runtime, served, _directory: directory };
        agent.listens().await;
        agent
    }

    async fn listens(&self) {
        while UnixStream::connect(self.place.socket()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    fn client(&self) -> Client {
        Client::new(self.place.clone(), "info")
    }

    async fn raw(&self) -> UnixStream {
        UnixStream::connect(self.place.socket()).await.unwrap()
    }
}

fn pod(name: &str) -> Arc<Pod> {
    let meta = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}")});
    let container = json!({"name": "main", "image": "image", "imagePullPolicy": "Never",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let spec = json!({"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1,
        "dnsPolicy": "Default", "hostNetwork": true, "securityContext": {}});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap())
}

fn uid(name: &str) -> PodUid {
    PodUid::new(format!("uid-{name}")).unwrap()
}

fn apply(names: &[&str]) -> Request {
    Request::Apply { pods: names.iter().map(|n| pod(n)).collect(), objects: Arc::default() }
}

async fn until(watch: &mut Watch, mut wanted: impl FnMut(&Update) -> bool) {
    let wait = async {
        while let Ok(update) = watch.next().await {
            if wanted(&update) {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the update should have come");
}

fn phase(update: &Update, expected: &str) -> bool {
    let Update::Changed(report) = update else { return false };
    report.pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(expected)
}

#[tokio::test]
async fn a_pod_is_applied_watched_stopped_and_forgotten() {
    let agent = Agent::start(Mode::Service).await;
    agent.runtime.script("main", vec![Life::forever()]);
    let mut watch = Watch::begin(&agent.client(), Some(vec![uid("a")])).await.unwrap();
    until(&mut watch, |u| matches!(u, Update::All(reports) if reports.is_empty())).await;
    watch.send(&apply(&["a", "b"])).await.unwrap();
    let accepted = [Admission::Accepted, Admission::Accepted];
    until(&mut watch, |u| matches!(u, Update::Admissions(answers) if *answers == accepted)).await;
    until(&mut watch, |u| phase(u, "Running")).await;

    let mut connection = agent.client().connect_running().await.unwrap().unwrap();
    assert_eq!(connection.list().await.unwrap().len(), 2);
    connection.stop(&uid("a"), Some(Duration::ZERO), true).await.unwrap();
    until(&mut watch, |u| matches!(u, Update::Removed(gone) if *gone == uid("a"))).await;
    assert!(connection.stop(&uid("a"), None, false).await.is_err(), "it is unknown now");
}

#[tokio::test]
async fn news_after_an_answer_is_of_the_pod_that_was_applied() {
    let agent = Agent::start(Mode::Service).await;
    agent.runtime.script("main", vec![Life::exits(Duration::ZERO, 3)]);
    let mut watch = Watch::begin(&agent.client(), None).await.unwrap();
    watch.send(&apply(&["a"])).await.unwrap();
    let finished = |u: &Update| matches!(u, Update::Changed(r) if r.stage == PodStage::Finished);
    until(&mut watch, finished).await;
    agent.runtime.script("main", vec![Life::forever()]);
    watch.send(&apply(&["a"])).await.unwrap();
    until(&mut watch, |u| matches!(u, Update::Admissions(_))).await;
    until(&mut watch, |u| {
        assert!(!finished(u), "news of the finished run after the answer to the new one");
        phase(u, "Running")
    })
    .await;
}

#[tokio::test]
async fn malformed_input_is_answered_and_harms_nobody() {
    let agent = Agent::start(Mode::Service).await;
    let mut other = agent.client().connect_running().await.unwrap().unwrap();
    let mut channel = Channel::new(agent.raw().await);
    channel.send(&Request::Hello(Identity::own())).await.unwrap();
    assert!(matches!(channel.receive().await.unwrap(), Reply::Hello(_)));
    channel.send(&json!({"Stop": {"uid": "../../etc", "grace_ms": null, "remove": true}})).await.unwrap();
    assert!(matches!(channel.receive().await.unwrap(), Reply::Error(_)));
    channel.send(&json!([1, 2])).await.unwrap();
    assert!(matches!(channel.receive().await.unwrap(), Reply::Error(_)));
    channel.send(&Request::List).await.unwrap();
    assert!(matches!(channel.receive().await.unwrap(), Reply::Reports(_)), "the connection goes on");

    let mut liar = agent.raw().await;
    liar.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
    let mut rest = Vec::new();
    liar.read_to_end(&mut rest).await.unwrap();
    assert!(other.list().await.unwrap().is_empty(), "others are served");
}

#[tokio::test]
async fn who_does_not_greet_first_is_sent_away() {
    let agent = Agent::start(Mode::Service).await;
    let mut channel = Channel::new(agent.raw().await);
    channel.send(&Request::List).await.unwrap();
    assert!(matches!(channel.receive().await.unwrap(), Reply::Error(_)));
    assert!(channel.receive::<Reply>().await.is_err());
}

#[tokio::test]
async fn an_agent_of_another_protocol_is_told_by_its_answer_to_the_greeting() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let place = Place {
        state: path("s"),
        run: path(""),
        logs: path("l"),
        cni: path("c"),
        cni_plugins: None,
        backend: None,
        instance: None,
    };
    let listener = tokio::net::UnixListener::bind(place.socket()).unwrap();
    let agent = async {
        let mut channel = Channel::new(listener.accept().await.unwrap().0);
        let _: Request = channel.receive().await.unwrap();
        let newer = Identity { protocol: PROTOCOL + 1, version: "9.9.9".to_owned(), ..Identity::own() };
        channel.send(&Reply::Hello(newer)).await.unwrap();
    };
    let client = Client::new(place.clone(), "info");
    let (connected, ()) = tokio::join!(client.connect_running(), agent);
    match connected {
        Err(ConnectError::Incompatible { agent, .. }) => assert_eq!(agent, "9.9.9"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn shutdown_is_answered_and_leaves_pods_running() {
    let agent = Agent::start(Mode::Service).await;
    agent.runtime.script("main", vec![Life::forever()]);
    let mut watch = Watch::begin(&agent.client(), None).await.unwrap();
    watch.send(&apply(&["a"])).await.unwrap();
    until(&mut watch, |u| phase(u, "Running")).await;
    let connection = agent.client().greet_running().await.unwrap().unwrap();
    connection.shutdown().await.unwrap();
    agent.served.await.unwrap().unwrap();
    assert_eq!(agent.runtime.running(&uid("a")), 1);
    assert!(!Path::new(&agent.place.socket()).exists());
}

#[tokio::test(start_paused = true)]
async fn an_agent_on_demand_ends_a_while_after_its_last_client() {
    let agent = Agent::start(Mode::OnDemand).await;
    let connection = agent.client().connect_running().await.unwrap().unwrap();
    tokio::time::sleep(idle::LINGER * 5).await;
    assert!(!agent.served.is_finished(), "a client keeps it");
    let begun = Instant::now();
    drop(connection);
    agent.served.await.unwrap().unwrap();
    assert!(begun.elapsed() >= idle::LINGER);
}

#[tokio::test]
async fn metrics_are_told_over_the_socket() {
    let agent = Agent::start(Mode::Service).await;
    let mut connection = agent.client().connect_running().await.unwrap().unwrap();
    let text = connection.metrics().await.unwrap();
    assert!(text.contains("kubelet_pleg_discard_events 0\n"), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

/// A command found nobody and started an agent, just while a service was taking the place of another one.
#[tokio::test]
async fn an_agent_on_demand_gives_way_to_one_that_begins_to_answer() {
    let directory = tempfile::tempdir().unwrap();
    let place = place_in(directory.path());
    let service = Lock::try_take(&place.agent_lock()).unwrap();
    let (own, settings) = (place.clone(), Settings::default());
    let on_demand =
        tokio::spawn(async move { run(&own, Mode::OnDemand, &settings, &mut Readiness::Nobody, &mut Alone).await });
    tokio::time::sleep(2 * LOOK_AGAIN).await;
    assert!(!on_demand.is_finished(), "nobody answers yet");
    let _socket = tokio::net::UnixListener::bind(place.socket()).unwrap();
    on_demand.await.unwrap().expect("the command is told to connect");
    // The thread that waits for the lock would keep the test's runtime.
    drop(service);
}

#[tokio::test(start_paused = true)]
async fn a_command_for_another_runtime_is_refused() {
    let agent = Agent::start(Mode::OnDemand).await;
    let client = |backend| Client::new(Place { backend, ..agent.place.clone() }, "info");
    let error = client(Some(Wanted::Cri(None))).connect_running().await.unwrap_err();
    assert!(matches!(error, ConnectError::OtherRuntime { .. }), "{error:?}");
    assert_eq!(error.to_string().split(" has ").nth(1), Some("the container runtime embedded, not cri"));
    for same in [None, Some(Wanted::Embedded)] {
        assert!(client(same).connect_running().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn an_instance_that_is_down_is_not_begun_again_on_a_commands_way() {
    let directory = tempfile::tempdir().unwrap();
    let place = place_in(directory.path());
    place.set_down(true).unwrap();
    let ran = run(&place, Mode::OnDemand, &Settings::default(), &mut Readiness::Nobody, &mut Alone).await;
    assert!(matches!(ran, Err(AgentError::Down)), "{ran:?}");
    assert!(place.is_down());
    Lock::try_take(&place.agent_lock()).expect("it has let go of the lock");
}
