//! Static Pods in real containers: the agent as a service with a directory of manifests.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Instance, Running, pod_with, wait_async, with_instance};

struct Service {
    agent: Running,
    directory: PathBuf,
    node: String,
}

impl Service {
    fn start(m: &Instance) -> Self {
        let directory = m.root().join("manifests");
        std::fs::create_dir_all(&directory).unwrap();
        // How full this machine's disk is is not for tests.
        let quiet = ["--eviction-hard", "memory.available<1Mi"];
        let directories = ["agent", "--replace", "--manifests", directory.to_str().unwrap()];
        let agent = m.spawn(&[&directories[..], &quiet[..]].concat());
        let node = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        Self { agent, directory, node }
    }

    fn put(&self, file: &str, text: &str) {
        let beside = self.directory.join(format!(".{file}"));
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, self.directory.join(file)).unwrap();
    }

    fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.node)
    }
}

fn pod(name: &str, script: &str) -> String {
    pod_with(name, "Always", script, "terminationGracePeriodSeconds: 1", "").replacen(
        "  terminationGracePeriodSeconds: 5\n",
        "",
        1,
    )
}

/// The Pod of this name, once it runs and this holds.
async fn running(m: &Instance, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let found = async || m.ps(name).await.filter(|p| p["phase"] == "Running" && holds(p));
    wait_async(&format!("{name} to run"), async || found().await.is_some()).await;
    found().await.unwrap()
}

async fn gone(m: &Instance, name: &str) {
    wait_async(&format!("{name} to be gone"), async || m.ps(name).await.is_none()).await;
}

fn uid(pod: &Value) -> String {
    pod["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn manifests_are_added_changed_broken_and_removed() {
    with_instance("manifests_are_added_changed_broken_and_removed", async |m| {
        let service = Service::start(&m);
        let (web, db) = (service.name("web"), service.name("db"));
        service.put("web.yaml", &pod("web", "echo one; exec sleep 1000"));
        let first = running(&m, &web, |_| true).await;
        assert_eq!(first["source"], "file");
        assert_eq!(first["manifest"], service.directory.join("web.yaml").to_str().unwrap());
        wait_async("its output", async || m.minke(&["logs", &web]).await.out == "one\n").await;
        assert!(m.minke(&["ps", "-o", "wide"]).await.expect(0).out.contains("manifests/web.yaml"));

        service.put("db.yaml", &pod("db", "exec sleep 1000"));
        running(&m, &db, |_| true).await;
        service.put("web.yaml", &pod("web", "echo two; exec sleep 1000"));
        let second = running(&m, &web, |p| uid(p) != uid(&first)).await;
        wait_async("its output", async || m.minke(&["logs", &web]).await.out == "two\n").await;

        service.put("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {contianers: []}\n");
        service.put("extra.yaml", &pod("extra", "exec sleep 1000"));
        running(&m, &service.name("extra"), |_| true).await;
        assert_eq!(m.ps(&web).await.unwrap()["containers"], second["containers"], "a bad file keeps what runs of it");

        for file in ["web.yaml", "db.yaml", "extra.yaml"] {
            std::fs::remove_file(service.directory.join(file)).unwrap();
        }
        for name in [&web, &db, &service.name("extra")] {
            gone(&m, name).await;
        }
        service.agent.signal(Signal::TERM);
        let ended = service.agent.end().await.expect(0);
        assert_eq!(m.leftovers(), "");
        assert!(ended.err.contains("contianers"), "the bad file is told of: {}", ended.err);
    })
    .await;
}

#[tokio::test]
async fn static_pods_outlive_a_killed_agent_and_are_not_forgotten_by_it() {
    with_instance("static_pods_outlive_a_killed_agent_and_are_not_forgotten_by_it", async |m| {
        let service = Service::start(&m);
        let (stays, goes) = (service.name("stays"), service.name("goes"));
        service.put("stays.yaml", &pod("stays", "exec sleep 1000"));
        service.put("goes.yaml", &pod("goes", "exec sleep 1000"));
        let before = running(&m, &stays, |_| true).await;
        running(&m, &goes, |_| true).await;
        service.agent.signal(Signal::KILL);
        service.agent.end().await;

        // An agent that a command starts removes nothing, whatever the directory has.
        std::fs::remove_file(service.directory.join("goes.yaml")).unwrap();
        assert_eq!(m.ps(&goes).await.unwrap()["phase"], "Running");
        let next = Service::start(&m);
        // A command that comes while one agent takes the place of another may start a third.
        wait_async("the pod to be stopped", async || sleepers(&m) == 1).await;
        gone(&m, &goes).await;
        assert_eq!(m.ps(&stays).await.unwrap()["containers"], before["containers"], "it was not started again");
        next.agent.signal(Signal::TERM);
        next.agent.end().await.expect(0);
        assert_eq!(m.ps(&stays).await.unwrap()["containers"], before["containers"], "nor stopped by the service's end");
    })
    .await;
}

#[tokio::test]
async fn a_pod_on_the_hosts_network_is_upgraded_by_container_rename() {
    with_instance("a_pod_on_the_hosts_network_is_upgraded_by_container_rename", async |m| {
        let service = Service::start(&m);
        let name = service.name("web");
        let of = |container: &str| {
            let pod =
                pod("web", "exec sleep 1000").replacen("  restartPolicy", "  hostNetwork: true\n  restartPolicy", 1);
            pod.replace("name: main", &format!("name: {container}"))
        };
        service.put("web.yaml", &of("old"));
        let first = running(&m, &name, |_| true).await;
        service.put("web.yaml", &of("new"));
        let second = running(&m, &name, |p| p["containers"][0]["name"] == "new").await;
        assert_ne!(uid(&first), uid(&second));

        // The same with a uid of its own: it is the same Pod.
        let fixed = |container: &str| of(container).replacen("metadata:\n", "metadata:\n  uid: fixed\n", 1);
        service.put("web.yaml", &fixed("old"));
        running(&m, &name, |p| uid(p) == "fixed").await;
        service.put("web.yaml", &fixed("new"));
        let renamed = running(&m, &name, |p| p["containers"][0]["name"] == "new").await;
        assert_eq!(uid(&renamed), "fixed");
        wait_async("the old container to end", async || sleepers(&m) == 1).await;
    })
    .await;
}

/// How many containers' programs run.
fn sleepers(m: &Instance) -> usize {
    let of = |cgroup: &Path| std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut pids = std::collections::BTreeSet::new();
    let mut directories = m.pod_cgroups();
    while let Some(directory) = directories.pop() {
        pids.extend(of(&directory).lines().map(ToOwned::to_owned));
        let below = std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|e| e.path());
        directories.extend(below.filter(|p| p.is_dir()));
    }
    let is_sleep =
        |pid: &&String| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "sleep");
    pids.iter().filter(is_sleep).count()
}

