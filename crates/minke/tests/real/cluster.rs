//! A node of a real cluster: kube-apiserver and etcd, with the Node authorizer and NodeRestriction in force, kubectl, and real
//! containers. Needs what `e2e/kube/build` makes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use minke_testkit::kube::{KubeApi, Programs};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::examples::import_images;
use crate::support::{IMAGE, Instance, PATIENCE, Ran, Running, wait_async, with_instance};

pub(crate) const NODE: &str = "n1";

/// The programs of a cluster; `None` says why the test is skipped.
pub(crate) fn programs(test: &str) -> Option<Programs> {
    match Programs::get(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("kube")) {
        Ok(programs) => Some(programs),
        Err(unavailable) => {
            println!("SKIPPED {test}: {unavailable}");
            None
        }
    }
}

/// A client by a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A cluster, its administrator, and what stands in for its scheduler.
pub(crate) struct Cluster {
    pub(crate) api: KubeApi,
    pub(crate) client: Client,
    scheduler: tokio::task::JoinHandle<()>,
    admin: std::path::PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.scheduler.abort();
    }
}

impl Cluster {
    pub(crate) async fn start(m: &Instance, programs: &Programs) -> Self {
        let api = KubeApi::start(programs).await.unwrap();
        let admin = m.root().join("admin.conf");
        api.kubeconfig(&admin).unwrap();
        let client = client(&admin).await;
        let scheduler = tokio::spawn(bind_all(client.clone()));
        Self { api, client, scheduler, admin }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The node as a cluster lets it be: by certificates of its own, whose user is the node.
    fn node(&self, m: &Instance, more: &[&str]) -> Running {
        let (kubeconfig, path) = (m.root().join("node.conf"), |name: &str| m.root().join(name).display().to_string());
        let user = self.api.client(&format!("system:node:{NODE}"), &["system:nodes"]).unwrap();
        self.api.kubeconfig_for(&user, &kubeconfig).unwrap();
        let serving = self.api.serving(NODE, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        for (name, text) in [
            ("node.crt", &serving.certificate),
            ("node.key", &serving.key),
            ("ca.crt", &self.api.authority().to_owned()),
        ] {
            std::fs::write(m.root().join(name), text).unwrap();
        }
        let arguments = [
            "node",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--node-name",
            NODE,
            "--config",
            &config(m),
            "--node-ip=127.0.0.1",
            "--listen=127.0.0.1:0",
            "--tls-cert-file",
            &path("node.crt"),
            "--tls-private-key-file",
            &path("node.key"),
            "--client-ca-file",
            &path("ca.crt"),
        ];
        m.spawn(&[&arguments, more].concat())
    }

    pub(crate) async fn ready(&self) {
        wait_async("the node to be ready", async || {
            let node = self.nodes().get_opt(NODE).await.ok().flatten();
            let conditions = node.and_then(|node| node.status).and_then(|status| status.conditions).unwrap_or_default();
            conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
        })
        .await;
    }

    /// kubectl as the administrator.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Ran {
        let mut command = tokio::process::Command::new("kubectl");
        let kubeconfig = self.admin.to_str().unwrap();
        command.args(["--kubeconfig", kubeconfig]).args(arguments);
        command.stdin(std::process::Stdio::null()).kill_on_drop(true);
        tokio::time::timeout(PATIENCE, command.output()).await.expect("kubectl does not end").unwrap().into()
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        let pods = self.pods();
        let found = async || pods.get_opt(name).await.ok().flatten().filter(|pod| holds(pod));
        wait_async(&format!("{name}: {what}"), async || found().await.is_some()).await;
        found().await.unwrap()
    }

    async fn is_gone(&self, name: &str) {
        wait_async(&format!("{name} to be gone"), async || matches!(self.pods().get_opt(name).await, Ok(None))).await;
    }
}

/// How full this machine's disk is, is not for tests.
pub(crate) fn config(m: &Instance) -> String {
    let file =
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nimageGCHighThresholdPercent: 100\n";
    m.manifest("node.yaml", file)
}

/// Binds each Pod to the one node there is, as a scheduler does.
async fn bind_all(client: Client) {
    let all: Api<Pod> = Api::all(client.clone());
    let homeless = ListParams::default().fields("spec.nodeName=");
    loop {
        for pod in all.list(&homeless).await.map(|list| list.items).unwrap_or_default() {
            let (name, namespace) = (pod.metadata.name.unwrap(), pod.metadata.namespace.unwrap());
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": NODE},
            });
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            // It may be gone, or the API away.
            let _ = pods.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

pub(crate) fn pod(name: &str, restart: &str, script: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}],
        },
    });
    serde_json::from_value(pod).unwrap()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn container(pod: &Pod) -> (String, i32) {
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    (status.container_id.clone().unwrap_or_default(), status.restart_count)
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

const LOOP: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_real_cluster_runs_the_examples_and_may_no_more_than_a_node() {
    const NAME: &str = "a_node_of_a_real_cluster_runs_the_examples_and_may_no_more_than_a_node";
    let Some(programs) = programs(NAME) else { return };
    if std::process::Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        println!("SKIPPED {NAME}: needs kubectl");
        return;
    }
    with_instance(NAME, async |m| {
        import_images(&m).await;
        let cluster = Cluster::start(&m, &programs).await;
        let node = cluster.node(&m, &["--node-label", "disk=ssd"]);
        cluster.ready().await;
        assert_eq!(cluster.nodes().get(NODE).await.unwrap().metadata.labels.unwrap()["disk"], "ssd");

        // What ends says what its comment promises, in its own log and through the API.
        for (file, pod, says) in [
            ("hello", "hello", "hello from default/hello"),
            ("config", "config", "environment and files agree"),
            ("hardened", "hardened", "no capabilities, no new privileges"),
            ("init-sidecar", "init-sidecar", "saw three ticks of the sidecar"),
        ] {
            cluster.kubectl(&["apply", "-f", &example(file)]).await.expect(0);
            let ended = cluster.until(pod, "ends", |pod| ["Succeeded", "Failed"].contains(&phase(pod))).await;
            assert_eq!(phase(&ended), "Succeeded", "{file}: {ended:?}");
            let said = cluster.kubectl(&["logs", pod, "--all-containers"]).await.expect(0).out;
            assert!(said.contains(says), "{file}: {said}");
        }
        // The others go on.
        cluster.kubectl(&["apply", "-f", &example("crashloop")]).await.expect(0);
        cluster.until("crashloop", "is restarted", |pod| phase(pod) == "Running" && container(pod).1 > 0).await;

        // kubectl reaches into a Pod: the API verifies the node, the node knows the API by its certificate and asks what it may.
        cluster.pods().create(&PostParams::default(), &pod("stays", "Always", LOOP)).await.unwrap();
        cluster.until("stays", "runs", |pod| phase(pod) == "Running").await;
        let ran = cluster.kubectl(&["exec", "stays", "--", "sh", "-c", "echo in; echo bad >&2; exit 3"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (3, "in\n"), "{ran:?}");
        let script = "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT";
        let ran = cluster.kubectl(&["exec", "stays", "--", "sh", "-c", script]).await.expect(0);
        assert_eq!(ran.out, "10.0.0.1:443\n", "where a client in a Pod finds the API");

        // A token of a service account, bound to its Pod.
        let account = json!({"metadata": {"name": "default"}});
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::default_namespaced(cluster.client.clone());
        accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
        let mut token = serde_json::to_value(pod("token", "Never", "test $(wc -c < /v/token) -gt 100")).unwrap();
        token["spec"]["serviceAccountName"] = json!("default");
        token["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        token["spec"]["volumes"] =
            json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
        cluster.pods().create(&PostParams::default(), &serde_json::from_value(token).unwrap()).await.unwrap();
        let token = cluster.until("token", "ends", |pod| ["Succeeded", "Failed"].contains(&phase(pod))).await;
        assert_eq!(phase(&token), "Succeeded", "{token:?}");

        // The authorizer is in force: this certificate opens nothing that is not the node's.
        let own = client(&m.root().join("node.conf")).await;
        let refused = |error: Option<Error>| matches!(error, Some(Error::Api(status)) if status.code == 403);
        assert!(refused(Api::<Secret>::default_namespaced(own.clone()).list(&ListParams::default()).await.err()));
        assert!(refused(Api::<Node>::all(own.clone()).get("n2").await.err()));
        assert!(refused(Api::<ConfigMap>::default_namespaced(own).get("not-mine").await.err()));

        // Ended and removed, all of them, long before their graces are over.
        let all = DeleteParams { grace_period_seconds: Some(3600), ..DeleteParams::default() };
        cluster.pods().delete_collection(&all, &ListParams::default()).await.unwrap();
        wait_async("all pods to be gone", async || {
            cluster.pods().list(&ListParams::default()).await.is_ok_and(|list| list.items.is_empty())
        })
        .await;
        node.signal(Signal::TERM);
        node.end().await.expect(0);
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_api_that_comes_back_with_an_older_history_finds_its_pods_as_they_are() {
    const NAME: &str = "a_real_api_that_comes_back_with_an_older_history_finds_its_pods_as_they_are";
    let Some(programs) = programs(NAME) else { return };
    with_instance(NAME, async |m| {
        let mut cluster = Cluster::start(&m, &programs).await;
        let node = cluster.node(&m, &[]);
        cluster.ready().await;
        let create = async |cluster: &Cluster, name: &str| {
            cluster.pods().create(&PostParams::default(), &pod(name, "Always", LOOP)).await.unwrap();
            cluster.until(name, "runs", |pod| phase(pod) == "Running").await
        };
        let stays = container(&create(&cluster, "stays").await);
        create(&cluster, "deleted").await;
        cluster.api.stop();
        cluster.api.keep_history().unwrap();
        cluster.api.resume().await.unwrap();

        // Then life goes on: one more comes, one goes, the node's object is made anew.
        create(&cluster, "later").await;
        cluster.pods().delete("deleted", &DeleteParams::default()).await.unwrap();
        cluster.is_gone("deleted").await;
        let uid = cluster.nodes().get(NODE).await.unwrap().metadata.uid;
        cluster.nodes().delete(NODE, &DeleteParams::default()).await.unwrap();
        wait_async("the node to come back", async || {
            cluster.nodes().get_opt(NODE).await.ok().flatten().is_some_and(|node| node.metadata.uid != uid)
        })
        .await;

        // All that is undone behind the node's back.
        cluster.api.stop();
        cluster.api.take_back().unwrap();
        cluster.api.resume().await.unwrap();
        assert_eq!(cluster.nodes().get(NODE).await.unwrap().metadata.uid, uid, "the history is the old one");
        cluster.ready().await;
        // Nobody wants it any more, and nobody was told so by a watch.
        wait_async("the pod that the API never knew to end", async || m.ps("later").await.is_none()).await;
        // It is not run a second time; whoever wants it to run makes another.
        cluster.until("deleted", "is over", |pod| phase(pod) == "Failed").await;
        assert_eq!(container(&cluster.pods().get("stays").await.unwrap()), stays, "it never noticed");
        create(&cluster, "new").await;
        for name in ["stays", "deleted", "new"] {
            cluster.pods().delete(name, &DeleteParams::default()).await.unwrap();
            cluster.is_gone(name).await;
        }
        node.signal(Signal::TERM);
        node.end().await.expect(0);
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mock_node_of_a_real_cluster_says_that_hundreds_of_pods_run() {
    const NAME: &str = "a_mock_node_of_a_real_cluster_says_that_hundreds_of_pods_run";
    const COUNT: usize = 300;
    let Some(programs) = programs(NAME) else { return };
    with_instance(NAME, async |m| {
        let cluster = Cluster::start(&m, &programs).await;
        let space = json!({"metadata": {"name": "many"}});
        let spaces: Api<Namespace> = Api::all(cluster.client.clone());
        spaces.create(&PostParams::default(), &serde_json::from_value(space).unwrap()).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "many");
        let node = cluster.node(&m, &["--provider=mock", "--max-pods=10000"]);
        cluster.ready().await;
        for n in 0..COUNT {
            let mut pod = pod(&format!("p-{n}"), "Always", "");
            pod.spec.as_mut().unwrap().node_name = Some(NODE.to_owned());
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
        let running = async || {
            let all = pods.list(&ListParams::default()).await.unwrap().items;
            all.iter().filter(|pod| phase(pod) == "Running").count()
        };
        wait_async("all to run", async || running().await == COUNT).await;
        let all = DeleteParams { grace_period_seconds: Some(3600), ..DeleteParams::default() };
        pods.delete_collection(&all, &ListParams::default()).await.unwrap();
        wait_async("all to be gone", async || pods.list(&ListParams::default()).await.unwrap().items.is_empty()).await;
        node.signal(Signal::TERM);
        node.end().await.expect(0);
    })
    .await;
}
