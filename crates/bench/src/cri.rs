//! On a private containerd: what the agent adds to the runtime's own time, what idle Pods cost, and the embedded runtime
//! with the same Pods.
//!
//! The newest containerd that Debian has, fetched and unpacked once as the tests do it (`MINKE_CONTAINERD_CACHE` names
//! the place). Pods are on the host's network, so that no plugin is measured. The calls alone are made by the same
//! client, for containers with the same mounts, one after the other, without a kubelet.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use minke_core::clock::SystemClock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerSecurity, ContainerService as _, EventService as _, ImageId, ImageService as _,
    LinuxResources, Mount, MountPropagation, NamespaceMode, NamespaceOptions, RuntimeError, RuntimeEventKind,
    SandboxConfig, SandboxId, SandboxService as _, SeccompProfile, labels,
};
use minke_cri::{CriConfig, CriRuntime, Endpoint};
use minke_kubelet::RelistMode;
use minke_testkit::containerd::{Containerd, Network, Programs, Release};
use minke_testkit::{BUSYBOX, TempState, busybox_image};
use tokio::time::{Instant, sleep, timeout};

use crate::exits::{Bed, ended_with, next, statuses};
use crate::failure::Failure;
use crate::instance::{IMAGE, Instance};
use crate::process::Process;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

const ALONE: &str = "the three calls alone";
/// Idle Pods.
const IDLE: usize = 100;
/// Pods of the comparison with the embedded runtime.
const SAME: usize = 20;

/// All rows; none where there is no containerd.
pub(crate) fn measure(minke: &Path, runs: usize, span: Duration) -> Result<Vec<Row>, Failure> {
    let programs = match Programs::get(&cache(), Release::Sid) {
        Ok(programs) => programs,
        Err(reason) => {
            eprintln!("no containerd to measure on: {reason}");
            return Ok(Vec::new());
        }
    };
    let runtime = crate::pods::runtime()?;
    let containerd = runtime.block_on(async {
        let mut containerd = Containerd::start(&programs, Network::None).await?;
        let image = busybox_image(Path::new(BUSYBOX))?.name(IMAGE).build();
        containerd.import(&image).await?;
        Ok::<_, std::io::Error>(containerd)
    });
    let containerd = containerd.map_err(Failure::runtime("can't start a containerd"))?;
    let mut rows = runtime.block_on(in_process(&containerd, runs))?;
    rows.extend(idle(&runtime, minke, &containerd, span)?);
    rows.extend(beside_embedded(&runtime, minke, &containerd, runs.min(5))?);
    Ok(rows)
}

/// Where tests have theirs: `target/tmp/containerd`.
fn cache() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().and_then(Path::parent).unwrap_or(Path::new("target")).join("tmp/containerd")
}

fn row(what: &str, ours: &[Duration], peer: (&str, &[Duration]), aim: &'static str) -> Result<Row, Failure> {
    let none = || Failure::Unexpected(format!("nothing was measured for {what}"));
    let sample = Sample::of_times(peer.1).ok_or_else(none)?;
    let peer = Peer::Measured { name: peer.0.to_owned(), sample };
    Ok(Row { what: what.to_owned(), ours: Sample::of_times(ours).ok_or_else(none)?, peer, aim })
}

/// The kubelet core over CRI, in this process.
async fn in_process(containerd: &Containerd, runs: usize) -> Result<Vec<Row>, Failure> {
    let endpoint = Endpoint::parse(&containerd.socket().display().to_string());
    let endpoint = endpoint.map_err(Failure::runtime("can't use its socket"))?;
    let cri = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await;
    let cri = cri.map_err(Failure::runtime("can't open the runtime"))?;
    let image = shown(&cri).await?;
    let place = TempState::new().map_err(Failure::file("making", Path::new("a state directory")))?;
    let alone = Alone::new(&cri, image, &place, containerd.cgroup())?;
    let bed = Bed::over(place, Arc::new(cri.clone()), RelistMode::Evented, containerd.cgroup()).await?;
    let measured = async {
        let mut rows = Vec::new();
        for (count, runs, what, aim) in [
            (1, runs.max(5), "1 Pod → Running on containerd", ""),
            (50, runs.div_ceil(4), "50 Pods at once → Running on containerd", ""),
        ] {
            let (mut ours, mut theirs, mut own) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..runs {
                let begun = Instant::now();
                bed.run(count, 1).await?;
                ours.push(begun.elapsed());
                own.extend((count == 1).then(|| bed.own_part()).flatten());
                bed.clear().await?;
                theirs.push(alone.start(count).await.map_err(Failure::runtime("the calls alone failed"))?);
            }
            rows.push(row(what, &ours, (ALONE, &theirs), aim)?);
            if let Some(ours) = Sample::of_times(&own) {
                let what = "the same, admission → Running without the three calls".to_owned();
                rows.push(Row { what, ours, peer: Peer::Nobody, aim: "≤ 5 ms" });
            }
        }
        rows.extend(exits(&bed, &cri, runs * 5).await?);
        Ok(rows)
    };
    let rows = measured.await;
    bed.clean_up().await?;
    rows
}

