//! The life of a Pod on a real runtime, named by `MINKE_TEST_CRI_ENDPOINT`, with an image of busybox in its store, named by
//! `MINKE_TEST_CRI_IMAGE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use minke_core::clock::SystemClock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerSecurity, ContainerService as _, ContainerState, EventService as _,
    ExecService as _, Exit, ExitCode, ImageService as _, ImageStatus, LinuxResources, ListFilter, NamespaceMode,
    NamespaceOptions, RuntimeError, RuntimeEventKind, SandboxConfig, SandboxId, SandboxService as _, SandboxState,
    SeccompProfile, StatsService as _, labels,
};
use minke_cri::{CriConfig, CriRuntime, Endpoint};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any step on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime and one sandbox on it, removed at the end.
struct Bed {
    runtime: CriRuntime,
    image: ImageStatus,
    pod: SandboxConfig,
    sandbox: SandboxId,
    _logs: tempfile::TempDir,
}

fn given(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The runtime of the environment, if one is named.
async fn bed(test: &str) -> Option<Bed> {
    let (Some(endpoint), Some(image)) = (given("MINKE_TEST_CRI_ENDPOINT"), given("MINKE_TEST_CRI_IMAGE")) else {
        println!("SKIPPED {test}: MINKE_TEST_CRI_ENDPOINT and MINKE_TEST_CRI_IMAGE name no runtime");
        return None;
    };
    let config = CriConfig { endpoint: Endpoint::parse(&endpoint).unwrap() };
    let runtime = CriRuntime::open(config, Arc::new(SystemClock)).await.unwrap();
    let image = runtime.image_status(&image).await.unwrap().expect("the image is in the store");
    let logs = tempfile::tempdir().unwrap();
    let pod = pod(test, logs.path());
    let sandbox = runtime.run_sandbox(&pod).await.unwrap();
    Some(Bed { runtime, image, pod, sandbox, _logs: logs })
}

fn pod(test: &str, logs: &Path) -> SandboxConfig {
    let uid = PodUid::new(format!("{}-{}", test.replace('_', "-"), std::process::id())).unwrap();
    let label = |key: &str, value: String| (key.to_owned(), value);
    SandboxConfig {
        pod: PodKey::new("minke-test", test.replace('_', "-"), uid.clone()),
        attempt: 0,
        hostname: "as-the-kubelet-core-gives-it".to_owned(),
        log_directory: logs.to_owned(),
        dns: None,
        port_mappings: Vec::new(),
        labels: BTreeMap::from([
            label(labels::POD_UID, uid.to_string()),
            label(labels::POD_NAME, test.replace('_', "-")),
            label(labels::POD_NAMESPACE, "minke-test".to_owned()),
        ]),
        annotations: BTreeMap::from([label("note", "kept".to_owned())]),
        cgroup_parent: format!("/minke-cri-test/pod{uid}"),
        resources: LinuxResources::default(),
        sysctls: BTreeMap::new(),
        namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
        privileged: false,
        seccomp: SeccompProfile::RuntimeDefault,
        runtime_handler: String::new(),
    }
}

impl Bed {
    fn container(&self, name: &str, script: &str) -> ContainerConfig {
        ContainerConfig {
            name: name.to_owned(),
            attempt: 0,
            image: self.image.id.clone(),
            image_name: "busybox:as-the-manifest-says".to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            args: Vec::new(),
            working_dir: None,
            env: Vec::new(),
            mounts: Vec::new(),
            devices: Vec::new(),
            labels: BTreeMap::from([
                (labels::POD_UID.to_owned(), self.pod.pod.uid.to_string()),
                (labels::CONTAINER_NAME.to_owned(), name.to_owned()),
            ]),
            annotations: BTreeMap::from([(labels::RESTART_COUNT.to_owned(), "0".to_owned())]),
            log_path: Path::new(name).join("0.log"),
            stdin: false,
            stdin_once: false,
            tty: false,
            resources: LinuxResources::default(),
            security: ContainerSecurity::default(),
            stop_signal: None,
        }
    }

    async fn start(&self, config: &ContainerConfig) -> ContainerId {
        let id = self.runtime.create_container(&self.sandbox, config, &self.pod).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    async fn exit(&self, id: &ContainerId) -> Exit {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let ContainerState::Exited { exit, .. } = self.runtime.container_status(id).await.unwrap().state {
                return exit;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} does not end");
    }

    async fn end(self) {
        self.runtime.stop_sandbox(&self.sandbox).await.unwrap();
        let filter = ListFilter::pod(&self.pod.pod.uid);
        assert_eq!(self.runtime.list_sandboxes(&filter).await.unwrap()[0].state, SandboxState::NotReady);
        for _ in 0..2 {
            self.runtime.remove_sandbox(&self.sandbox).await.unwrap();
        }
        assert_eq!(self.runtime.list_sandboxes(&filter).await.unwrap(), []);
        assert_eq!(self.runtime.list_containers(&filter).await.unwrap(), []);
        let cgroup = Path::new("/sys/fs/cgroup/memory").join(self.pod.cgroup_parent.trim_matches('/'));
        assert!(!cgroup.exists(), "nothing is left of its cgroup");
    }
}

#[tokio::test]
async fn a_container_lives_and_ends() {
    let Some(bed) = bed("a_container_lives_and_ends").await else { return };
    let status = bed.runtime.sandbox_status(&bed.sandbox).await.unwrap();
    assert_eq!((&status.info.pod, status.info.state), (&bed.pod.pod, SandboxState::Ready));
    assert_eq!((&status.annotations, &status.labels), (&bed.pod.annotations, &bed.pod.labels));
    assert_eq!(status.namespaces, bed.pod.namespaces);

    let config = bed.container("main", "echo hello; exit 7");
    let id = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap();
    assert_eq!(bed.runtime.container_status(&id).await.unwrap().state, ContainerState::Created);
    let again = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap_err();
    assert!(matches!(again, RuntimeError::AlreadyExists { what: "container", .. }), "{again:?}");
    bed.runtime.start_container(&id).await.unwrap();
    let exit = bed.exit(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(7), "Error"));
    let status = bed.runtime.container_status(&id).await.unwrap();
    assert_eq!((status.image_name.as_str(), &status.image), ("busybox:as-the-manifest-says", &bed.image.id));
    assert_eq!((&status.sandbox, &status.annotations), (&bed.sandbox, &config.annotations));
    assert_eq!(status.log_path, bed.pod.log_directory.join("main/0.log"));
    let log = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(log.trim_end().ends_with(" stdout F hello"), "{log}");
    let refused = bed.runtime.remove_image(&bed.image.id.0).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::Failed { .. }), "it is in use: {refused:?}");
    bed.runtime.remove_container(&id).await.unwrap();
    bed.runtime.remove_container(&id).await.unwrap();
    assert!(bed.runtime.container_status(&id).await.unwrap_err().is_not_found());
    bed.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    let Some(bed) = bed("a_program_that_is_not_there").await else { return };
    let config = ContainerConfig { command: vec!["/nope".to_owned()], ..bed.container("main", "") };
    let id = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap();
    let error = bed.runtime.start_container(&id).await.unwrap_err();
    assert!(matches!(error, RuntimeError::NotExecutable { exit_code: 127, .. }), "{error:?}");
    let exit = bed.exit(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(128), "StartError"));
    bed.end().await;
}

