//! The life of a Pod over CRI, on each containerd that Debian has. What every runtime must do alike is in the conformance
//! table; here is what this adapter adds to it: labels and annotations that come back, names of images, logs, use, events.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use minke_core::clock::SystemClock;
use minke_core::fake;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerService as _, ContainerState, EventService as _, ExecService as _, Exit,
    ExitCode, ImageService as _, ImageStatus, ListFilter, NamespaceMode, NamespaceOptions, RuntimeError,
    RuntimeEventKind, SandboxConfig, SandboxId, SandboxService as _, SandboxState, StatsService as _, labels,
};
use minke_cri::{CriConfig, CriRuntime, Endpoint};
use minke_testkit::containerd::{Containerd, Network, Programs, Release};
use minke_testkit::{BUSYBOX, busybox_image};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any step on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What containers run.
const IMAGE: &str = "localhost/minke/busybox:1";

#[tokio::test]
async fn the_life_of_a_pod_on_containerd_1_6() {
    on(Release::Bookworm).await;
}

#[tokio::test]
async fn the_life_of_a_pod_on_containerd_1_7() {
    on(Release::Trixie).await;
}

#[tokio::test]
async fn the_life_of_a_pod_on_containerd_2_1() {
    on(Release::Sid).await;
}

/// Everything, side by side on one containerd.
async fn on(release: Release) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containerd");
    let programs = tokio::task::spawn_blocking(move || Programs::get(&cache, release)).await.unwrap();
    let programs = match programs {
        Ok(programs) if Path::new(BUSYBOX).exists() => programs,
        Ok(_) => return println!("SKIPPED the_life_of_a_pod_on_{release}: needs Debian's package busybox-static"),
        Err(reason) => return println!("SKIPPED the_life_of_a_pod_on_{release}: {reason}"),
    };
    let mut containerd = Containerd::start(&programs, Network::None).await.unwrap();
    containerd.import(&busybox_image(Path::new(BUSYBOX)).unwrap().name(IMAGE).build()).await.unwrap();
    let endpoint = Endpoint::parse(containerd.socket().to_str().unwrap()).unwrap();
    let runtime = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await.unwrap();
    let image = in_store(&runtime).await;
    let bed = async |name: &str| Bed::new(&runtime, &image, name, &containerd).await;
    tokio::join!(
        async { a_container_lives_and_ends(bed("lives").await).await },
        async { a_program_that_is_not_there(bed("missing").await).await },
        async { commands_statistics_and_logs_of_a_running_container(bed("running").await).await },
        async { events_tell_of_a_containers_life(bed("events").await, release).await },
    );
    assert_eq!(containerd.leftovers(), "");
}

/// Waits until CRI shows the image that was imported.
async fn in_store(runtime: &CriRuntime) -> ImageStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = runtime.image_status(IMAGE).await.unwrap() {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "{IMAGE} was imported and is not there");
        sleep(Duration::from_millis(10)).await;
    }
}

/// One sandbox on a runtime, removed at the end.
struct Bed {
    runtime: CriRuntime,
    image: ImageStatus,
    pod: SandboxConfig,
    sandbox: SandboxId,
    _logs: tempfile::TempDir,
}

fn pod(name: &str, logs: &Path, cgroup: &str) -> SandboxConfig {
    let key = PodKey::new("minke-test", name, PodUid::new(format!("{name}-{}", std::process::id())).unwrap());
    let label = |key: &str, value: &dyn ToString| (key.to_owned(), value.to_string());
    SandboxConfig {
        hostname: "as-the-kubelet-core-gives-it".to_owned(),
        log_directory: logs.to_owned(),
        labels: BTreeMap::from([
            label(labels::POD_UID, &key.uid),
            label(labels::POD_NAME, &key.name),
            label(labels::POD_NAMESPACE, &key.namespace),
        ]),
        annotations: BTreeMap::from([label("note", &"kept")]),
        cgroup_parent: format!("{cgroup}/pod{}", key.uid),
        namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
        ..fake::sandbox_config(key)
    }
}

