//! A runtime with its own directories, and Pods to run in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use minke_core::clock::SystemClock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerId, ContainerSecurity, ContainerService, ContainerState, Exit, ExitCode, ImageId,
    LinuxResources, NamespaceMode, NamespaceOptions, SandboxConfig, SandboxId, SandboxService, SeccompProfile,
};
use minke_oci::image::ImportSource;
use minke_oci::network::NetworkConfig;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime};
use minke_testkit::{BUSYBOX, ImageBuilder, TempState, busybox_image};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// One runtime in directories of its own; everything is stopped and removed by `close`.
pub(crate) struct Machine {
    pub(crate) temp: TempState,
    pub(crate) runtime: EmbeddedRuntime,
    pub(crate) image: ImageId,
    /// Root of its cgroups.
    pub(crate) cgroup: String,
}

pub(crate) fn config(temp: &TempState) -> EmbeddedConfig {
    let mut network = NetworkConfig::new(temp.state());
    network.cni = None;
    network.machine_lock = temp.root().join("network.lock");
    EmbeddedConfig { network, ..EmbeddedConfig::new(temp.state(), temp.run()) }
}

pub(crate) async fn open(temp: &TempState) -> EmbeddedRuntime {
    EmbeddedRuntime::open(config(temp), Arc::new(SystemClock)).await.unwrap()
}

pub(crate) async fn import(runtime: &EmbeddedRuntime, temp: &TempState, image: ImageBuilder) -> ImageId {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = temp.root().join(format!("image{number}.tar"));
    image.name(&format!("localhost/test{number}:1")).build().write_oci_archive(&path).unwrap();
    let imported = runtime.images().import(ImportSource::Path(path), &[]).await.unwrap();
    imported[0].id.clone()
}

/// A Pod of the churning agent, which has no `Machine`.
pub(crate) fn churning(root: &Path, cgroup: &str, image: &str, number: u64) -> (SandboxConfig, ContainerConfig) {
    let uid = format!("churn-{}-{number}", std::process::id());
    let sandbox = sandbox_config(&root.join("logs"), cgroup, "churn", &uid);
    let sandbox = SandboxConfig { namespaces: NamespaceOptions::default(), ..sandbox };
    (sandbox, shell_config(&ImageId(image.to_owned()), "while :; do usleep 1000; done"))
}

fn sandbox_config(logs: &Path, cgroup: &str, name: &str, uid: &str) -> SandboxConfig {
    SandboxConfig {
        pod: PodKey::new("default", name, PodUid::new(uid).unwrap()),
        attempt: 0,
        hostname: name.to_owned(),
        log_directory: logs.join(uid),
        dns: None,
        port_mappings: vec![],
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup_parent: format!("{cgroup}/pod{uid}"),
        resources: LinuxResources::default(),
        sysctls: BTreeMap::new(),
        namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
        privileged: false,
        seccomp: SeccompProfile::RuntimeDefault,
        runtime_handler: String::new(),
    }
}

fn shell_config(image: &ImageId, script: &str) -> ContainerConfig {
    ContainerConfig {
        name: "c".into(),
        attempt: 0,
        image: image.clone(),
        image_name: "localhost/test:1".into(),
        command: vec!["/bin/sh".into(), "-c".into()],
        args: vec![script.into()],
        working_dir: None,
        env: vec![],
        mounts: vec![],
        devices: vec![],
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        log_path: "c/0.log".into(),
        stdin: false,
        stdin_once: false,
        tty: false,
        resources: LinuxResources::default(),
        security: ContainerSecurity::default(),
        stop_signal: None,
    }
}

