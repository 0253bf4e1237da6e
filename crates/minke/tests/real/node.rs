//! A node of a cluster in real processes: `minke api`, `minke node`, real containers.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{Api, DeleteParams, LogParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use minke_testkit::containerd::Release;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::containerd::with_containerd;
use crate::support::{IMAGE, Instance, Running, wait, wait_async, with_instance};

/// An API on loopback, and its administrator.
struct Cluster {
    server: Option<Running>,
    data: PathBuf,
    listen: String,
}

impl Cluster {
    async fn start(m: &Instance) -> Self {
        // A port that was free a moment ago, because the server has to come back on it.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut cluster = Self { server: None, data: m.root().join("api"), listen: format!("127.0.0.1:{port}") };
        cluster.up(m).await;
        cluster
    }

    fn kubeconfig(&self) -> String {
        self.data.join("admin.conf").to_str().unwrap().to_owned()
    }

    async fn up(&mut self, m: &Instance) {
        self.server = Some(m.spawn(&["api", "--data-dir", self.data.to_str().unwrap(), "--listen", &self.listen]));
        wait("the kubeconfig", || std::path::Path::new(&self.kubeconfig()).exists()).await;
        wait_async("the API", async || match self.try_client().await {
            Some(client) => client.apiserver_version().await.is_ok(),
            None => false,
        })
        .await;
    }

    async fn kill(&mut self) {
        let server = self.server.take().unwrap();
        server.signal(Signal::KILL);
        server.end().await;
    }

    async fn try_client(&self) -> Option<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).ok()?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.ok()?;
        Client::try_from(config).ok()
    }

    async fn client(&self) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        self.try_client().await.unwrap()
    }
}

/// How full this machine's disk is, is not for tests: images that can't be had again by a pull would go.
const FILE: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nimageGCHighThresholdPercent: 100\n";

