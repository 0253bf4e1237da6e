//! Creating and starting one container, and running a command in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::SystemClock;
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{
    ContainerConfig, ContainerSecurity, ContainerService as _, ExecService as _, ImageId, LinuxResources,
    NamespaceMode, NamespaceOptions, SandboxConfig, SandboxService as _, SeccompProfile,
};
use minke_oci::image::ImportSource;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime};
use minke_testkit::{BUSYBOX, Compression, TempState, busybox_image};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::instance::{IMAGE, write_image};
use crate::process;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

const PEERS: [&str; 2] = ["runc", "crun"];

/// The embedded runtime in this process, then each peer.
pub(crate) fn measure(runs: usize) -> Result<Vec<Row>, Failure> {
    let (starts, execs) = crate::pods::runtime()?.block_on(embedded(runs))?;
    let none = || Failure::Unexpected("no container was started".to_owned());
    let ours = [Sample::of_times(&starts).ok_or_else(none)?, Sample::of_times(&execs).ok_or_else(none)?];
    let mut rows = Vec::new();
    for name in PEERS {
        let measured = peer(name, runs)?;
        for (at, (what, how, aim)) in [
            ("container: create + start", "create, start", "< 1×, ≤ 12 ms"),
            ("container: exec /bin/true", "exec", "< 1×"),
        ]
        .into_iter()
        .enumerate()
        {
            let peer = match &measured {
                Some(samples) => Peer::Measured { name: format!("{name} {how}"), sample: samples[at].clone() },
                None => Peer::NotInstalled { name: name.to_owned() },
            };
            rows.push(Row { what: what.to_owned(), ours: ours[at].clone(), peer, aim });
        }
    }
    Ok(rows)
}

/// Containers of one sandbox, each removed before the next: how long their starts took, and a command in each.
async fn embedded(runs: usize) -> Result<(Vec<Duration>, Vec<Duration>), Failure> {
    let place = TempState::new().map_err(Failure::file("making", Path::new("a state directory")))?;
    let config = EmbeddedConfig::new(place.state(), place.run());
    let runtime = EmbeddedRuntime::open(config, Arc::new(SystemClock));
    let runtime = runtime.await.map_err(Failure::runtime("can't open the embedded runtime"))?;
    let archive = place.root().join("image.tar");
    write_image(&archive)?;
    let images = runtime.images().import(ImportSource::Path(archive), &[]).await;
    let images = images.map_err(Failure::runtime("can't import the image"))?;
    let image = images.first().ok_or_else(|| Failure::Unexpected("the archive has no image".to_owned()))?;
    let sandbox = sandbox(&place)?;
    let pod = runtime.run_sandbox(&sandbox).await.map_err(Failure::runtime("can't make a sandbox"))?;
    let (mut starts, mut execs) = (Vec::new(), Vec::new());
    for attempt in 0..runs {
        let container = container(&image.id, u32::try_from(attempt).unwrap_or(u32::MAX));
        let begun = Instant::now();
        let created = runtime.create_container(&pod, &container, &sandbox).await;
        let id = created.map_err(Failure::runtime("can't create a container"))?;
        runtime.start_container(&id).await.map_err(Failure::runtime("can't start a container"))?;
        starts.push(begun.elapsed());
        let begun = Instant::now();
        let done = runtime.exec_sync(&id, &["/bin/true".to_owned()], None).await;
        done.map_err(Failure::runtime("can't run a command"))?;
        execs.push(begun.elapsed());
        runtime.stop_container(&id, Duration::ZERO).await.map_err(Failure::runtime("can't stop a container"))?;
        runtime.remove_container(&id).await.map_err(Failure::runtime("can't remove a container"))?;
    }
    runtime.remove_sandbox(&pod).await.map_err(Failure::runtime("can't remove the sandbox"))?;
    Ok((starts, execs))
}

fn sandbox(place: &TempState) -> Result<SandboxConfig, Failure> {
    let uid = PodUid::new(format!("bench-{}", std::process::id())).map_err(Failure::runtime("no uid"))?;
    Ok(SandboxConfig {
        cgroup_parent: format!("/minke-bench/pod{uid}"),
        pod: PodKey::new("default", "bench", uid),
        attempt: 0,
        hostname: "bench".to_owned(),
        log_directory: place.logs(),
        dns: None,
        port_mappings: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        resources: LinuxResources::default(),
        sysctls: BTreeMap::new(),
        namespaces: NamespaceOptions { network: NamespaceMode::Node, ..NamespaceOptions::default() },
        privileged: false,
        seccomp: SeccompProfile::RuntimeDefault,
        runtime_handler: String::new(),
    })
}