impl Machine {
    pub(crate) async fn new() -> Self {
        let temp = TempState::new().unwrap();
        let runtime = open(&temp).await;
        let image = import(&runtime, &temp, busybox_image(Path::new(BUSYBOX)).unwrap()).await;
        let cgroup = format!("/mk-runtime-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { temp, runtime, image, cgroup }
    }

    /// A sandbox on the host's network (of the test's own network namespace).
    pub(crate) fn sandbox(&self, name: &str) -> SandboxConfig {
        let uid = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        sandbox_config(&self.temp.logs(), &self.cgroup, name, &uid)
    }

    /// A container that runs a shell script.
    pub(crate) fn shell(&self, script: &str) -> ContainerConfig {
        shell_config(&self.image, script)
    }

    /// Runs a script in a Pod of its own to its end and returns its output and how it ended.
    pub(crate) async fn output(
        &self,
        change: impl FnOnce(&mut SandboxConfig, &mut ContainerConfig),
        script: &str,
    ) -> (String, Exit) {
        let mut sandbox = self.sandbox("out");
        let mut container = self.shell(script);
        change(&mut sandbox, &mut container);
        let (pod, id) = self.start(&sandbox, &container).await;
        let exit = self.ended(&id).await;
        let text = self.log(&sandbox, &container);
        self.runtime.remove_sandbox(&pod).await.unwrap();
        (text, exit)
    }

    pub(crate) async fn start(&self, sandbox: &SandboxConfig, container: &ContainerConfig) -> (SandboxId, ContainerId) {
        let pod = self.runtime.run_sandbox(sandbox).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
        let id = self.add(&pod, sandbox, container).await;
        (pod, id)
    }

    pub(crate) async fn add(
        &self,
        pod: &SandboxId,
        sandbox: &SandboxConfig,
        container: &ContainerConfig,
    ) -> ContainerId {
        let id =
            self.runtime.create_container(pod, container, sandbox).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
        self.runtime.start_container(&id).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
        id
    }

    /// Waits for the end of a container.
    pub(crate) async fn ended(&self, id: &ContainerId) -> Exit {
        eventually("the container ends", async || match self.runtime.container_status(id).await.unwrap().state {
            ContainerState::Exited { exit, .. } => Some(exit),
            _ => None,
        })
        .await
    }

    pub(crate) fn log_path(&self, sandbox: &SandboxConfig, container: &ContainerConfig) -> PathBuf {
        sandbox.log_directory.join(&container.log_path)
    }

    /// The text of a log without its prefixes; partial records are joined.
    pub(crate) fn log(&self, sandbox: &SandboxConfig, container: &ContainerConfig) -> String {
        text(&std::fs::read_to_string(self.log_path(sandbox, container)).unwrap_or_default())
    }

    /// Removes every Pod and checks that nothing is left.
    pub(crate) async fn close(self) {
        for sandbox in self.runtime.list_sandboxes(&Default::default()).await.unwrap() {
            self.runtime.remove_sandbox(&sandbox.id).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
        }
        drop(self.runtime);
        nothing_left(&self.temp, &self.cgroup).await;
    }
}

/// No process, cgroup or mount of a machine that was emptied.
pub(crate) async fn nothing_left(temp: &TempState, cgroup: &str) {
    eventually("nothing is left", async || leftovers(temp, cgroup).is_empty().then_some(())).await;
}

pub(crate) fn leftovers(temp: &TempState, cgroup: &str) -> Vec<String> {
    let mut found: Vec<String> = temp.mounts().iter().map(|m| format!("mount {}", m.display())).collect();
    let name = cgroup.trim_start_matches('/');
    for entry in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        let dir = entry.path().join(name);
        if dir.exists() {
            found.push(format!("cgroup {}", dir.display()));
        }
    }
    let run = temp.run().display().to_string();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(line) = std::fs::read_to_string(entry.path().join("cmdline"))
            && line.starts_with("minke-shim")
            && line.contains(&run)
        {
            found.push(format!("process {} {line:?}", entry.file_name().display()));
        }
    }
    for dir in [temp.run().join("pods"), temp.state().join("sandboxes")] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            found.push(format!("directory {}", entry.path().display()));
        }
    }
    found
}

/// Waits for a condition, at most 30 s.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(value) = condition().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("did not happen within 30 s: {what}");
}

pub(crate) fn text(log: &str) -> String {
    let mut out = String::new();
    for line in log.lines() {
        let mut fields = line.splitn(4, ' ');
        let (Some(time), Some(_stream), Some(tag), Some(text)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            panic!("not a log record: {line:?}");
        };
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line:?}");
        out.push_str(text);
        match tag {
            "F" => out.push('\n'),
            "P" => {}
            other => panic!("tag {other:?}"),
        }
    }
    out
}

pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    minke_core::runtime::error_chain(error)
}

pub(crate) fn code(exit: &Exit) -> i32 {
    match exit.code {
        ExitCode::Known(code) => code,
        ExitCode::Lost => panic!("lost: {exit:?}"),
    }
}
