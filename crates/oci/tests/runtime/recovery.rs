//! What outlives what: agents, shims, half-made things.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use minke_core::clock::SystemClock;
use minke_core::runtime::{
    ContainerId, ContainerService, ContainerState, EventService, ExitCode, ListFilter, RuntimeEventKind, SandboxId,
    SandboxService, SandboxState,
};
use minke_oci::{EmbeddedRuntime, OpenError};

use crate::machine::{Machine, code, config, eventually, leftovers, nothing_left, open};

/// Drops a runtime and opens another one on the same state.
async fn again(m: Machine) -> Machine {
    let Machine { temp, runtime, image, cgroup } = m;
    drop(runtime);
    // Tasks of calls that were under way may hold the lock an instant longer.
    let runtime = eventually("the lock is free", async || {
        match EmbeddedRuntime::open(config(&temp), Arc::new(SystemClock)).await {
            Ok(runtime) => Some(runtime),
            Err(OpenError::InUse { .. }) => None,
            Err(e) => panic!("{e}"),
        }
    })
    .await;
    Machine { temp, runtime, image, cgroup }
}

pub(crate) fn shims(m: &Machine) -> Vec<i32> {
    let run = m.temp.run().display().to_string();
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if line.starts_with("minke-shim") && line.contains(&run) && comm.trim() == "minke-shim" {
            pids.extend(entry.file_name().to_string_lossy().parse::<i32>());
        }
    }
    pids
}

fn kill(pid: i32) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

pub(crate) async fn containers_outlive_the_agent_and_keep_their_exit_codes() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("outlive");
    let marker = m.temp.root().join("go");
    std::fs::create_dir(&marker).unwrap();
    let mut config = m.shell("echo before; while [ ! -e /go/on ]; do usleep 5000; done; echo after; exit 42");
    config.mounts = vec![minke_core::runtime::Mount {
        host_path: marker.clone(),
        container_path: "/go".into(),
        read_only: true,
        recursive_read_only: false,
        propagation: Default::default(),
    }];
    let (pod, id) = m.start(&sandbox, &config).await;
    let m = again(m).await;
    let ContainerState::Running { started_at } = m.runtime.container_status(&id).await.unwrap().state else {
        panic!("not adopted")
    };
    assert_eq!(m.runtime.sandbox_status(&pod).await.unwrap().info.state, SandboxState::Ready);
    // It ends while nobody is there.
    let Machine { temp, runtime, image, cgroup } = m;
    drop(runtime);
    std::fs::write(marker.join("on"), "").unwrap();
    let exit_file = temp.state().join("sandboxes").join(&pod.0).join("containers").join(&id.0).join("exit.json");
    eventually("the shim records the end", async || exit_file.exists().then_some(())).await;
    let m = Machine { runtime: open(&temp).await, temp, image, cgroup };
    let ContainerState::Exited { started_at: then, exit } = m.runtime.container_status(&id).await.unwrap().state else {
        panic!("not ended")
    };
    assert_eq!((then, code(&exit)), (Some(started_at), 42));
    assert_eq!(m.log(&sandbox, &config), "before\nafter\n");
    m.close().await;
}

pub(crate) async fn a_dead_shim_is_noticed_and_its_containers_are_lost_not_successful() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("deadshim");
    let (pod, id) = m.start(&sandbox, &m.shell("sleep 1000")).await;
    let mut done = m.shell("exit 0");
    done.name = "done".into();
    done.log_path = "done/0.log".into();
    let done_id = m.add(&pod, &sandbox, &done).await;
    m.ended(&done_id).await;
    let mut events = m.runtime.subscribe().unwrap();
    for pid in shims(&m) {
        kill(pid);
    }
    let stopped = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.kind == RuntimeEventKind::Stopped && event.id == id.0 {
                return;
            }
        }
    });
    stopped.await.unwrap();
    let exit = m.ended(&id).await;
    assert_eq!((exit.code, exit.reason.as_str()), (ExitCode::Lost, "ContainerStatusUnknown"));
    assert_eq!(code(&m.ended(&done_id).await), 0, "an end that was recorded stays known");
    eventually("the sandbox is not ready", async || {
        (m.runtime.sandbox_status(&pod).await.unwrap().info.state == SandboxState::NotReady).then_some(())
    })
    .await;
    assert!(m.runtime.create_container(&pod, &m.shell("true"), &sandbox).await.is_err());
    m.close().await;
}

pub(crate) async fn a_shim_that_died_with_the_agent_is_found_dead() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("both");
    let (pod, id) = m.start(&sandbox, &m.shell("sleep 1000")).await;
    let pids = shims(&m);
    let Machine { temp, runtime, image, cgroup } = m;
    drop(runtime);
    pids.into_iter().for_each(kill);
    let m = Machine { runtime: open(&temp).await, temp, image, cgroup };
    assert_eq!(m.ended(&id).await.code, ExitCode::Lost);
    assert_eq!(m.runtime.sandbox_status(&pod).await.unwrap().info.state, SandboxState::NotReady);
    m.close().await;
}