impl Bed {
    async fn new(runtime: &CriRuntime, image: &ImageStatus, name: &str, containerd: &Containerd) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let pod = pod(name, logs.path(), containerd.cgroup());
        let sandbox = runtime.run_sandbox(&pod).await.unwrap();
        Self { runtime: runtime.clone(), image: image.clone(), pod, sandbox, _logs: logs }
    }

    fn container(&self, name: &str, script: &str) -> ContainerConfig {
        ContainerConfig {
            image_name: "busybox:as-the-manifest-says".to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            labels: BTreeMap::from([
                (labels::POD_UID.to_owned(), self.pod.pod.uid.to_string()),
                (labels::CONTAINER_NAME.to_owned(), name.to_owned()),
            ]),
            annotations: BTreeMap::from([(labels::RESTART_COUNT.to_owned(), "0".to_owned())]),
            ..fake::container_config(name, 0, self.image.id.clone())
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

async fn a_container_lives_and_ends(bed: Bed) {
    let status = bed.runtime.sandbox_status(&bed.sandbox).await.unwrap();
    assert_eq!((&status.info.pod, status.info.state), (&bed.pod.pod, SandboxState::Ready));
    assert_eq!((&status.annotations, &status.labels), (&bed.pod.annotations, &bed.pod.labels));
    assert_eq!(status.namespaces, bed.pod.namespaces);

    let config = bed.container("main", "echo hello; exit 7");
    let half = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap();
    assert_eq!(bed.runtime.container_status(&half).await.unwrap().state, ContainerState::Created);
    let id = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap();
    let gone = bed.runtime.container_status(&half).await.unwrap_err();
    assert!(gone.is_not_found(), "what was never started makes room: {gone:?}");
    bed.runtime.start_container(&id).await.unwrap();
    let again = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap_err();
    assert!(matches!(again, RuntimeError::AlreadyExists { what: "container", .. }), "{again:?}");
    let exit = bed.exit(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(7), "Error"));
    let status = bed.runtime.container_status(&id).await.unwrap();
    assert_eq!((status.image_name.as_str(), &status.image), ("busybox:as-the-manifest-says", &bed.image.id));
    assert_eq!((&status.sandbox, &status.annotations), (&bed.sandbox, &config.annotations));
    assert_eq!(status.log_path, bed.pod.log_directory.join("main/0.log"));
    let log = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(log.trim_end().ends_with(" stdout F hello"), "{log}");
    let refused = bed.runtime.remove_image(&bed.image.id.0).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::Invalid { .. }), "it is in use: {refused:?}");
    bed.runtime.remove_container(&id).await.unwrap();
    bed.runtime.remove_container(&id).await.unwrap();
    assert!(bed.runtime.container_status(&id).await.unwrap_err().is_not_found());
    bed.end().await;
}

async fn a_program_that_is_not_there(bed: Bed) {
    let config = ContainerConfig { command: vec!["/nope".to_owned()], ..bed.container("main", "") };
    let id = bed.runtime.create_container(&bed.sandbox, &config, &bed.pod).await.unwrap();
    let error = bed.runtime.start_container(&id).await.unwrap_err();
    assert!(matches!(error, RuntimeError::NotExecutable { exit_code: 127, .. }), "{error:?}");
    let exit = bed.exit(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Known(128), "StartError"));
    bed.end().await;
}

async fn commands_statistics_and_logs_of_a_running_container(bed: Bed) {
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

async fn events_tell_of_a_containers_life(bed: Bed, release: Release) {
    let mut stream = bed.runtime.subscribe().unwrap();
    if release == Release::Bookworm {
        let error = timeout(PATIENCE, stream.next()).await.expect("it says so at once").unwrap().unwrap_err();
        assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error:?}");
        assert!(matches!(bed.runtime.subscribe().map(drop), Err(RuntimeError::Unsupported { .. })));
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
    let (pod, sandbox) = (bed.pod.pod.uid.clone(), bed.sandbox.clone());
    bed.end().await;
    loop {
        let event = timeout(PATIENCE, stream.next()).await.expect("an event").unwrap().unwrap();
        if event.id == sandbox.0 && event.kind == RuntimeEventKind::Deleted {
            assert_eq!(event.pod, pod);
            return;
        }
    }
}