fn container(image: &ImageId, attempt: u32) -> ContainerConfig {
    ContainerConfig {
        name: "main".to_owned(),
        attempt,
        image: image.clone(),
        image_name: IMAGE.to_owned(),
        command: vec!["/bin/sleep".to_owned(), "100000".to_owned()],
        args: Vec::new(),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        log_path: format!("main-{attempt}.log").into(),
        stdin: false,
        stdin_once: false,
        tty: false,
        resources: LinuxResources::default(),
        security: ContainerSecurity::default(),
        stop_signal: None,
    }
}

/// Measures a runtime in a mount namespace of its own, its starts and its commands; `None` where it is not installed.
fn peer(name: &str, runs: usize) -> Result<Option<[Sample; 2]>, Failure> {
    let Some(binary) = process::find(name) else { return Ok(None) };
    let bundle = tempfile::Builder::new()
        .prefix("mk-bundle-")
        .tempdir()
        .map_err(Failure::file("making", Path::new("a directory")))?;
    let rootfs = bundle.path().join("rootfs");
    let image = busybox_image(Path::new(BUSYBOX)).map_err(Failure::file("reading", Path::new(BUSYBOX)))?;
    let image = image.compression(Compression::None).build();
    let archive = bundle.path().join("layer.tar");
    std::fs::create_dir(&rootfs).map_err(Failure::file("making", &rootfs))?;
    let layer = image.blobs().max_by_key(|blob| blob.bytes.len());
    let layer = layer.ok_or_else(|| Failure::Unexpected("the image has no layer".to_owned()))?;
    std::fs::write(&archive, &layer.bytes).map_err(Failure::file("writing", &archive))?;
    process::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&rootfs))?;
    process::run(Command::new(&binary).arg("spec").current_dir(bundle.path()))?;
    adapt(&bundle.path().join("config.json"))?;
    let own = std::env::current_exe().map_err(Failure::file("finding", Path::new("this program")))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(own);
    command.arg("--oci-peer").arg(&binary).arg("--bundle").arg(bundle.path()).args(["--runs", &runs.to_string()]);
    let output = process::run(&mut command)?;
    let column = |at: usize| -> Option<Sample> {
        let values = output.lines().map(|line| line.split(' ').nth(at).and_then(|v| v.parse().ok()));
        let values = values.collect::<Option<Vec<f64>>>().filter(|values| values.len() == runs)?;
        Sample::new(Unit::Milliseconds, values)
    };
    match (column(0), column(1)) {
        (Some(starts), Some(execs)) => Ok(Some([starts, execs])),
        _ => Err(Failure::Unexpected(format!("{name} was not measured {runs} times"))),
    }
}

/// The same container as ours: no terminal, the machine's network, a command that does nothing.
fn adapt(path: &Path) -> Result<(), Failure> {
    let text = std::fs::read(path).map_err(Failure::file("reading", path))?;
    let mut spec: Value =
        serde_json::from_slice(&text).map_err(Failure::runtime("a generated config.json is no JSON"))?;
    spec["process"]["terminal"] = json!(false);
    spec["process"]["args"] = json!(["/bin/sleep", "100000"]);
    if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != "network");
    }
    // Machines without CAP_SYS_RESOURCE refuse to raise limits.
    if let Some(process) = spec["process"].as_object_mut() {
        process.remove("rlimits");
    }
    std::fs::write(path, spec.to_string()).map_err(Failure::file("writing", path))
}

/// The measured process of [`peer`]: prints the milliseconds of a start and of a command, one line for each run.
pub(crate) fn measure_peer(runtime: &str, bundle: &Path, runs: usize) -> Result<(), Failure> {
    // crun refuses to work where the second version of cgroups is mounted beside the first.
    let _ = rustix::mount::unmount("/sys/fs/cgroup/unified", rustix::mount::UnmountFlags::DETACH);
    let root = bundle.join("state");
    for n in 0..runs {
        let id = format!("mk-bench-{}-{n}", std::process::id());
        let command = |verb: &str| {
            let mut command = Command::new(runtime);
            command.arg("--root").arg(&root).arg(verb);
            command
        };
        let begun = Instant::now();
        let started = process::time(command("create").arg("--bundle").arg(bundle).arg(&id))
            .and_then(|_| process::time(command("start").arg(&id)));
        let start = begun.elapsed();
        let begun = Instant::now();
        let executed = process::time(command("exec").arg(&id).arg("/bin/true"));
        let exec = begun.elapsed();
        let deleted = process::run(command("delete").arg("--force").arg(&id));
        started?;
        executed?;
        deleted?;
        println!("{} {}", start.as_secs_f64() * 1e3, exec.as_secs_f64() * 1e3);
    }
    Ok(())
}