/// Waits until CRI shows the image that was imported.
async fn shown(cri: &CriRuntime) -> Result<ImageId, Failure> {
    for _ in 0..1_000 {
        let status = cri.image_status(IMAGE).await.map_err(Failure::runtime("can't look for the image"))?;
        if let Some(status) = status {
            return Ok(status.id);
        }
        sleep(Duration::from_millis(10)).await;
    }
    Err(Failure::Unexpected(format!("{IMAGE} was imported and is not there")))
}

/// How much later than the runtime's own event the status is there.
async fn exits(bed: &Bed, cri: &CriRuntime, count: usize) -> Result<Vec<Row>, Failure> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let late = |_| Failure::Unexpected("containerd does not tell of an exit".to_owned());
    let waiting = bed.run(count.div_ceil(5), 5).await?;
    let mut changes = bed.subscribe();
    let mut events = cri.subscribe().map_err(Failure::runtime("can't listen to events"))?;
    let (mut told, mut reported, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for one in waiting.iter().take(count) {
        while changes.try_next().is_some() {}
        let id = bed.id(one).ok_or_else(|| Failure::Unexpected("a container that runs has no id".to_owned()))?;
        let begun = Instant::now();
        bed.release(one)?;
        let event = async {
            while let Some(event) = events.next().await {
                // There may be others: of this Pod's last container goes its sandbox.
                if event.is_ok_and(|event| event.kind == RuntimeEventKind::Stopped && event.id == id) {
                    return Ok(begun.elapsed());
                }
            }
            Err(Failure::Unexpected("the stream of events ended".to_owned()))
        };
        let status = async {
            loop {
                let report = next(&mut changes).await?;
                let mine = report.pod.metadata.name.as_deref() == Some(&one.pod);
                if mine && statuses(&report).any(|s| s.name == one.container && ended_with(s) == Some(3)) {
                    return Ok::<_, Failure>(begun.elapsed());
                }
            }
        };
        let (event, status) = timeout(PATIENCE, async { tokio::join!(event, status) }).await.map_err(late)?;
        let (event, status) = (event?, status?);
        told.push(event);
        reported.push(status);
        added.push(status.saturating_sub(event));
    }
    bed.clear().await?;
    let none = || Failure::Unexpected("no exit was seen".to_owned());
    Ok(vec![
        row("container exit → status on containerd", &reported, ("containerd's own event", &told), "")?,
        Row {
            what: "container exit → status, after containerd's event".to_owned(),
            ours: Sample::of_times(&added).ok_or_else(none)?,
            peer: Peer::Nobody,
            aim: "≤ 5 ms",
        },
    ])
}

/// The same Pods by the calls of the port, without a kubelet.
struct Alone {
    cri: CriRuntime,
    image: ImageId,
    logs: PathBuf,
    cgroup: String,
    /// What a Pod of the kubelet has mounted as well: a host path, `/etc/hosts`, the file for its last words.
    mounts: Vec<Mount>,
}

