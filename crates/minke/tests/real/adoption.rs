//! Pods outlive agents.

use rustix::process::Signal;

use crate::support::{wait, wait_async, with_instance};

#[tokio::test]
async fn the_next_agent_adopts_what_runs() {
    with_instance("the_next_agent_adopts_what_runs", async |m| {
        let web = m.pod("web", "Always", "echo started; exec sleep 1000");
        let before = m.minke(&["run", &web, "-o", "json"]).await.expect(0).json();
        assert!(m.kill_agent().await);
        let after = m.ps("web").await.unwrap();
        assert_eq!(after["containers"], before["pods"][0]["containers"]);
        assert_eq!(after["podIP"], before["pods"][0]["podIP"]);
        assert_eq!(m.minke(&["logs", "web"]).await.expect(0).out, "started\n", "it was not started again");
    })
    .await;
}

#[tokio::test]
async fn an_exit_code_survives_the_absence_of_an_agent() {
    with_instance("an_exit_code_survives_the_absence_of_an_agent", async |m| {
        let job = m.pod("job", "Never", "while ! test -e /tmp/go; do sleep 0.05; done; echo bye; exit 9");
        m.minke(&["run", &job]).await.expect(0);
        assert!(m.kill_agent().await);
        // The container's own view of its root is reachable through its first process.
        let released = m.pod_cgroups().iter().any(|cgroup| release(cgroup));
        assert!(released, "the container's process is in its cgroup");
        wait("the container to end", || !m.pod_cgroups().iter().any(|c| has_processes(c))).await;
        wait_async("the next agent to see it through", async || {
            let after = m.ps("job").await.unwrap();
            let code = &after["containers"][0]["exitCode"];
            assert!(code.is_null() || *code == 9, "{after:#}");
            after["phase"] == "Failed" && *code == 9
        })
        .await;
        assert_eq!(m.minke(&["logs", "job"]).await.expect(0).out, "bye\n");
    })
    .await;
}

/// Lets the container go on by making `/tmp/go` in its root.
fn release(cgroup: &std::path::Path) -> bool {
    processes(cgroup).iter().any(|pid| {
        let root = format!("/proc/{pid}/root/tmp/go");
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "sh")
            && std::fs::write(root, "").is_ok()
    })
}

fn has_processes(cgroup: &std::path::Path) -> bool {
    processes(cgroup).iter().any(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| matches!(c.trim(), "sh" | "sleep"))
    })
}

fn processes(cgroup: &std::path::Path) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_to_string(cgroup.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .map(ToOwned::to_owned)
        .collect();
    for entry in std::fs::read_dir(cgroup).into_iter().flatten().flatten().filter(|e| e.path().is_dir()) {
        found.extend(processes(&entry.path()));
    }
    found
}

#[tokio::test]
async fn a_waiting_command_goes_on_with_the_next_agent() {
    with_instance("a_waiting_command_goes_on_with_the_next_agent", async |m| {
        let job = m.pod("job", "Never", "echo begun; sleep 3; echo done");
        let run = m.spawn(&["run", &job, "--until", "completed"]);
        wait_async("the pod to run", async || m.minke(&["logs", "job"]).await.out.contains("begun")).await;
        assert!(m.kill_agent().await);
        let ran = run.end().await.expect(0);
        assert_eq!(ran.out.matches("job/main | begun").count(), 1, "{}", ran.out);
        assert_eq!(ran.out.matches("job/main | done").count(), 1, "{}", ran.out);
    })
    .await;
}

#[tokio::test]
async fn a_restart_count_is_not_forgotten() {
    with_instance("a_restart_count_is_not_forgotten", async |m| {
        let crash = m.pod("crash", "Always", "sleep 0.2; exit 1");
        m.minke(&["run", &crash, "--quiet"]).await.expect(0);
        let restarts = async || m.ps("crash").await.unwrap()["containers"][0]["restarts"].as_i64().unwrap();
        wait_async("the first restart", async || restarts().await >= 1).await;
        let before = restarts().await;
        assert!(m.kill_agent().await);
        assert!(restarts().await >= before);
    })
    .await;
}

#[tokio::test]
async fn an_agent_is_replaced_without_touching_pods() {
    with_instance("an_agent_is_replaced_without_touching_pods", async |m| {
        let web = m.pod("web", "Always", "exec sleep 1000");
        let before = m.minke(&["run", &web, "-o", "json"]).await.expect(0).json();
        let old = m.agent().unwrap();
        m.minke(&["agent", "--replace", "--background"]).await.expect(0);
        let new = m.agent().unwrap();
        assert_ne!(old, new);
        assert_eq!(m.ps("web").await.unwrap()["containers"], before["pods"][0]["containers"]);
    })
    .await;
}

#[tokio::test]
async fn a_service_agent_is_the_only_one_and_ends_with_term() {
    with_instance("a_service_agent_is_the_only_one_and_ends_with_term", async |m| {
        let service = m.spawn(&["agent"]);
        wait("the agent to listen", || m.root().join("run/agent.sock").exists()).await;
        let second = m.minke(&["agent"]).await.expect(5);
        assert!(second.err.contains("--replace"), "{}", second.err);
        let web = m.pod("web", "Always", "exec sleep 1000");
        m.minke(&["run", &web]).await.expect(0);
        service.signal(Signal::TERM);
        service.end().await.expect(0);
        assert_eq!(m.ps("web").await.unwrap()["phase"], "Running");
    })
    .await;
}