pub(crate) async fn one_runtime_at_a_time_uses_a_state_directory() {
    let m = Machine::new().await;
    let second = EmbeddedRuntime::open(config(&m.temp), Arc::new(SystemClock)).await;
    assert!(matches!(second, Err(OpenError::InUse { .. })));
    m.close().await;
}

pub(crate) async fn a_dropped_call_is_carried_out_and_shows() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("dropped");
    for micros in [1, 300, 3_000, 10_000] {
        let call = m.runtime.run_sandbox(&sandbox);
        let _ = tokio::time::timeout(Duration::from_micros(micros), call).await;
        let found = eventually("it shows", async || {
            let all = m.runtime.list_sandboxes(&ListFilter::pod(&sandbox.pod.uid)).await.unwrap();
            all.into_iter().next()
        })
        .await;
        m.runtime.remove_sandbox(&found.id).await.unwrap();
    }
    m.close().await;
}

pub(crate) async fn half_made_things_are_removed_on_open() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("half");
    let (pod, id) = m.start(&sandbox, &m.shell("sleep 1000")).await;
    let (other, _) = m.start(&m.sandbox("half2"), &m.shell("sleep 1000")).await;
    let state = m.temp.state().join("sandboxes");
    // As if the agent had died between two steps, in each of the ways that matter.
    std::fs::remove_file(state.join(&pod.0).join("ready.json")).unwrap();
    let container = std::fs::read_dir(state.join(&other.0).join("containers")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(container.join("created.json")).unwrap();
    std::fs::create_dir_all(state.join("0".repeat(32))).unwrap();
    std::fs::write(state.join("0".repeat(32)).join("sandbox.json"), "{\"id\":").unwrap();
    std::fs::create_dir_all(m.temp.run().join("pods").join("1".repeat(32)).join("shm")).unwrap();
    let m = again(m).await;
    let left: Vec<SandboxId> =
        m.runtime.list_sandboxes(&ListFilter::default()).await.unwrap().into_iter().map(|s| s.id).collect();
    assert_eq!(left, [other]);
    assert!(m.runtime.container_status(&id).await.is_err());
    assert!(m.runtime.list_containers(&ListFilter::default()).await.unwrap().is_empty());
    assert!(!m.temp.run().join("pods").join("1".repeat(32)).exists());
    assert!(!state.join("0".repeat(32)).exists());
    m.close().await;
}

/// The child of the next test: churns until it is killed. Told apart by its first argument.
pub(crate) const CHURN: &str = "churn-until-killed";

