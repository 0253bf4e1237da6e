//! The kubelet core as a provider, on the scripted runtime: the port's contract, and what is its own.

#![cfg(test)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{AsyncReadExt, AsyncWriteExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use minke_core::fake::Life;
use minke_core::identity::PodKey;
use minke_core::objects::ObjectSet;
use minke_core::provider::conformance::{Harness, check};
use minke_core::provider::{
    AttachRequest, DesiredPod, LogOptions, LogStreams, NodeShutdown, NodeSource, Provider, ProviderError, Readiness,
    Since, StatusSink,
};
use minke_core::runtime::TerminalSize;
use minke_kubelet::admission::{Pressure, Rejection, Verdict};
use minke_kubelet::provider::{KubeletProvider, MachineFacts};
use minke_kubelet::{Admit, Kubelet, KubeletConfig, PodStage, Ports};
use serde_json::json;
use support::{Bed, pod, simple, uid, until_gone, until_phase, until_stage};

struct Node(KubeletProvider);

impl Harness for Node {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.clone())
    }

    fn pod(&self, name: &str, uid: &str) -> Pod {
        let mut pod = (*simple(name, "Always").pod).clone();
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }
}

async fn provider(bed: &Bed) -> KubeletProvider {
    KubeletProvider::new(bed.kubelet().await, MachineFacts::default())
}

fn key(desired: &DesiredPod) -> PodKey {
    PodKey::of(&desired.pod).unwrap()
}

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_ports_contract() {
    let bed = Bed::new();
    let violations = check(&Node(provider(&bed).await)).await;
    assert!(violations.is_empty(), "{violations:#?}");
    assert_eq!(bed.runtime.violations(), [""; 0]);
}

/// What a controller hears, in order.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl StatusSink for Heard {
    fn changed(&self, key: &PodKey, status: PodStatus) {
        let ended = status.container_statuses.iter().flatten().filter_map(|c| c.state.as_ref()?.terminated.as_ref());
        let codes: Vec<i32> = ended.map(|t| t.exit_code).collect();
        self.0.lock().unwrap().push(format!("{} {} {codes:?}", key.name, phase(&status)));
    }

    fn forgotten(&self, key: &PodKey) {
        self.0.lock().unwrap().push(format!("{} forgotten", key.name));
    }

    fn evicted(&self, _key: &PodKey, _grace: Duration) {}
}