#[tokio::test]
async fn commands_statistics_and_logs_of_a_running_container() {
    let Some(bed) = bed("commands_statistics_and_logs_of_a_running_container").await else { return };
    let id = bed.start(&bed.container("main", "trap 'exit 3' TERM; while true; do sleep 0.1; done")).await;
    let run = async |script: &str, after: Option<u64>| {
        let command = ["sh", "-c", script].map(str::to_owned);
        bed.runtime.exec_sync(&id, &command, after.map(Duration::from_millis)).await
    };
    let output = run("echo out; echo err >&2; exit 4", None).await.unwrap();
    assert_eq!((output.exit_code, &output.stdout[..], &output.stderr[..]), (4, &b"out\n"[..], &b"err\n"[..]));
    let late = run("sleep 30", Some(300)).await.unwrap_err();
    assert!(matches!(late, RuntimeError::TimedOut { after, .. } if after == Duration::from_millis(300)), "{late:?}");
    let missing = bed.runtime.exec_sync(&id, &["nope".to_owned()], None).await.unwrap_err();
    assert!(matches!(missing, RuntimeError::NotExecutable { exit_code: 127, .. }), "{missing:?}");

    let begun = Instant::now();
    loop {
        let usage = bed.runtime.pod_usage(&ListFilter::pod(&bed.pod.pod.uid)).await.unwrap();
        let own = usage.first().and_then(|u| u.containers.first()).and_then(|c| c.cgroup);
        if own.is_some_and(|c| c.cpu_nanos > 0 && c.memory_usage_bytes > 0) {
            assert_eq!(usage[0].containers[0].name, "main");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{usage:?}");
        sleep(Duration::from_millis(200)).await;
    }
    bed.runtime.reopen_log(&id).await.unwrap();
    bed.runtime.stop_container(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(bed.exit(&id).await.code, ExitCode::Known(3), "it was asked to end before it was made to");
    bed.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    bed.runtime.reopen_log(&id).await.unwrap();
    let ended = bed.runtime.exec_sync(&id, &["true".to_owned()], None).await.unwrap_err();
    assert!(matches!(ended, RuntimeError::Invalid { .. }), "{ended:?}");
    bed.end().await;
}

#[tokio::test]
async fn events_tell_of_a_containers_life_where_there_are_any() {
    let name = "events_tell_of_a_containers_life_where_there_are_any";
    let Some(bed) = bed(name).await else { return };
    let mut stream = bed.runtime.subscribe().unwrap();
    // A runtime without events says so at once.
    if let Ok(Some(Err(error))) = timeout(Duration::from_secs(1), stream.next()).await {
        assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error:?}");
        assert!(matches!(bed.runtime.subscribe().map(drop), Err(RuntimeError::Unsupported { .. })));
        println!("SKIPPED {name}: {} {} has no events", bed.runtime.facts().name, bed.runtime.facts().version);
        return bed.end().await;
    }
    let id = bed.start(&bed.container("main", "exit 0")).await;
    let mut kinds = Vec::new();
    while !kinds.contains(&RuntimeEventKind::Stopped) {
        let event = timeout(PATIENCE, stream.next()).await.expect("an event").unwrap().unwrap();
        if event.id == id.0 {
            assert_eq!(event.pod, bed.pod.pod.uid);
            kinds.push(event.kind);
        }
    }
    assert_eq!(kinds, [RuntimeEventKind::Created, RuntimeEventKind::Started, RuntimeEventKind::Stopped]);
    bed.runtime.stop_sandbox(&bed.sandbox).await.unwrap();
    bed.runtime.remove_sandbox(&bed.sandbox).await.unwrap();
    loop {
        let event = timeout(PATIENCE, stream.next()).await.expect("an event").unwrap().unwrap();
        if event.id == bed.sandbox.0 && event.kind == RuntimeEventKind::Deleted {
            assert_eq!(event.pod, bed.pod.pod.uid);
            return;
        }
    }
}
