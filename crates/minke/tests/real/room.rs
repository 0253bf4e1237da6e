//! Room on the machine: what Pods use and may use, who comes in, who has to go.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Instance, pod, pod_with, wait_async, with_instance};

/// Starts an agent in the background with these settings, in the place of one that runs.
async fn agent(m: &Instance, settings: &[(&str, &str)]) {
    let mut command = m.command(&["agent", "--replace", "--background"]);
    let ended = command.envs(settings.iter().copied()).output().await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

async fn status(m: &Instance, name: &str) -> Value {
    m.minke(&["inspect", name, "-o", "json"]).await.expect(0).json()["status"].clone()
}

async fn ended(m: &Instance, name: &str) -> Value {
    wait_async(name, async || status(m, name).await["phase"] == "Failed").await;
    status(m, name).await
}

#[tokio::test]
async fn pods_are_evicted_in_order_and_critical_ones_stay() {
    with_instance("pods_are_evicted_in_order_and_critical_ones_stay", async |m| {
        // Twenty MiB that nobody asked for; tail keeps what has no line end.
        let greedy = m.pod("greedy", "Always", "(head -c 20971520 /dev/zero; sleep 1000) | tail -c 20971520");
        let requests = "resources:\n  requests:\n    memory: 64Mi";
        let modest = m.manifest("modest.yaml", &pod_with("modest", "Always", "exec sleep 1000", "", requests));
        let critical = "priorityClassName: system-node-critical";
        let critical = pod_with("critical", "Always", "exec sleep 1000", critical, "");
        let critical = m.manifest("critical.yaml", &critical);
        m.minke(&["run", &greedy, &modest, &critical]).await.expect(0);
        tokio::time::sleep(Duration::from_millis(500)).await;
        // A machine that is always short of memory. (What a hard threshold keeps free could not be requested.)
        let soft = ("MINKE_EVICTION_SOFT", "memory.available<100%");
        let grace = ("MINKE_EVICTION_SOFT_GRACE_PERIOD", "memory.available=0s");
        agent(&m, &[soft, grace, ("MINKE_EVICTION_PERIOD", "3s")]).await;
        let first = ended(&m, "greedy").await;
        assert_eq!(status(&m, "modest").await["phase"], "Running", "one at a time, and who asked for it last");
        assert_eq!(first["reason"], "Evicted");
        let message = first["message"].as_str().unwrap();
        assert!(message.starts_with("The node was low on resource: memory. Threshold quantity: "), "{message}");
        assert!(
            message.contains("Container main was using ") && message.contains("request is 0, has larger"),
            "{message}"
        );
        let conditions = first["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|c| c["type"] == "DisruptionTarget" && c["status"] == "True"), "{conditions:?}");

        assert_eq!(ended(&m, "modest").await["reason"], "Evicted");
        let ran = m.minke(&["ps"]).await.expect(0);
        assert!(ran.err.contains("under MemoryPressure"), "{}", ran.err);
        assert!(m.minke(&["top"]).await.expect(0).out.contains("under MemoryPressure"));
        let late = m.pod("late", "Never", "true");
        let ran = m.minke(&["run", &late]).await.expect(4);
        assert!(ran.err.contains("The node had condition: [MemoryPressure]."), "{}", ran.err);
        let metrics = m.minke(&["metrics"]).await.expect(0).out;
        assert!(metrics.contains("kubelet_evictions{eviction_signal=\"memory.available\"} 2"), "{metrics}");
        assert_eq!(status(&m, "critical").await["phase"], "Running");
    })
    .await;
}

#[tokio::test]
async fn limits_on_ephemeral_storage_are_enforced() {
    with_instance("limits_on_ephemeral_storage_are_enforced", async |m| {
        agent(&m, &[("MINKE_EVICTION_PERIOD", "1s")]).await;
        let volumes = "volumes:\n- name: scratch\n  emptyDir:\n    sizeLimit: 2Mi";
        let mounts = "volumeMounts:\n- name: scratch\n  mountPath: /scratch";
        let limits = "resources:\n  limits:\n    ephemeral-storage: 2Mi";
        let fill = |path: &str, mib: u32| format!("dd if=/dev/zero of={path}/x bs=1M count={mib}; exec sleep 1000");
        for (name, text) in [
            ("volume", pod_with("volume", "Always", &fill("/scratch", 4), volumes, mounts)),
            ("layer", pod_with("layer", "Always", &fill("/root", 4), "", limits)),
            ("fine", pod_with("fine", "Always", &fill("/scratch", 1), volumes, &format!("{mounts}\n{limits}"))),
        ] {
            let path = m.manifest(&format!("{name}.yaml"), &text);
            // It may be gone again before its start is seen.
            m.minke(&["run", &path, "--until", "running", "--timeout", "60s"]).await;
        }
        let volume = ended(&m, "volume").await;
        assert_eq!(volume["reason"], "Evicted");
        assert_eq!(volume["message"], "Usage of EmptyDir volume \"scratch\" exceeds the limit \"2Mi\". ");
        let layer = ended(&m, "layer").await;
        let message = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
        assert_eq!((&layer["reason"], &layer["message"]), (&"Evicted".into(), &message.into()));
        assert_eq!(status(&m, "fine").await["phase"], "Running");
    })
    .await;
}

/// A Pod's file of a controller, wherever its quality of service puts it.
fn cgroup_file(cgroups: &[PathBuf], controller: &str, uid: &str, file: &str) -> String {
    let controllers = |path: &PathBuf| path.to_str().unwrap().split(['/', ',']).any(|part| part == controller);
    let own = cgroups.iter().filter(|c| c.to_str().unwrap().ends_with(&format!("pod{uid}")));
    let path = own.clone().find(|c| controllers(c)).or_else(|| own.clone().next()).unwrap();
    std::fs::read_to_string(path.join(file)).unwrap_or_else(|e| panic!("{}: {e}", path.join(file).display()))
}

#[tokio::test]
async fn quality_of_service_shows_in_cgroups_and_oom_scores() {
    with_instance("quality_of_service_shows_in_cgroups_and_oom_scores", async |m| {
        // As a flag, which an agent in the background gets as well.
        m.minke(&["agent", "--background", "--pod-max-pids", "77"]).await.expect(0);
        let both = "resources:\n  limits: {cpu: 200m, memory: 64Mi}";
        let some = "resources:\n  requests: {cpu: 500m, memory: 1Gi}";
        for (name, container) in [("guaranteed", both), ("burstable", some), ("besteffort", "")] {
            let script = "cat /proc/self/oom_score_adj; exec sleep 1000";
            let path = m.manifest(&format!("{name}.yaml"), &pod_with(name, "Always", script, "", container));
            m.minke(&["run", &path]).await.expect(0);
        }
        let cgroups = m.pod_cgroups();
        let v2 = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let memory: u64 = {
            let text = std::fs::read_to_string("/proc/meminfo").unwrap();
            let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:")).unwrap();
            total.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
        };
        let own: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        let burstable = (1000 - 1000 * (1 << 30) / i64::try_from(memory).unwrap()).clamp(3, 999);
        for (name, class, shares, oom) in [
            ("guaranteed", "", 204, -997),
            ("burstable", "/burstable/", 512, burstable),
            ("besteffort", "/besteffort/", 2, 1000),
        ] {
            let uid = m.ps(name).await.unwrap()["uid"].as_str().unwrap().to_owned();
            let found = cgroups.iter().find(|c| c.to_str().unwrap().ends_with(&format!("pod{uid}"))).unwrap();
            let found = found.to_str().unwrap();
            assert!(if class.is_empty() { !found.contains("burstable") } else { found.contains(class) }, "{found}");
            assert_eq!(m.ps(name).await.map(|_| ()), Some(()));
            assert_eq!(cgroup_file(&cgroups, "pids", &uid, "pids.max").trim(), "77", "{name}");
            let (file, expected) =
                if v2 { ("cpu.weight", 1 + (shares - 2) * 9999 / 262_142) } else { ("cpu.shares", shares) };
            assert_eq!(cgroup_file(&cgroups, "cpu", &uid, file).trim(), expected.to_string(), "{name}");
            // Without CAP_SYS_RESOURCE a score can't be lowered.
            let score: i64 = m.minke(&["logs", name]).await.expect(0).out.trim().parse().unwrap();
            assert!(score == oom || (oom < i64::from(own) && score == i64::from(own)), "{name}: {score}, not {oom}");
        }
        // Each class weighs what its Pods ask for together, so that who asks for nothing can't crowd out who does.
        for (class, shares) in [("burstable", 512), ("besteffort", 2)] {
            let (file, expected) =
                if v2 { ("cpu.weight", 1 + (shares - 2) * 9999 / 262_142) } else { ("cpu.shares", shares) };
            let groups = cgroups.iter().filter_map(|c| c.parent()).filter(|c| c.ends_with(class));
            let weights = groups.filter_map(|group| std::fs::read_to_string(group.join(file)).ok());
            let weights: Vec<String> = weights.map(|w| w.trim().to_owned()).collect();
            assert_eq!(weights, [expected.to_string()], "{class}");
        }
        let uid = m.ps("guaranteed").await.unwrap()["uid"].as_str().unwrap().to_owned();
        let (limit, quota) = if v2 { ("memory.max", "cpu.max") } else { ("memory.limit_in_bytes", "cpu.cfs_quota_us") };
        assert_eq!(cgroup_file(&cgroups, "memory", &uid, limit).trim(), (64 << 20).to_string());
        assert!(cgroup_file(&cgroups, "cpu", &uid, quota).starts_with("20000"));
        assert_eq!(status(&m, "guaranteed").await["qosClass"], "Guaranteed");
    })
    .await;
}

#[tokio::test]
async fn top_shows_what_pods_use() {
    with_instance("top_shows_what_pods_use", async |m| {
        let busy = m.pod("busy", "Always", "dd if=/dev/zero of=/x bs=1M count=3; echo written; while :; do :; done");
        let idle = m.pod("idle", "Always", "exec sleep 1000");
        m.minke(&["run", &busy, &idle]).await.expect(0);
        wait_async("the file to be written", async || m.minke(&["logs", "busy"]).await.out.contains("written")).await;
        let top = m.minke(&["top", "-o", "json"]).await.expect(0).json();
        let of = |name: &str| top["pods"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap().clone();
        let number = |pod: &Value, field: &str| pod[field].as_u64().unwrap_or_else(|| panic!("{field} of {pod}"));
        assert!(number(&of("busy"), "cpuMillis") >= 50, "{top:#}");
        assert!(number(&of("idle"), "cpuMillis") <= 20, "{top:#}");
        assert!(number(&of("busy"), "diskBytes") >= 3 << 20 && number(&of("idle"), "diskBytes") < 1 << 20, "{top:#}");
        assert!(number(&of("idle"), "memoryBytes") > 0 && number(&of("idle"), "pids") >= 1);
        assert_eq!(of("busy")["containers"][0]["name"], "main");
        assert!(top["node"]["signals"]["memory.available"]["available"].as_u64().unwrap() > 0);
        let table = m.minke(&["top", "idle", "--containers", "--interval", "100ms"]).await.expect(0).out;
        assert!(table.contains("main") && !table.contains("busy") && table.contains("machine: "), "{table}");
    })
    .await;
}

#[tokio::test]
async fn a_critical_pod_takes_the_place_of_another_and_what_does_not_fit_is_rejected() {
    with_instance("a_critical_pod_takes_the_place_of_another_and_what_does_not_fit_is_rejected", async |m| {
        let cores = std::thread::available_parallelism().unwrap().get();
        let reserved = format!("cpu={}", cores - 1);
        agent(&m, &[("MINKE_SYSTEM_RESERVED", &reserved), ("MINKE_NODE_LABELS", "disk=ssd")]).await;
        let asks = |cpu: &str| format!("resources:\n  requests: {{cpu: {cpu}}}");
        let there = pod_with("there", "Always", "exec sleep 1000", "nodeSelector: {disk: ssd}", &asks("700m"));
        m.minke(&["run", &m.manifest("there.yaml", &there)]).await.expect(0);
        let second = pod_with("second", "Always", "exec sleep 1000", "", &asks("400m"));
        let ran = m.minke(&["run", &m.manifest("second.yaml", &second)]).await.expect(4);
        let words = "Node didn't have enough resource: cpu, requested: 400, used: 700, capacity: 1000";
        assert!(ran.err.contains(words), "{}", ran.err);
        let elsewhere = pod("elsewhere", "Always", "true").replace("spec:", "spec:\n  nodeSelector: {disk: hdd}");
        let ran = m.minke(&["run", &m.manifest("elsewhere.yaml", &elsewhere)]).await.expect(4);
        assert!(ran.err.contains("NodeAffinity"), "{}", ran.err);

        let critical = "priorityClassName: system-cluster-critical";
        let critical = pod_with("critical", "Always", "exec sleep 1000", critical, &asks("400m"));
        m.minke(&["run", &m.manifest("critical.yaml", &critical)]).await.expect(0);
        let gone = ended(&m, "there").await;
        assert_eq!(gone["reason"], "Preempting");
        assert_eq!(gone["message"], "Preempted in order to admit critical pod");

        // An agent with less to give admits its Pods again.
        let reserved = format!("cpu={cores}");
        agent(&m, &[("MINKE_SYSTEM_RESERVED", &reserved)]).await;
        let gone = ended(&m, "critical").await;
        assert_eq!(gone["reason"], "UnexpectedAdmissionError", "{gone}");
    })
    .await;
}
