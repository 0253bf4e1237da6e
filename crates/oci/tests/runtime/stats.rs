//! What Pods use.

use minke_core::identity::PodUid;
use minke_core::runtime::{ContainerService, ListFilter, PodUsage, SandboxService, StatsService};

use crate::machine::{Machine, eventually};

async fn usage(m: &Machine, pod: &PodUid) -> Vec<PodUsage> {
    m.runtime.pod_usage(&ListFilter::pod(pod)).await.unwrap()
}

pub(crate) async fn what_a_pod_uses_is_what_its_containers_do() {
    let m = Machine::new().await;
    let (pod, other) = (m.sandbox("busy"), m.sandbox("other"));
    // Twenty MiB of anonymous memory (tail keeps what has no line end), three of files, and some seconds of work.
    let script = "mkdir /w; dd if=/dev/zero of=/w/x bs=1M count=3 2>/dev/null; touch /w/a /w/b
        (head -c 20971520 /dev/zero; echo up; sleep 600) | tail -c 20971520 >/dev/null & 
        i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; wait";
    let config = m.shell(script);
    let (sandbox, container) = m.start(&pod, &config).await;
    let (idle, _) = m.start(&other, &m.shell("exec sleep 600")).await;
    eventually("it did its work", async || m.log(&pod, &config).contains("done").then_some(())).await;
    let used = eventually("its memory is charged", async || {
        let used = usage(&m, &pod.pod.uid).await.into_iter().next()?;
        (used.cgroup?.memory_rss_bytes > 20 << 20).then_some(used)
    })
    .await;
    let (whole, one) = (used.cgroup.unwrap(), used.containers[0].clone());
    let own = one.cgroup.unwrap();
    assert_eq!((&used.sandbox, &one.id, one.name.as_str()), (&sandbox, &container, "c"));
    assert!(own.cpu_nanos > 10_000_000 && whole.cpu_nanos >= own.cpu_nanos, "{own:?} in {whole:?}");
    assert!(own.memory_rss_bytes > 20 << 20 && whole.memory_rss_bytes >= own.memory_rss_bytes, "{own:?} in {whole:?}");
    assert!(own.memory_working_set_bytes <= own.memory_usage_bytes && own.memory_working_set_bytes > 20 << 20);
    assert!(own.pids >= 3 && whole.pids >= own.pids, "{own:?} in {whole:?}");
    assert!(one.writable_bytes.unwrap() >= 3 << 20, "{one:?}");
    assert!(one.writable_inodes.unwrap() >= 4, "{one:?}");

    let all = m.runtime.pod_usage(&ListFilter::default()).await.unwrap();
    assert_eq!(all.len(), 2);
    let quiet = all.iter().find(|p| p.sandbox == idle).unwrap();
    assert!(quiet.cgroup.unwrap().memory_rss_bytes < 10 << 20, "{quiet:?}");
    assert!(quiet.containers[0].writable_bytes.unwrap() < 1 << 20, "{quiet:?}");

    // An ended container has no cgroup, and what it wrote last counts.
    m.runtime.stop_container(&container, std::time::Duration::ZERO).await.unwrap();
    let ended = &usage(&m, &pod.pod.uid).await[0].containers[0];
    assert_eq!(ended.cgroup, None);
    assert!(ended.writable_bytes.unwrap() >= 3 << 20, "{ended:?}");
    m.runtime.stop_sandbox(&sandbox).await.unwrap();
    assert_eq!(usage(&m, &pod.pod.uid).await, [], "only pods of ready sandboxes");
    m.close().await;
}