/// An init container that has done its work and was cleaned away does not make its Pod wait for it again.
#[tokio::test]
async fn a_pod_whose_init_container_is_gone_is_ready_after_a_restart_of_the_agent() {
    with_instance("a_pod_whose_init_container_is_gone_is_ready_after_a_restart_of_the_agent", async |m| {
        let service = Service::start(&m);
        let name = service.name("web");
        let init = format!(
            "initContainers:\n- name: prepare\n  image: {}\n  imagePullPolicy: Never\n  command: [\"true\"]",
            crate::support::IMAGE
        );
        let manifest = pod_with("web", "Always", "exec sleep 1000", &init, "");
        service.put("web.yaml", &manifest);
        let before = running(&m, &name, |_| true).await;
        service.agent.signal(Signal::KILL);
        service.agent.end().await;
        forget_container(&m, "prepare");
        std::fs::remove_file(m.root().join("state/pods").join(uid(&before)).join("state.json")).unwrap();
        let next = Service::start(&m);
        wait_async("it to be ready", async || {
            let inspected = m.minke(&["inspect", &name, "-o", "json"]).await;
            inspected.code == 0 && ready(&inspected.json())
        })
        .await;
        let after = m.ps(&name).await.unwrap();
        let main = |pod: &Value| pod["containers"].as_array().unwrap().iter().find(|c| c["name"] == "main").cloned();
        assert_eq!(main(&after), main(&before), "and nothing was started again");
        drop(next);
    })
    .await;
}

/// As if the container had been cleaned away, and nobody had kept how it ended.
fn forget_container(m: &Instance, name: &str) {
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path());
    let sandboxes = entries(m.root().join("state/sandboxes"));
    let containers: Vec<_> = sandboxes.flat_map(|s| entries(s.join("containers"))).collect();
    let named = |container: &PathBuf| {
        let texts = entries(container.clone()).filter_map(|file| std::fs::read_to_string(file).ok());
        texts.into_iter().any(|text| text.contains(&format!("\"name\":\"{name}\"")))
    };
    let found: Vec<_> = containers.into_iter().filter(named).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::remove_dir_all(&found[0]).unwrap();
}

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

#[tokio::test]
async fn the_service_manager_is_told() {
    with_instance("the_service_manager_is_told", async |m| {
        let path = m.root().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let heard = async || {
            let manager = manager.try_clone().unwrap();
            let word = tokio::task::spawn_blocking(move || {
                let mut buffer = [0; 256];
                let length = manager.recv(&mut buffer).unwrap();
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            });
            word.await.unwrap()
        };
        let mut command = m.command(&["agent"]);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
        let mut agent = command.spawn().unwrap();
        let mut words = vec![heard().await, heard().await, heard().await];
        words.sort();
        assert!(words[0].starts_with("READY=1\n"), "{words:?}");
        assert_eq!(words[1..], ["WATCHDOG=1", "WATCHDOG=1"]);
        let pid = rustix::process::Pid::from_raw(i32::try_from(agent.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        while !heard().await.starts_with("STOPPING=1\n") {}
        assert!(agent.wait().await.unwrap().success());
    })
    .await;
}
