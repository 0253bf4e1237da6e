//! An instance of Minke for one test, and what to look at from outside.

use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use minke_testkit::{BUSYBOX, TempState, busybox_image};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_minke");

/// The image that every instance has.
pub(crate) const IMAGE: &str = "localhost/test/busybox:1";

/// Nothing in these tests takes longer on a busy machine, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Runs a test on an instance of its own, or says why it can't.
pub(crate) async fn with_instance<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Instance) -> F) {
    if let Some(reason) = why_not() {
        println!("SKIPPED {name}: {reason}");
        return;
    }
    test(Instance::new().await).await;
}

/// What this machine lacks for real containers.
pub(crate) fn why_not() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    (!Path::new(BUSYBOX).exists()).then_some("needs Debian's package busybox-static")
}

/// What a command came to.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Fails the test, with all that was said, unless the command ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n--- stdout\n{}\n--- stderr\n{}", self.out, self.err);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().or_else(|| output.status.signal().map(|s| 128 + s));
        Self {
            code: code.unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A state directory with everything that belongs to it.
#[derive(Debug)]
pub(crate) struct Instance {
    place: TempState,
    /// The socket of a runtime that is not the embedded one.
    endpoint: Option<PathBuf>,
}

impl Instance {
    /// One whose Pods are on the runtime at this socket, which must outlive it or be cleared by others.
    pub(crate) fn on(endpoint: PathBuf) -> Self {
        Self { place: TempState::new().unwrap(), endpoint: Some(endpoint) }
    }

    async fn new() -> Self {
        let instance = Self { place: TempState::new().unwrap(), endpoint: None };
        let archive = instance.root().join("busybox.tar");
        std::fs::write(&archive, image_archive()).unwrap();
        instance.minke(&["image", "import", archive.to_str().unwrap()]).await.expect(0);
        instance
    }

    pub(crate) fn root(&self) -> &Path {
        self.place.root()
    }

    /// The program on this instance.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(PROGRAM, arguments)
    }

    /// The same where as few files may be open as after a usual login.
    pub(crate) fn command_with_few_files(&self, arguments: &[&str]) -> Command {
        let script = "ulimit -Sn 1024 && exec \"$0\" \"$@\"";
        self.command_of("sh", &[&["-c", script, PROGRAM], arguments].concat())
    }

    fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("MINKE_LOG")
            .env("MINKE_STATE_DIR", self.place.state())
            .env("MINKE_RUN_DIR", self.place.run())
            .env("MINKE_LOG_DIR", self.place.logs())
            // What this machine has configured for others is not for tests.
            .env("MINKE_CNI_CONF_DIR", self.root().join("cni"))
            .env("MINKE_CNI_BIN_DIR", self.root().join("cni"))
            // Nor how full its disk is.
            .env("MINKE_EVICTION_HARD", "none")
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(endpoint) = &self.endpoint {
            command.env("MINKE_RUNTIME_ENDPOINT", endpoint);
        }
        command
    }

    /// Runs it to its end.
    pub(crate) async fn minke(&self, arguments: &[&str]) -> Ran {
        let output = tokio::time::timeout(PATIENCE, self.command(arguments).output()).await;
        output.unwrap_or_else(|_| panic!("{arguments:?} does not end\n{}", self.agent_log())).unwrap().into()
    }

    /// Starts it and lets it run. What it says is in files of the instance, so that nothing of it is lost with a test that fails.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{SAID}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let file = |end: &str| self.root().join(format!("{name}.{end}"));
        let said = Said { out: file("out"), err: file("err") };
        let into = |path: &Path| Stdio::from(std::fs::File::create_new(path).unwrap());
        let child = self.command(arguments).stdout(into(&said.out)).stderr(into(&said.err)).spawn().unwrap();
        Running { child, said }
    }

    /// What the instance looks like to somebody who asks why a test failed.
    fn tell(&self) {
        eprintln!("--- agent.log\n{}", self.agent_log());
        let mut said: Vec<_> =
            std::fs::read_dir(self.root()).into_iter().flatten().flatten().map(|e| e.path()).collect();
        said.retain(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(SAID)));
        said.sort();
        for path in said {
            eprintln!("--- {}\n{}", path.display(), std::fs::read_to_string(&path).unwrap_or_default());
        }
        for (pid, command) in self.processes() {
            let waits = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
            eprintln!("--- process {pid} {command}: in {waits}");
        }
        let mut list = self.std_command();
        if let Ok(output) = list.args(["ps", "--all", "--output", "yaml"]).output() {
            eprintln!("--- ps\n{}", String::from_utf8_lossy(&output.stdout));
        }
    }

    /// The program on this instance, for where no async runtime is at hand.
    fn std_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(PROGRAM);
        command
            .env("MINKE_STATE_DIR", self.place.state())
            .env("MINKE_RUN_DIR", self.place.run())
            .env("MINKE_LOG_DIR", self.place.logs())
            .env("MINKE_CNI_CONF_DIR", self.root().join("cni"))
            .env("MINKE_CNI_BIN_DIR", self.root().join("cni"))
            .envs(self.endpoint.iter().map(|endpoint| ("MINKE_RUNTIME_ENDPOINT", endpoint)));
        command
    }

    /// Writes a manifest into the instance.
    pub(crate) fn manifest(&self, name: &str, text: &str) -> String {
        let path = self.root().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A Pod of one container that runs a shell script.
    pub(crate) fn pod(&self, name: &str, restart: &str, script: &str) -> String {
        self.manifest(&format!("{name}.yaml"), &pod(name, restart, script))
    }

    /// The first Pod of this name, as `ps` has it.
    pub(crate) async fn ps(&self, name: &str) -> Option<Value> {
        let all = self.minke(&["ps", "-o", "json"]).await.expect(0).json();
        all.as_array().unwrap().iter().find(|p| p["name"] == name).cloned()
    }

    /// The process that holds the agent's lock.
    pub(crate) fn agent(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.place.state().join("agent.lock")).ok()?;
        let pid = Pid::from_raw(text.trim().parse().ok()?)?;
        let name = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        // A number may be used again by another process.
        let state = self.place.state();
        String::from_utf8_lossy(&name).contains(state.to_str().unwrap()).then_some(pid)
    }

    /// Kills the agent and waits until it is gone. Whether there was one.
    pub(crate) async fn kill_agent(&self) -> bool {
        let Some(pid) = self.agent() else { return false };
        let _ = kill_process(pid, Signal::KILL);
        wait("the killed agent to be gone", || test_kill_process(pid).is_err() || is_zombie(pid)).await;
        true
    }

    /// Ends the agent in an orderly way.
    pub(crate) async fn end_agent(&self) {
        let Some(pid) = self.agent() else { return };
        let _ = kill_process(pid, Signal::TERM);
        wait("the agent to end", || test_kill_process(pid).is_err() || is_zombie(pid)).await;
    }

    pub(crate) fn agent_log(&self) -> String {
        std::fs::read_to_string(self.place.state().join("agent.log")).unwrap_or_default()
    }

    /// Everything of this instance that is left on the machine once all Pods are removed: a line each.
    pub(crate) fn leftovers(&self) -> String {
        let mut found = String::new();
        let mut add = |what: &str, thing: &dyn std::fmt::Display| {
            let _ = writeln!(found, "{what}: {thing}");
        };
        for mount in self.place.mounts() {
            add("mount", &mount.display());
        }
        for (pid, command) in self.processes() {
            if Some(pid) != self.agent().map(|a| a.as_raw_nonzero().get()) {
                add("process", &format!("{pid} {command}"));
            }
        }
        for cgroup in self.pod_cgroups() {
            add("cgroup", &cgroup.display());
        }
        let state = self.place.state();
        let run = self.place.run();
        let empty = ["pods", "sandboxes", "network/ipam", "network/ports", "network/sandboxes"];
        for directory in empty.iter().map(|d| state.join(d)).chain([run.join("pods"), self.place.logs()]) {
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                // Where the next address is looked for; not an address.
                if entry.file_name() != "last" {
                    add("file", &entry.path().display());
                }
            }
        }
        if let Some(bridge) = self.bridge() {
            for port in std::fs::read_dir(format!("/sys/class/net/{bridge}/brif")).into_iter().flatten().flatten() {
                add("interface", &port.file_name().display());
            }
        }
        found
    }

    /// The name of the bridge and of the nft table, once there was a Pod with a network.
    pub(crate) fn bridge(&self) -> Option<String> {
        let text = std::fs::read(self.place.state().join("network/instance.json")).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        value["bridge"].as_str().map(ToOwned::to_owned)
    }

    /// Its agent and its shims.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        self.place.processes()
    }

    /// Processes in cgroups of Pods.
    pub(crate) fn pod_processes(&self) -> Vec<i32> {
        self.pod_cgroups().iter().flat_map(|group| members(group)).collect()
    }

    /// Kills them, and what is left in cgroups of Pods.
    fn kill_processes(&self) {
        for pid in
            self.processes().into_iter().map(|(pid, _)| pid).chain(self.pod_processes()).filter_map(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Cgroups of Pods, on every hierarchy.
    pub(crate) fn pod_cgroups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for group in self.place.cgroups() {
            collect_pods(&group, &mut found);
        }
        found
    }

    /// The instance's own cgroup, on every hierarchy: empty directories may be left of it.
    pub(crate) fn cgroup_roots(&self) -> Vec<PathBuf> {
        self.place.cgroups()
    }
}

