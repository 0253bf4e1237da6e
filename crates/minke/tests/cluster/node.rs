//! A node of the cluster: `minke node` in a process of its own, with real containers.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use minke_testkit::TempState;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Where most Pods go.
pub(crate) const NODE: &str = "node-1";
/// A node that is always short of memory, and that no scheduler takes.
pub(crate) const POOR: &str = "node-2";
/// A node that no kubelet is: what happens to its Pods is written by hand.
pub(crate) const ELSEWHERE: &str = "node-3";

/// How long what Pods leave may stay once they are gone from the API.
const LONGEST_TIDYING: Duration = Duration::from_secs(20);

/// How full this machine's disk is, is not for tests: images that can't be had again by a pull would go.
const FILE: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nimageGCHighThresholdPercent: 100\n";

/// See the module.
pub(crate) struct Node {
    name: &'static str,
    place: TempState,
    /// Ends before the directories go.
    process: Option<Child>,
    log: PathBuf,
}

impl Node {
    /// Registers itself as this node; returns when it is ready.
    pub(crate) async fn start(name: &'static str, kubeconfig: &Path, client: &Client) -> Self {
        let place = TempState::new().unwrap();
        let (config, log) = (place.root().join("node.yaml"), place.root().join("node.log"));
        std::fs::write(&config, FILE).unwrap();
        let mut node = Self { name, place, process: None, log };
        let output = std::fs::File::create(&node.log).unwrap();
        let mut command = Command::from(node.command());
        if name == POOR {
            command.args(["node", "--eviction-soft=memory.available<1000Ti", "--register-with-taints=poor:NoSchedule"]);
            command.arg("--eviction-soft-grace-period=memory.available=1s");
        } else {
            command.arg("node");
        }
        command
            .args(["--node-ip=127.0.0.1", "--node-name", name, "--eviction-hard=none", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--config")
            .arg(config)
            .env("MINKE_EVICTION_PERIOD", "1s")
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        node.process = Some(command.spawn().unwrap());
        let nodes: Api<NodeObject> = Api::all(client.clone());
        while !nodes.get_opt(name).await.unwrap().is_some_and(|node| is_ready(&node)) {
            let ended = node.process.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{name} has ended: {}", node.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        welcome(&nodes, name).await;
        node
    }

    fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_minke"));
        command
            .env_remove("MINKE_LOG")
            .env("MINKE_STATE_DIR", self.place.state())
            .env("MINKE_RUN_DIR", self.place.run())
            .env("MINKE_LOG_DIR", self.place.logs())
            // What this machine has configured for others is not for tests.
            .env("MINKE_CNI_CONF_DIR", self.place.root().join("cni"))
            .env("MINKE_CNI_BIN_DIR", self.place.root().join("cni"))
            .stdin(Stdio::null());
        command
    }

    /// What it said.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the API has none of its Pods any more, and the machine nothing of them, and ends it. What is wrong, a line each.
    pub(crate) async fn stop(mut self, client: &Client) -> Vec<String> {
        let pods: Api<Pod> = Api::all(client.clone());
        let own = ListParams::default().fields(&format!("spec.nodeName={}", self.name));
        while !pods.list(&own).await.unwrap().items.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let begun = Instant::now();
        while !self.left().is_empty() && begun.elapsed() < LONGEST_TIDYING {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut wrong: Vec<String> =
            self.left().into_iter().map(|what| format!("left by {}: {what}", self.name)).collect();
        if let Some(mut process) = self.process.take() {
            kill_process(Pid::from_raw(process.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
            let status = process.wait().await.unwrap();
            if !status.success() {
                wrong.push(format!("{} ended with {status}: {}", self.name, self.said()));
            }
        }
        wrong
    }

    /// What its Pods have left on the machine.
    fn left(&self) -> Vec<String> {
        let own = self.process.as_ref().and_then(Child::id).map(u32::cast_signed);
        let processes = self.place.processes().into_iter().filter(|(pid, _)| Some(*pid) != own);
        let mounts = self.place.mounts().into_iter().map(|path| format!("mount {}", path.display()));
        processes.map(|(pid, command)| format!("process {pid} {command}")).chain(mounts).collect()
    }
}

/// Lets Pods come: upstream's server taints every new node, and the controller that takes the taint away is not there.
async fn welcome(nodes: &Api<NodeObject>, name: &str) {
    let taints = nodes.get(name).await.unwrap().spec.and_then(|spec| spec.taints).unwrap_or_default();
    let kept: Vec<_> = taints.into_iter().filter(|taint| taint.key != "node.kubernetes.io/not-ready").collect();
    let patch = Patch::Merge(json!({"spec": {"taints": kept}}));
    nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn is_ready(node: &NodeObject) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

impl Drop for Node {
    /// Ends everything, also when the test has failed.
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        println!("{} is ended in the middle; it said:\n{}", self.name, self.said());
        let _ = process.start_kill();
        let _ = self.command().args(["rm", "--all", "--force"]).output();
        for (pid, _) in self.place.processes() {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}