#[tokio::test(start_paused = true)]
async fn the_last_status_is_told_before_a_pod_is_forgotten() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::default()]);
    let provider = provider(&bed).await;
    let heard = Arc::new(Heard::default());
    provider.notify(heard.clone());
    let desired = simple("a", "Always");
    provider.create(&desired).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    provider.delete(&key(&desired), Duration::from_secs(30)).await.unwrap();
    until_gone(provider.kubelet(), &uid("a")).await;
    let heard = heard.0.lock().unwrap().clone();
    assert_eq!(heard.last().map(String::as_str), Some("a forgotten"));
    let before = &heard[heard.len() - 2];
    assert!(before.starts_with("a Failed [") || before.starts_with("a Succeeded ["), "{heard:?}");
    assert!(!before.ends_with("[]"), "its exit codes are told: {heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_is_kept_and_never_started_again() {
    let bed = Bed::new();
    bed.runtime.script("main", vec![Life::exits(Duration::from_secs(1), 3)]);
    let provider = provider(&bed).await;
    let desired = simple("a", "Never");
    provider.create(&desired).await.unwrap();
    until_stage(provider.kubelet(), &uid("a"), PodStage::Finished).await;
    provider.create(&desired).await.unwrap();
    provider.update(&desired).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = provider.status(&key(&desired)).await.unwrap().unwrap();
    assert_eq!(phase(&status), "Failed");
    let starts = bed.runtime.writes().iter().filter(|c| format!("{:?}", c.op) == "StartContainer").count();
    assert_eq!(starts, 1, "a uid lives once");
    provider.delete(&key(&desired), Duration::ZERO).await.unwrap();
    until_gone(provider.kubelet(), &uid("a")).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_the_apis_are_neither_listed_nor_touched() {
    let bed = Bed::new();
    let provider = provider(&bed).await;
    let mut fixed = (*simple("fixed", "Always").pod).clone();
    fixed.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    let fixed = DesiredPod { pod: Arc::new(fixed), objects: Arc::default() };
    let by_hand = simple("hand", "Always");
    provider.kubelet().apply(vec![fixed.clone(), by_hand.clone()]).await;
    until_phase(provider.kubelet(), &uid("fixed"), "Running").await;
    assert_eq!(provider.list().await.unwrap(), []);
    for desired in [&fixed, &by_hand] {
        assert_eq!(provider.get(&key(desired)).await.unwrap(), None);
        assert!(provider.delete(&key(desired), Duration::ZERO).await.unwrap_err().is_not_found());
        assert!(provider.update(desired).await.unwrap_err().is_not_found());
    }
    // A Pod of the API may have such an annotation: it is none of the node's manifests for that.
    let mut dressed = (*fixed.pod).clone();
    (dressed.metadata.name, dressed.metadata.uid) = (Some("dressed".to_owned()), Some(uid("dressed").to_string()));
    let dressed = DesiredPod { pod: Arc::new(dressed), objects: Arc::default() };
    provider.create(&dressed).await.unwrap();
    assert_eq!(provider.list().await.unwrap().len(), 1);
    let mut mirror = (*simple("mirror", "Always").pod).clone();
    mirror.metadata.annotations = Some([("kubernetes.io/config.mirror".to_owned(), "hash".to_owned())].into());
    let refused = provider.create(&DesiredPod { pod: Arc::new(mirror), objects: Arc::default() }).await;
    assert!(matches!(refused, Err(ProviderError::Invalid { .. })), "{refused:?}");
    until_phase(provider.kubelet(), &uid("hand"), "Running").await;
    assert_eq!(bed.runtime.running(&uid("fixed")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_finds_the_apis_pods_as_they_run() {
    let bed = Bed::new();
    let first = provider(&bed).await;
    let desired = simple("a", "Always");
    first.create(&desired).await.unwrap();
    until_phase(first.kubelet(), &uid("a"), "Running").await;
    let kubelet = first.kubelet().clone();
    drop(first);
    kubelet.shutdown().await;
    let second = provider(&bed).await;
    let listed = second.list().await.unwrap();
    assert_eq!(listed.iter().map(|held| held.key.clone()).collect::<Vec<_>>(), [key(&desired)]);
    assert_eq!(listed[0].pod.metadata.annotations, None, "the mark is not the API's business");
    second.create(&desired).await.unwrap();
    until_phase(second.kubelet(), &uid("a"), "Running").await;
    let starts = bed.runtime.writes().iter().filter(|c| format!("{:?}", c.op) == "StartContainer").count();
    assert_eq!(starts, 1);
}

#[tokio::test(start_paused = true)]
async fn configuration_that_comes_with_a_pod_feeds_its_volumes_and_so_does_what_it_becomes() {
    let bed = Bed::new();
    let provider = provider(&bed).await;
    let with = |text: &str| {
        let mut objects = ObjectSet::default();
        let map = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"key": text}});
        objects.insert_config_map(serde_json::from_value::<ConfigMap>(map).unwrap());
        DesiredPod { objects: Arc::new(objects), ..simple("a", "Always") }
    };
    provider.create(&with("one")).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    assert_eq!(*bed.host.objects.lock().unwrap(), with("one").objects);
    provider.update(&with("two")).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(300);
    while *bed.host.objects.lock().unwrap() != with("two").objects {
        assert!(tokio::time::Instant::now() < deadline, "the volumes have the old content");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_is_dropped_is_undone_by_a_deletion() {
    let bed = Bed::new();
    let provider = provider(&bed).await;
    for polls in 1..6 {
        let desired = simple(&format!("a{polls}"), "Always");
        let mut create = provider.create(&desired);
        for _ in 0..polls {
            drop(futures_util::poll!(&mut create));
        }
        drop(create);
        drop(provider.delete(&key(&desired), Duration::ZERO).await);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(provider.list().await.unwrap(), [], "after {polls} polls");
        assert_eq!(bed.runtime.running(&key(&desired).uid), 0);
    }
}

/// Has room for nobody.
#[derive(Debug)]
struct Full;

#[async_trait]
impl Admit for Full {
    async fn admit(&self, _pod: &Pod, _active: &[Arc<Pod>], _pressure: &[Pressure]) -> Verdict {
        Verdict::Reject(Rejection { reason: "OutOfcpu".to_owned(), message: "no cpu".to_owned() })
    }

    async fn admit_again(&self, _pod: &Pod, _active: &[Arc<Pod>]) -> Verdict {
        Verdict::Admit
    }
}

async fn kubelet_with(bed: &Bed, config: KubeletConfig, ports: Ports) -> Kubelet {
    let (runtime, clock) = (Arc::new(bed.runtime.clone()), Arc::new(bed.runtime.clock()));
    Kubelet::start_with(config, runtime, clock, ports).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_is_held_with_upstreams_reason_until_it_is_deleted() {
    let bed = Bed::new();
    let kubelet = kubelet_with(&bed, Bed::config(), Ports { admit: Arc::new(Full), ..bed.ports() }).await;
    let provider = KubeletProvider::new(kubelet, MachineFacts::default());
    let desired = simple("a", "Always");
    provider.create(&desired).await.unwrap();
    let status = provider.status(&key(&desired)).await.unwrap().unwrap();
    assert_eq!((phase(&status), status.reason.as_deref()), ("Failed", Some("OutOfcpu")));
    assert!(status.message.unwrap_or_default().contains("no cpu"));
    provider.delete(&key(&desired), Duration::ZERO).await.unwrap();
    until_gone(provider.kubelet(), &uid("a")).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_rejects_and_ends_pods_with_upstreams_reasons() {
    let bed = Bed::new();
    let provider = provider(&bed).await;
    let desired = simple("a", "Always");
    provider.create(&desired).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    provider.close(true);
    provider.create(&desired).await.unwrap();
    match provider.create(&simple("late", "Always")).await {
        Err(ProviderError::Rejected { reason, .. }) => assert_eq!(reason, "NodeShutdown"),
        other => panic!("{other:?}"),
    }
    provider.end(&key(&desired), Duration::from_secs(5)).await.unwrap();
    let report = until_stage(provider.kubelet(), &uid("a"), PodStage::Finished).await;
    let status = report.pod.status.clone().unwrap();
    assert_eq!((phase(&status), status.reason.as_deref()), ("Failed", Some("Terminated")));
    assert!(provider.get(&key(&desired)).await.unwrap().is_some(), "it is kept");
    provider.close(false);
    provider.create(&simple("late", "Always")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_machine_is_described() {
    let bed = Bed::new();
    let state = tempfile::tempdir().unwrap();
    let (state_directory, runtime_version) = (state.path().to_owned(), "1".to_owned());
    let config = KubeletConfig { state_directory, runtime_version, max_pods: 77, ..Bed::config() };
    let kubelet = kubelet_with(&bed, config, bed.ports()).await;
    let facts = MachineFacts { kubelet_version: "v1".to_owned(), addresses: vec!["192.0.2.9".parse().unwrap()] };
    let provider = KubeletProvider::new(kubelet, facts);
    provider.create(&simple("a", "Always")).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    let described = provider.describe().await.unwrap();
    assert_eq!(described.readiness, Readiness::Ready);
    assert_eq!(described.capacity["pods"].value(), 77);
    assert!(described.allocatable["memory"] <= described.capacity["memory"]);
    assert_eq!(described.labels["kubernetes.io/hostname"], "node");
    assert_eq!(described.labels["beta.kubernetes.io/os"], "linux");
    assert_eq!(described.addresses, ["192.0.2.9".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(described.info.container_runtime_version, "minke://1");
    assert!(described.images.iter().any(|i| i.names.iter().flatten().any(|n| n.contains("image"))));
}

#[tokio::test(start_paused = true)]
async fn programs_are_joined_and_ports_reached_as_their_pod_has_them() {
    let bed = Bed::new();
    let provider = provider(&bed).await;
    let desired = pod("a", json!({"restartPolicy": "Never", "containers": [{"name": "main", "stdin": true}]}));
    provider.create(&desired).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    let (programs, ports) = (provider.extras().attach.unwrap(), provider.extras().port_forward.unwrap());
    let size = Some(TerminalSize { width: 100, height: 30 });
    let request = AttachRequest { stdin: true, tty: true, size };
    let session = programs.attach(&key(&desired), "main", request).await.unwrap();
    let had = (session.stdin.is_some(), session.stderr.is_some());
    assert_eq!(had, (true, true), "its spec has input and no terminal");
    let mut port = ports.connect(&key(&desired), 80).await.unwrap();
    let mut back = [0; 4];
    port.write_all(b"here").await.unwrap();
    port.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"here");

    assert!(programs.attach(&key(&desired), "other", request).await.err().unwrap().is_not_found());
    let stranger = PodKey { name: "b".into(), ..key(&desired) };
    assert!(programs.attach(&stranger, "main", request).await.err().unwrap().is_not_found());
    assert!(ports.connect(&stranger, 80).await.err().unwrap().is_not_found());

    let ended = session.control.wait();
    provider.end(&key(&desired), Duration::ZERO).await.unwrap();
    assert_eq!(ended.await.unwrap(), 0, "the end of the program is the session's");
    until_stage(provider.kubelet(), &uid("a"), PodStage::Finished).await;
    assert!(programs.attach(&key(&desired), "main", request).await.err().unwrap().is_not_found());
    let gone = ports.connect(&key(&desired), 80).await.err().unwrap();
    assert!(matches!(gone, ProviderError::Invalid { .. }), "{gone}");
}

/// A kubelet whose logs are in a directory of the test.
async fn with_logs(bed: &Bed) -> (KubeletProvider, tempfile::TempDir) {
    let logs = tempfile::tempdir().unwrap();
    let config = KubeletConfig { log_directory: logs.path().to_owned(), ..Bed::config() };
    (KubeletProvider::new(kubelet_with(bed, config, bed.ports()).await, MachineFacts::default()), logs)
}

fn write(logs: &tempfile::TempDir, desired: &DesiredPod, file: &str, lines: &[(u32, &str)]) {
    use std::io::Write;
    let directory = logs.path().join(key(desired).log_directory()).join("main");
    std::fs::create_dir_all(&directory).unwrap();
    let mut file = std::fs::File::options().create(true).append(true).open(directory.join(file)).unwrap();
    for (second, text) in lines {
        writeln!(file, "2026-01-01T00:00:{second:02}Z stdout F {text}").unwrap();
    }
}

async fn all(provider: &KubeletProvider, desired: &DesiredPod, options: LogOptions) -> Result<String, String> {
    let logs = provider.extras().logs.unwrap();
    let mut stream = logs.logs(&key(desired), "main", &options).await.map_err(|error| error.to_string())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    Ok(text)
}

#[tokio::test(start_paused = true)]
async fn every_option_of_logs_over_rotation() {
    let bed = Bed::new();
    let (provider, logs) = with_logs(&bed).await;
    let desired = simple("a", "Always");
    provider.create(&desired).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    write(&logs, &desired, "0.log.20260101-000001", &[(1, "one"), (2, "two")]);
    write(&logs, &desired, "0.log", &[(3, "three")]);
    let of = |options| all(&provider, &desired, options);
    let plain = LogOptions::default;
    assert_eq!(of(plain()).await.unwrap(), "one\ntwo\nthree\n");
    assert_eq!(of(LogOptions { tail_lines: Some(2), ..plain() }).await.unwrap(), "two\nthree\n");
    assert_eq!(of(LogOptions { tail_lines: Some(0), ..plain() }).await.unwrap(), "");
    assert_eq!(of(LogOptions { limit_bytes: Some(5), ..plain() }).await.unwrap(), "one\nt");
    let since = Since::Time("2026-01-01T00:00:02Z".parse().unwrap());
    assert_eq!(of(LogOptions { since: Some(since), ..plain() }).await.unwrap(), "two\nthree\n");
    assert_eq!(of(LogOptions { since: Some(Since::Seconds(u64::MAX)), ..plain() }).await.unwrap().len(), 14);
    let timed = of(LogOptions { timestamps: true, tail_lines: Some(1), ..plain() }).await.unwrap();
    assert_eq!(timed, "2026-01-01T00:00:03.000000000Z three\n");
    assert_eq!(of(LogOptions { stream: LogStreams::Stdout, ..plain() }).await.unwrap().len(), 14);
    assert_eq!(of(LogOptions { stream: LogStreams::Stderr, ..plain() }).await.unwrap(), "");
    let error = of(LogOptions { previous: true, ..plain() }).await.unwrap_err();
    assert!(error.contains("previous terminated container \"main\" in pod \"a\" not found"), "{error}");
    let stranger = provider.extras().logs.unwrap().logs(&key(&desired), "other", &plain()).await.err().unwrap();
    assert!(stranger.is_not_found());
}

#[tokio::test]
async fn logs_that_are_followed_end_with_the_containers_run() {
    let bed = Bed::new();
    let (provider, logs) = with_logs(&bed).await;
    let desired = pod("a", json!({"restartPolicy": "Never", "containers": [{"name": "main"}]}));
    provider.create(&desired).await.unwrap();
    until_phase(provider.kubelet(), &uid("a"), "Running").await;
    write(&logs, &desired, "0.log", &[(1, "one")]);
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = provider.extras().logs.unwrap().logs(&key(&desired), "main", &options).await.unwrap();
    let mut piece = [0; 64];
    let n = stream.read(&mut piece).await.unwrap();
    assert_eq!(&piece[..n], b"one\n");
    write(&logs, &desired, "0.log", &[(2, "two")]);
    let n = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut piece)).await.unwrap().unwrap();
    assert_eq!(&piece[..n], b"two\n");
    write(&logs, &desired, "0.log", &[(3, "last")]);
    provider.end(&key(&desired), Duration::ZERO).await.unwrap();
    let mut rest = String::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, "last\n");
}