fn node(m: &Instance, cluster: &Cluster, more: &[&str]) -> Running {
    let kubeconfig = cluster.kubeconfig();
    let config = m.manifest("node.yaml", FILE);
    m.spawn(&[&["node", "--kubeconfig", &kubeconfig, "--node-name", "n1", "--config", &config], more].concat())
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn pod(name: &str, script: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "n1", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
            }],
        },
    });
    for (key, value) in more.as_object().unwrap() {
        pod["spec"]["containers"][0][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// The reason why the container waits.
fn waits(pod: &Pod) -> &str {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    let state = statuses.and_then(|s| s.first()).and_then(|c| c.state.as_ref());
    state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref()).unwrap_or_default()
}

fn container(pod: &Pod) -> (String, i32) {
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    (status.container_id.clone().unwrap_or_default(), status.restart_count)
}

async fn until(pods: &Api<Pod>, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    let found = async || pods.get_opt(name).await.ok().flatten().filter(|pod| holds(pod));
    wait_async(&format!("{name}: {what}"), async || found().await.is_some()).await;
    found().await.unwrap()
}

async fn ready(nodes: &Api<Node>) {
    let is_ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    wait_async("the node to be ready", async || {
        nodes.get_opt("n1").await.ok().flatten().is_some_and(|node| is_ready(&node))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_bound_to_a_node_run_in_real_containers() {
    with_instance("pods_that_are_bound_to_a_node_run_in_real_containers", async |m| {
        pods_of_a_node(&m, "minke://").await;
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_bound_to_a_node_run_on_containerd_1_7() {
    with_containerd("pods_that_are_bound_to_a_node_run", Release::Trixie, async |bed| {
        pods_of_a_node(&bed.m, "containerd://").await;
        bed.end().await;
    })
    .await;
}

/// A node from its registration to its end, over restarts of it and of its API. Its runtime says that it is this one.
async fn pods_of_a_node(m: &Instance, runtime: &str) {
    let mut cluster = Cluster::start(m).await;
    let client = cluster.client().await;
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::default_namespaced(client.clone()));
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let running = node(m, &cluster, &["--node-label", "disk=ssd", "--register-with-taints", "k=v:PreferNoSchedule"]);
    ready(&nodes).await;
    let object = nodes.get("n1").await.unwrap();
    assert_eq!(object.metadata.labels.as_ref().unwrap()["disk"], "ssd");
    let status = object.status.unwrap();
    assert!(status.node_info.unwrap().container_runtime_version.starts_with(runtime));
    assert_eq!(status.capacity.unwrap()["pods"].0, "110");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let owners = async || leases.get("n1").await.ok().and_then(|l| l.metadata.owner_references);
    wait_async("the lease to belong to the node", async || {
        owners().await
            == object.metadata.uid.as_ref().map(|uid| {
                vec![
                    serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}))
                        .unwrap(),
                ]
            })
    })
    .await;

    // A Pod whose ConfigMap comes late.
    let env = json!({"env": [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "one"}}}]});
    pods.create(&PostParams::default(), &pod("late", "trap 'exit 0' TERM; echo $WORD; sleep 1000 & wait", env))
        .await
        .unwrap();
    until(&pods, "late", "waits for its configuration", |p| waits(p) == "CreateContainerConfigError").await;
    let map = json!({"metadata": {"name": "words"}, "data": {"one": "hello"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let late = until(&pods, "late", "runs", |p| phase(p) == "Running").await;
    assert!(late.status.as_ref().unwrap().pod_ip.is_some());
    wait_async("the machine's own commands to work on the node's pods", async || {
        m.minke(&["logs", "late"]).await.expect(0).out == "hello\n"
    })
    .await;

    // A Pod that ends by itself keeps its status.
    pods.create(&PostParams::default(), &{
        let mut pod = pod("job", "exit 3", json!({}));
        pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
        pod
    })
    .await
    .unwrap();
    let job = until(&pods, "job", "fails", |p| phase(p) == "Failed").await;
    let statuses = job.status.unwrap().container_statuses.unwrap();
    assert_eq!(statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);

    // The node's process ends and begins again: its Pods go on.
    let before = container(&late);
    running.signal(Signal::TERM);
    running.end().await.expect(0);
    let renewed = async || leases.get("n1").await.ok().and_then(|l| l.spec).and_then(|spec| spec.renew_time);
    let last = renewed().await;
    let again = node(m, &cluster, &["--replace"]);
    wait_async("the node to live again", async || renewed().await > last).await;

    // The API is killed and comes back: what is asked for then comes about.
    cluster.kill().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.up(m).await;
    pods.create(&PostParams::default(), &pod("after", "trap 'exit 0' TERM; sleep 1000 & wait", json!({})))
        .await
        .unwrap();
    until(&pods, "after", "runs", |p| phase(p) == "Running").await;
    assert_eq!(container(&pods.get("late").await.unwrap()), before, "adopted, not started again");

    // A foreign edit of the status is repaired.
    let lie = json!({"status": {"phase": "Pending", "podIP": "192.0.2.99"}});
    pods.patch_status("late", &PatchParams::default(), &Patch::Merge(&lie)).await.unwrap();
    until(&pods, "late", "says what is so again", |p| {
        phase(p) == "Running" && p.status.as_ref().unwrap().pod_ip.as_deref() != Some("192.0.2.99")
    })
    .await;

    // A node that is deleted comes back.
    let uid = nodes.get("n1").await.unwrap().metadata.uid;
    nodes.delete("n1", &DeleteParams::default()).await.unwrap();
    wait_async("the node to come back", async || {
        nodes.get_opt("n1").await.ok().flatten().is_some_and(|node| node.metadata.uid != uid)
    })
    .await;

    // Deleted Pods are gone when their containers are, long before their grace is over.
    for name in ["late", "after", "job"] {
        // Longer than anything is waited for.
        let grace = DeleteParams { grace_period_seconds: Some(3600), ..DeleteParams::default() };
        pods.delete(name, &grace).await.unwrap();
        wait_async(&format!("{name} to be gone"), async || matches!(pods.get_opt(name).await, Ok(None))).await;
    }
    wait_async("nothing to be left of the pods", async || m.ps("late").await.is_none() && m.ps("job").await.is_none())
        .await;
    again.signal(Signal::TERM);
    again.end().await.expect(0);
    cluster.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_down_takes_its_pods_along_if_it_is_told_to() {
    with_instance("a_node_that_goes_down_takes_its_pods_along_if_it_is_told_to", async |m| {
        let mut cluster = Cluster::start(&m).await;
        let client = cluster.client().await;
        let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::default_namespaced(client));
        let running = node(&m, &cluster, &["--shutdown-grace-period", "20s"]);
        ready(&nodes).await;
        pods.create(&PostParams::default(), &pod("web", "trap 'exit 0' TERM; sleep 1000 & wait", json!({})))
            .await
            .unwrap();
        until(&pods, "web", "runs", |p| phase(p) == "Running").await;
        let refused = m.minke(&["node", "--kubeconfig", &cluster.kubeconfig(), "--node-name", "n1"]).await;
        assert!(refused.code != 0 && refused.err.contains("agent"), "{refused:?}");
        running.signal(Signal::TERM);
        running.end().await.expect(0);
        let web = pods.get("web").await.unwrap();
        let status = web.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Terminated")));
        let node = nodes.get("n1").await.unwrap().status.unwrap().conditions.unwrap();
        let ready = node.iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("NodeShutdown")));
        cluster.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_kubeconfig_is_told_and_an_api_that_is_not_there_is_waited_for() {
    with_instance("a_wrong_kubeconfig_is_told_and_an_api_that_is_not_there_is_waited_for", async |m| {
        let missing = m.minke(&["node", "--kubeconfig", "/nowhere/at/all"]).await.expect(2);
        assert!(missing.err.contains("can't find the cluster") && missing.err.contains("--kubeconfig"), "{missing:?}");
        let wrong = m.minke(&["node", "--kubeconfig", "/nowhere", "--node-name", "Not A Name"]).await.expect(2);
        assert!(wrong.err.contains("--node-name"), "{wrong:?}");
        let file = m.manifest("config.yaml", "kind: Pod\n");
        let wrong = m.minke(&["node", "--config", &file]).await.expect(2);
        assert!(wrong.err.contains("KubeletConfiguration"), "{wrong:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_the_embedded_api_with_a_bootstrap_token() {
    with_instance("a_node_joins_the_embedded_api_with_a_bootstrap_token", async |m| {
        let mut cluster = Cluster::start(&m).await;
        let client = cluster.client().await;
        let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::default_namespaced(client.clone()));
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
        let token = json!({
            "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            },
        });
        secrets.create(&PostParams::default(), &serde_json::from_value(token).unwrap()).await.unwrap();
        let mut kubeconfig = serde_json::to_value(Kubeconfig::read_from(cluster.kubeconfig()).unwrap()).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": "abcdef.0123456789abcdef"});
        let bootstrap = m.manifest("bootstrap.conf", &kubeconfig.to_string());
        let (authority, config) = (cluster.data.join("pki/ca.crt"), m.manifest("node.yaml", FILE));
        let node = m.spawn(&[
            "node",
            "--bootstrap-kubeconfig",
            &bootstrap,
            "--node-name=n1",
            "--node-ip=127.0.0.1",
            "--listen=127.0.0.1:0",
            "--server-tls-bootstrap",
            "--client-ca-file",
            authority.to_str().unwrap(),
            "--config",
            &config,
        ]);
        ready(&nodes).await;
        // From here on it is known by its own certificate.
        secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
        pods.create(&PostParams::default(), &pod("said", "echo hello; exec sleep 1000", json!({}))).await.unwrap();
        until(&pods, "said", "runs", |p| phase(p) == "Running").await;
        wait_async("the API to ask the node", async || {
            pods.logs("said", &LogParams::default()).await.is_ok_and(|said| said == "hello\n")
        })
        .await;
        pods.delete("said", &DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() }).await.unwrap();
        wait_async("the pod to be gone", async || matches!(pods.get_opt("said").await, Ok(None))).await;
        node.signal(Signal::TERM);
        node.end().await.expect(0);
        cluster.kill().await;
    })
    .await;
}