impl Alone {
    fn new(cri: &CriRuntime, image: ImageId, place: &TempState, cgroup: &str) -> Result<Self, Failure> {
        let directory = place.root().join("alone");
        let mount = |name: &str, to: &str| Mount {
            host_path: directory.join(name),
            container_path: to.into(),
            read_only: false,
            recursive_read_only: false,
            propagation: MountPropagation::Private,
        };
        let mounts = [("flags", "/flags"), ("hosts", "/etc/hosts"), ("words", "/dev/termination-log")];
        let mounts: Vec<Mount> = mounts.map(|(name, to)| mount(name, to)).into();
        let make = || {
            std::fs::create_dir_all(directory.join("flags"))?;
            std::fs::write(directory.join("words"), "")?;
            std::fs::write(directory.join("hosts"), "127.0.0.1 localhost\n")?;
            let pipe = directory.join("flags/never");
            rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, 0o666.into(), 0)?;
            Ok(())
        };
        make().map_err(Failure::file("making", &directory))?;
        Ok(Self { cri: cri.clone(), image, logs: place.logs(), cgroup: cgroup.to_owned(), mounts })
    }

    /// From the first call to the last container's start.
    async fn start(&self, count: usize) -> Result<Duration, RuntimeError> {
        let configs: Vec<SandboxConfig> = (0..count).map(|n| self.sandbox(n)).collect::<Result<_, _>>()?;
        let begun = Instant::now();
        let sandboxes = try_join_all(configs.iter().map(|config| self.one(config))).await?;
        let taken = begun.elapsed();
        for sandbox in sandboxes {
            self.cri.stop_sandbox(&sandbox).await?;
            self.cri.remove_sandbox(&sandbox).await?;
        }
        Ok(taken)
    }

    async fn one(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let sandbox = self.cri.run_sandbox(config).await?;
        let container = self.cri.create_container(&sandbox, &self.container(config), config).await?;
        self.cri.start_container(&container).await?;
        Ok(sandbox)
    }

    fn sandbox(&self, number: usize) -> Result<SandboxConfig, RuntimeError> {
        let name = format!("alone-{number}");
        let uid = PodUid::new(format!("{name}-{}", std::process::id()));
        let uid = uid.map_err(|error| RuntimeError::failed("name a Pod", error))?;
        Ok(SandboxConfig {
            attempt: 0,
            hostname: name.clone(),
            log_directory: self.logs.join(&name),
            dns: None,
            port_mappings: Vec::new(),
            labels: [(labels::POD_UID.to_owned(), uid.to_string())].into(),
            annotations: [].into(),
            cgroup_parent: format!("{}/pod{uid}", self.cgroup),
            resources: LinuxResources::default(),
            sysctls: [].into(),
            namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
            privileged: false,
            seccomp: SeccompProfile::RuntimeDefault,
            runtime_handler: String::new(),
            pod: PodKey::new("bench", name, uid),
        })
    }

    fn container(&self, sandbox: &SandboxConfig) -> ContainerConfig {
        ContainerConfig {
            name: "main".to_owned(),
            attempt: 0,
            image: self.image.clone(),
            image_name: IMAGE.to_owned(),
            command: ["/bin/sh", "-c", "read line < /flags/never; exit 3"].map(str::to_owned).into(),
            args: Vec::new(),
            working_dir: None,
            env: Vec::new(),
            mounts: self.mounts.clone(),
            devices: Vec::new(),
            labels: sandbox.labels.clone(),
            annotations: [].into(),
            log_path: "main/0.log".into(),
            stdin: false,
            stdin_once: false,
            tty: false,
            resources: LinuxResources::default(),
            security: ContainerSecurity::default(),
            stop_signal: None,
        }
    }
}

/// Pods that do nothing, on the host's network.
fn manifest(prefix: &str, count: usize) -> String {
    crate::instance::manifest(prefix, count).replace("\nspec:\n", "\nspec:\n  hostNetwork: true\n")
}

/// Whether this is what a Pod runs, and so no cost of its runtime.
fn is_a_pods(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"/bin/sleep\x00100000\x00")
}

