//! Limits, and what happens beyond them.

use std::time::Duration;

use minke_core::runtime::{ContainerService, ContainerState, LinuxResources};

use crate::machine::{Machine, code, eventually};

pub(crate) async fn a_container_beyond_its_memory_is_oom_killed() {
    let m = Machine::new().await;
    let limit = LinuxResources { memory_limit_bytes: Some(16 << 20), ..LinuxResources::default() };
    let (_, exit) = m
        .output(|_, c| c.resources = limit.clone(), "head -c 200m /dev/zero | tail -c 190m > /dev/null; exit $?")
        .await;
    assert_eq!(exit.reason, "OOMKilled", "{exit:?}");
    assert_ne!(code(&exit), 0);
    // The whole Pod's limit counts as well.
    let (_, exit) = m.output(|s, _| s.resources = limit, "dd if=/dev/zero of=/dev/shm/x bs=1M count=60; exit $?").await;
    assert_ne!(code(&exit), 0, "{exit:?}");
    m.close().await;
}

pub(crate) async fn limits_show_inside() {
    let m = Machine::new().await;
    let limits = LinuxResources {
        cpu_period_us: Some(100_000),
        cpu_quota_us: Some(20_000),
        cpu_shares: Some(256),
        memory_limit_bytes: Some(64 << 20),
        pids_limit: Some(40),
        oom_score_adj: Some(900),
        ..LinuxResources::default()
    };
    let script = "cd /sys/fs/cgroup; if [ -e cgroup.controllers ]; then cat memory.max cpu.max pids.max; else \
        cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.shares pids/pids.max; fi; cat /proc/self/oom_score_adj";
    let (text, _) = m.output(|_, c| c.resources = limits, script).await;
    let v1 = "67108864\n20000\n256\n40\n900\n";
    let v2 = "67108864\n20000 100000\n40\n900\n";
    assert!(text == v1 || text == v2, "{text}");
    // Lower than this machine allows: as low as it goes, and no error.
    let lowest = LinuxResources { oom_score_adj: Some(-1000), ..LinuxResources::default() };
    let (_, exit) = m.output(|_, c| c.resources = lowest, "true").await;
    assert_eq!(code(&exit), 0);
    m.close().await;
}

pub(crate) async fn a_fork_bomb_is_contained_and_stopped() {
    let m = Machine::new().await;
    let sandbox = m.sandbox("bomb");
    let mut config = m.shell("echo up; b() { b | b & }; while :; do b 2>/dev/null; done");
    config.resources.pids_limit = Some(100);
    let (pod, id) = m.start(&sandbox, &config).await;
    eventually("it is up", async || m.log(&sandbox, &config).contains("up").then_some(())).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    m.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    let ContainerState::Exited { .. } = m.runtime.container_status(&id).await.unwrap().state else {
        panic!("not ended")
    };
    let _ = pod;
    m.close().await;
}