pub(crate) fn churn() -> ! {
    let root = PathBuf::from(std::env::args_os().nth(2).unwrap());
    let cgroup = std::env::args().nth(3).unwrap();
    let image = std::env::args().nth(4).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut network = minke_oci::network::NetworkConfig::new(root.join("state"));
        network.cni = None;
        network.machine_lock = root.join("network.lock");
        let config = minke_oci::EmbeddedConfig {
            network,
            ..minke_oci::EmbeddedConfig::new(root.join("state"), root.join("run"))
        };
        let runtime = EmbeddedRuntime::open(config, Arc::new(SystemClock)).await.unwrap();
        for round in 0.. {
            for old in runtime.list_sandboxes(&ListFilter::default()).await.unwrap() {
                if !old.pod.name.starts_with("keep") {
                    runtime.remove_sandbox(&old.id).await.unwrap();
                }
            }
            let mut tasks = Vec::new();
            for number in 0..3 {
                let runtime = runtime.clone();
                let (sandbox, container) = crate::machine::churning(&root, &cgroup, &image, round * 10 + number);
                tasks.push(tokio::spawn(async move {
                    let pod = runtime.run_sandbox(&sandbox).await.unwrap();
                    let id = runtime.create_container(&pod, &container, &sandbox).await.unwrap();
                    runtime.start_container(&id).await.unwrap();
                    runtime.stop_container(&id, Duration::from_millis(5)).await.unwrap();
                    runtime.remove_container(&id).await.unwrap();
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
    unreachable!("churning has no end")
}

pub(crate) async fn kill_9_of_the_agent_under_churn_leaks_nothing() {
    let m = Machine::new().await;
    let mut sandbox = m.sandbox("keep");
    sandbox.namespaces = Default::default();
    let keep = m.shell("i=0; while :; do echo $i; i=$((i+1)); usleep 20000; done");
    let (pod, id) = m.start(&sandbox, &keep).await;
    let Machine { temp, runtime, image, cgroup } = m;
    drop(runtime);
    let rounds = std::env::var("MINKE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for round in 0_u64..rounds {
        let mut child = Command::new("/proc/self/exe")
            .args([CHURN.as_ref(), temp.root().as_os_str(), cgroup.as_ref(), image.0.as_ref()])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        // Spread over start, recovery and churn without a clock in between.
        tokio::time::sleep(Duration::from_millis(40 + (round * 7919) % 900)).await;
        assert!(child.try_wait().unwrap().is_none(), "the agent ended by itself in round {round}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let runtime = open(&temp).await;
    let ContainerState::Running { .. } = runtime.container_status(&id).await.unwrap().state else {
        panic!("the container that should be kept does not run")
    };
    let names: BTreeSet<String> = runtime
        .list_sandboxes(&ListFilter::default())
        .await
        .unwrap()
        .into_iter()
        .map(|s| s.pod.name.to_string())
        .collect();
    assert!(names.contains("keep"), "{names:?}");
    runtime.stop_container(&ContainerId(id.0.clone()), Duration::ZERO).await.unwrap();
    let text = std::fs::read_to_string(sandbox.log_directory.join(&keep.log_path)).unwrap();
    let numbers: Vec<u64> = crate::machine::text(&text).lines().map(|l| l.parse().unwrap()).collect();
    assert!(numbers.iter().enumerate().all(|(at, n)| at as u64 == *n), "a line of the log is missing or doubled");
    assert!(numbers.len() > 10);
    let _ = pod;
    for sandbox in runtime.list_sandboxes(&ListFilter::default()).await.unwrap() {
        runtime.remove_sandbox(&sandbox.id).await.unwrap();
    }
    drop(runtime);
    nothing_left(&temp, &cgroup).await;
    assert_eq!(leftovers(&temp, &cgroup), Vec::<String>::new());
    for directory in ["ipam", "ports", "sandboxes"] {
        let entries = std::fs::read_dir(temp.state().join("network").join(directory)).into_iter().flatten().flatten();
        // One link or file for each claim; what begins with a dot or is called otherwise is the network's bookkeeping.
        let claims: Vec<String> = entries
            .filter(|e| directory == "sandboxes" || e.file_type().unwrap().is_symlink())
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(claims, Vec::<String>::new(), "the network keeps something in {directory}");
    }
    no_link_left().await;
}

/// The kernel takes dead network namespaces apart one after the other, each with a wait for all processors; hundreds of
/// them on a busy machine need their time.
async fn no_link_left() {
    let links = || -> Vec<String> {
        let names = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        names.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.starts_with("veth")).collect()
    };
    for _ in 0..12_000 {
        if links().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("links are left: {:?}", links());
}

pub(crate) async fn two_hundred_containers_at_once() {
    let m = Arc::new(Machine::new().await);
    let began = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for number in 0..200 {
        let m = Arc::clone(&m);
        tasks.push(tokio::spawn(async move {
            let sandbox = m.sandbox(&format!("many{number}"));
            let (_, id) = m.start(&sandbox, &m.shell(&format!("echo {number}; sleep 1000"))).await;
            (sandbox, id, number)
        }));
    }
    for task in tasks {
        let (sandbox, id, number) = task.await.unwrap();
        let container = m.shell("");
        eventually("it says its number", async || (m.log(&sandbox, &container) == format!("{number}\n")).then_some(()))
            .await;
        assert!(m.runtime.container_status(&id).await.unwrap().state.is_running());
    }
    println!("    200 Pods with a container each run after {} ms", began.elapsed().as_millis());
    let shims = shims(&m);
    assert_eq!(shims.len(), 200);
    let pss: u64 = shims.iter().map(|pid| pss_of(*pid)).sum();
    println!("    {} kB PSS for each shim", pss / 200);
    let m = Arc::into_inner(m).unwrap();
    m.close().await;
}

pub(crate) fn pss_of(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("Pss:"));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Not an assertion: how long a container takes, for people.
pub(crate) async fn how_long_it_takes() {
    let m = Machine::new().await;
    let (mut sandboxes, mut networked, mut creates, mut starts, mut ends) = (vec![], vec![], vec![], vec![], vec![]);
    for round in 0..30 {
        let mut sandbox = m.sandbox(&format!("time{round}"));
        let began = tokio::time::Instant::now();
        let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
        sandboxes.push(began.elapsed());
        let began = tokio::time::Instant::now();
        let id = m.runtime.create_container(&pod, &m.shell("exit 0"), &sandbox).await.unwrap();
        creates.push(began.elapsed());
        let began = tokio::time::Instant::now();
        m.runtime.start_container(&id).await.unwrap();
        starts.push(began.elapsed());
        m.ended(&id).await;
        let began = tokio::time::Instant::now();
        m.runtime.remove_sandbox(&pod).await.unwrap();
        ends.push(began.elapsed());
        sandbox.namespaces = Default::default();
        sandbox.attempt = 1;
        let began = tokio::time::Instant::now();
        let pod = m.runtime.run_sandbox(&sandbox).await.unwrap();
        networked.push(began.elapsed());
        m.runtime.remove_sandbox(&pod).await.unwrap();
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_micros()
    };
    println!(
        "    medians in µs: sandbox {} (own network {}), create {}, start {}, remove {}",
        median(&mut sandboxes),
        median(&mut networked),
        median(&mut creates),
        median(&mut starts),
        median(&mut ends)
    );
    m.close().await;
}