impl Drop for Instance {
    /// Ends everything of the instance, also when its test has failed. A thread of its own, because the test's
    /// runtime may be the one that drops it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        if self.endpoint.is_some() {
            // The runtime may be gone, and goes anyway with all that it has.
            return self.kill_processes();
        }
        match self.std_command().args(["rm", "--all", "--force"]).output() {
            Ok(output) if output.status.success() => {}
            other => eprintln!("can't clean up: {other:?}"),
        }
        self.kill_processes();
        if let Some(bridge) = self.bridge() {
            let _ = std::process::Command::new("ip").args(["link", "delete", &bridge]).output();
            let _ = std::process::Command::new("nft").args(["delete", "table", "inet", &bridge]).output();
        }
    }
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    said: Said,
}

/// The files of what a command says begin so.
const SAID: &str = "said-";

#[derive(Debug)]
struct Said {
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Ran {
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the command does not end").unwrap();
        let [stdout, stderr] = [&self.said.out, &self.said.err].map(|path| std::fs::read(path).unwrap());
        Output { status, stdout, stderr }.into()
    }
}

/// Waits until something holds, for a bounded time.
pub(crate) async fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The same where looking takes a command.
pub(crate) async fn wait_async<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

pub(crate) fn pod(name: &str, restart: &str, script: &str) -> String {
    pod_with(name, restart, script, "", "")
}

/// A Pod with more in its spec and its container, as YAML lines without indentation.
pub(crate) fn pod_with(name: &str, restart: &str, script: &str, spec: &str, container: &str) -> String {
    let indent = |text: &str, by: usize| text.lines().map(|l| format!("{}{l}\n", " ".repeat(by))).collect::<String>();
    let script = serde_json::to_string(script).unwrap();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  restartPolicy: {restart}\n  \
         terminationGracePeriodSeconds: 5\n{}  containers:\n  - name: main\n    image: {IMAGE}\n    \
         imagePullPolicy: Never\n    command: [sh, -c, {script}]\n{}",
        indent(spec, 2),
        indent(container, 4),
    )
}

fn image_archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| busybox_image(Path::new(BUSYBOX)).unwrap().name(IMAGE).build().oci_archive())
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

fn collect_pods(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name().to_string_lossy().starts_with("pod") {
                found.push(path);
            } else {
                collect_pods(&path, found);
            }
        }
    }
}

/// The processes of a cgroup and of those below it.
fn members(group: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let below = std::fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = below.filter(|path| path.is_dir()).flat_map(|path| members(&path));
    text.lines().filter_map(|line| line.parse().ok()).chain(below).collect()
}