/// What the agent and containerd use while nothing happens, polling against events.
fn idle(
    runtime: &tokio::runtime::Runtime,
    minke: &Path,
    containerd: &Containerd,
    span: Duration,
) -> Result<Vec<Row>, Failure> {
    let instance = Instance::on(minke, containerd.socket())?;
    let mut rows = Vec::new();
    let mut shares: Vec<[f64; 2]> = Vec::new();
    for mode in ["generic", "evented"] {
        let mut command = instance.command();
        command.args(["agent", "--relist", mode]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut agent =
            command.spawn().map_err(|source| Failure::Start { program: "minke agent".to_owned(), source })?;
        let measured: Result<[f64; 2], Failure> = (|| {
            instance.wait_for_the_start()?;
            if mode == "generic" {
                instance.run(&manifest("idle", IDLE))?;
            }
            runtime.block_on(async { sleep(Duration::from_secs(5)).await });
            let gone = || Failure::Unexpected("a process ended while it was measured".to_owned());
            let processes = [Process::of(agent.id()), Process::of(containerd.pid().ok_or_else(gone)?)];
            let times = || processes.each_ref().map(Process::cpu_time);
            let (before, begun) = (times(), Instant::now());
            runtime.block_on(async { sleep(span).await });
            let (after, taken) = (times(), begun.elapsed());
            let mut found = [0.0; 2];
            for (at, found) in found.iter_mut().enumerate() {
                let used = after[at].ok_or_else(gone)?.saturating_sub(before[at].ok_or_else(gone)?);
                *found = used.as_secs_f64() / taken.as_secs_f64() * 100.0;
            }
            if mode == "evented" {
                instance.remove_all()?;
            }
            Ok(found)
        })();
        if let Some(pid) = i32::try_from(agent.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = agent.wait();
        shares.push(measured?);
    }
    for (at, who) in ["agent", "containerd"].into_iter().enumerate() {
        let share = |mode: usize| {
            let none = || Failure::Unexpected("nothing was measured".to_owned());
            Sample::new(Unit::Percent, vec![shares[mode][at]]).ok_or_else(none)
        };
        let peer = Peer::Measured { name: "polling each second".to_owned(), sample: share(0)? };
        let what = format!("{IDLE} idle Pods on containerd, events: {who}'s share of a core");
        rows.push(Row { what, ours: share(1)?, peer, aim: "" });
    }
    Ok(rows)
}

/// The embedded runtime and containerd with the same Pods: time, memory, processes.
fn beside_embedded(
    runtime: &tokio::runtime::Runtime,
    minke: &Path,
    containerd: &Containerd,
    runs: usize,
) -> Result<Vec<Row>, Failure> {
    let (embedded, cri) = (Instance::new(minke)?, Instance::on(minke, containerd.socket())?);
    let (mut times, mut weights): ([Vec<Duration>; 2], [Vec<f64>; 2]) = Default::default();
    let mut processes = [0; 2];
    let pods = manifest("same", SAME);
    for run in 0..runs.max(1) {
        for (at, instance) in [&embedded, &cri].into_iter().enumerate() {
            // The agent is there already, as on a machine that runs Pods.
            instance.run(&manifest("keep", 1))?;
            times[at].push(instance.run(&pods)?);
            if run == 0 {
                runtime.block_on(async { sleep(Duration::from_secs(2)).await });
                let mut found = instance.agents();
                found.extend(instance.shims());
                if at == 1 {
                    found.extend(containerd.processes().into_iter().filter(|pid| !is_a_pods(*pid)).map(Process::of));
                }
                let sizes: Vec<f64> = found.iter().filter_map(Process::sizes).map(|s| s.proportional).collect();
                processes[at] = sizes.len();
                weights[at].push(sizes.iter().sum());
            }
            instance.remove_all()?;
            instance.wait_for_the_end()?;
        }
    }
    let [ours, theirs] = times;
    let [weight, heavier] = weights;
    let none = || Failure::Unexpected("nothing was weighed".to_owned());
    let size = |weight| Sample::new(Unit::KibiBytes, weight).ok_or_else(none);
    let name = || "containerd".to_owned();
    Ok(vec![
        row(&format!("{SAME} Pods → Running, embedded runtime, agent there"), &ours, ("containerd", &theirs), "")?,
        Row {
            what: format!("{} Pods: memory of agent, daemon, shims, sandboxes", SAME + 1),
            ours: size(weight)?,
            peer: Peer::Measured { name: name(), sample: size(heavier)? },
            aim: "",
        },
        Row {
            what: format!("{} Pods: processes beside the Pods' own", SAME + 1),
            ours: Sample::new(Unit::Number, vec![f64::from(u32::try_from(processes[0]).unwrap_or(0))])
                .ok_or_else(none)?,
            peer: Peer::Measured {
                name: name(),
                sample: Sample::new(Unit::Number, vec![f64::from(u32::try_from(processes[1]).unwrap_or(0))])
                    .ok_or_else(none)?,
            },
            aim: "",
        },
    ])
}
