//! A cluster of one machine: `minke up` and `minke down`, with real containers and a Kubernetes client.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{IMAGE, Instance, Ran, wait_async, with_instance};

/// Any free port: tests run beside each other.
const LISTEN: &str = "--listen=127.0.0.1:0";

pub(crate) async fn up(m: &Instance, more: &[&str]) -> Ran {
    m.minke(&[&["up", LISTEN], more].concat()).await.expect(0)
}

/// The same where as few files may be open as after a usual login.
pub(crate) async fn up_with_few_files(m: &Instance) -> Ran {
    let ran: Ran = m.command_with_few_files(&["up", LISTEN]).output().await.unwrap().into();
    ran.expect(0)
}

/// A client by the kubeconfig that `up` has told of.
pub(crate) async fn client(told: &Ran) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = told.out.lines().find_map(|line| line.strip_prefix("export KUBECONFIG=")).expect(&told.out);
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) fn pod(name: &str, restart: &str, script: &str, more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}],
        },
    });
    if let Some(volume) = more.get("volume") {
        pod["spec"]["volumes"] = json!([volume]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": volume["name"], "mountPath": "/v"}]);
    }
    serde_json::from_value(pod).unwrap()
}

pub(crate) async fn until(pods: &Api<Pod>, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    let found = async || pods.get_opt(name).await.ok().flatten().filter(|pod| holds(pod));
    wait_async(&format!("{name}: {what}"), async || found().await.is_some()).await;
    found().await.unwrap()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// The id of its container, how often it was restarted, and whether it runs.
fn container(pod: &Pod) -> (String, i32, bool) {
    let status = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()).and_then(|all| all.first());
    status.map_or((String::new(), 0, false), |status| {
        let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        (status.container_id.clone().unwrap_or_default(), status.restart_count, running)
    })
}

pub(crate) fn runs(pod: &Pod) -> bool {
    phase(pod) == "Running" && container(pod).2
}

/// Goes on until it is told to end.
pub(crate) const LOOP: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_one_machine_schedules_and_runs_pods() {
    with_instance("a_cluster_of_one_machine_schedules_and_runs_pods", async |m| {
        let told = up(&m, &["--node-label", "disk=ssd"]).await;
        let api = client(&told).await;
        let node = Api::<Node>::all(api.clone()).list(&Default::default()).await.unwrap().items.remove(0);
        assert_eq!(node.metadata.labels.unwrap()["disk"], "ssd");
        let (pods, maps): (Api<Pod>, Api<ConfigMap>) =
            (Api::default_namespaced(api.clone()), Api::default_namespaced(api.clone()));

        // Nobody names a node; the Pod's configuration comes from the API, by the node's own rights.
        let map = json!({"metadata": {"name": "page"}, "data": {"word": "hello"}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        let volume = json!({"volume": {"name": "page", "configMap": {"name": "page"}}});
        let reads = pod("reads", "Never", "grep -q hello /v/word", &volume);
        pods.create(&PostParams::default(), &reads).await.unwrap();
        pods.create(&PostParams::default(), &pod("stays", "Always", LOOP, &json!({}))).await.unwrap();
        let ended = until(&pods, "reads", "ends", |pod| ["Succeeded", "Failed"].contains(&phase(pod))).await;
        assert_eq!(phase(&ended), "Succeeded", "{ended:?}");
        let before = container(&until(&pods, "stays", "runs", runs).await);
        assert_eq!(m.ps("stays").await.unwrap()["name"], "stays", "the instance's own commands see the same pods");

        // Beginning what has begun says where it is.
        assert_eq!(up(&m, &[]).await.out, told.out);

        // The process is killed: the Pod goes on, and the next `up` takes it up.
        assert!(m.kill_agent().await);
        let told = up(&m, &[]).await;
        let pods: Api<Pod> = Api::default_namespaced(client(&told).await);
        wait_async("a status after the restart", async || pods.get("stays").await.is_ok_and(|pod| runs(&pod))).await;
        assert_eq!(container(&pods.get("stays").await.unwrap()), before);
        pods.delete("stays", &DeleteParams::default()).await.unwrap();
        wait_async("the pod to be gone", async || matches!(pods.get_opt("stays").await, Ok(None))).await;
        m.minke(&["down", "--purge"]).await.expect(0);
        assert_eq!(m.leftovers(), "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_down_comes_up_again_as_after_a_reboot() {
    with_instance("what_was_down_comes_up_again_as_after_a_reboot", async |m| {
        let pods: Api<Pod> = Api::default_namespaced(client(&up(&m, &[]).await).await);
        pods.create(&PostParams::default(), &pod("stays", "Always", LOOP, &json!({}))).await.unwrap();
        pods.create(&PostParams::default(), &pod("once", "Never", "exit 0", &json!({}))).await.unwrap();
        let before = container(&until(&pods, "stays", "runs", runs).await);
        let once = container(&until(&pods, "once", "ends", |pod| phase(pod) == "Succeeded").await);

        m.minke(&["down"]).await.expect(0);
        assert_eq!(m.agent(), None);
        assert!(m.processes().is_empty(), "{:?}", m.processes());
        // Another command must not begin it again behind one's back.
        assert!(m.minke(&["ps"]).await.expect(5).err.contains("minke up"));
        m.minke(&["down"]).await.expect(0);

        let pods: Api<Pod> = Api::default_namespaced(client(&up(&m, &[]).await).await);
        let stays = until(&pods, "stays", "runs again", |pod| runs(pod) && container(pod).1 > 0).await;
        assert_eq!(container(&stays).1, before.1 + 1);
        let after = pods.get("once").await.unwrap();
        assert_eq!((phase(&after), container(&after)), ("Succeeded", once));

        // Pods may go on without it, too.
        let kept = container(&pods.get("stays").await.unwrap()).0;
        m.minke(&["down", "--keep-pods"]).await.expect(0);
        let pods: Api<Pod> = Api::default_namespaced(client(&up(&m, &[]).await).await);
        wait_async("the pod to be taken up", async || pods.get("stays").await.is_ok_and(|pod| runs(&pod))).await;
        assert_eq!(container(&pods.get("stays").await.unwrap()).0, kept);
        m.minke(&["down", "--purge"]).await.expect(0);
        assert_eq!(m.leftovers(), "");
        assert!(!m.root().join("state/api").exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_is_applied_and_told() {
    with_instance("the_demo_is_applied_and_told", async |m| {
        let told = up(&m, &["--demo"]).await;
        assert!(told.out.contains("pod/web applied") && told.out.contains("kubectl -n demo get pods"), "{}", told.out);
        let api = client(&told).await;
        let pods = Api::<Pod>::namespaced(api.clone(), "demo").list(&Default::default()).await.unwrap().items;
        assert_eq!(pods.len(), 3);
        let demo = Api::<Namespace>::all(api);
        demo.delete("demo", &DeleteParams::default()).await.unwrap();
        wait_async("the demo to be gone", async || matches!(demo.get_opt("demo").await, Ok(None))).await;
        m.minke(&["down", "--purge"]).await.expect(0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_taken_is_told_with_what_to_do() {
    with_instance("an_address_that_is_taken_is_told_with_what_to_do", async |m| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        let refused = m.minke(&["up", "--listen", &listen]).await.expect(5);
        assert!(refused.err.contains(&listen) && refused.err.contains("--listen"), "{}", refused.err);
        // It says so a moment before it has ended, and leaves nothing that would be in the way.
        up(&m, &[]).await;
        m.minke(&["down"]).await.expect(0);
    })
    .await;
}

/// Takes all that is posted: each span's name, its Pod, and how it went.
async fn collect(listener: TcpListener, spans: Arc<Mutex<Vec<[String; 3]>>>) {
    while let Ok((connection, _)) = listener.accept().await {
        let spans = spans.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let spans = spans.clone();
            async move {
                assert_eq!(request.uri().path(), "/v1/traces");
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let posted = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
                for span in posted {
                    let attribute = |key: &str| {
                        let found = span["attributes"].as_array().unwrap().iter().find(|one| one["key"] == key);
                        let value = found.and_then(|one| one["value"]["stringValue"].as_str());
                        value.unwrap_or_default().to_owned()
                    };
                    let name = span["name"].as_str().unwrap().to_owned();
                    spans.lock().unwrap().push([name, attribute("k8s.pod.name"), attribute("outcome")]);
                }
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service);
        tokio::spawn(connection);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_on_a_pod_is_told_to_a_collector_of_traces() {
    with_instance("the_work_on_a_pod_is_told_to_a_collector_of_traces", async |m| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("--otlp-endpoint=http://{}", listener.local_addr().unwrap());
        let spans = Arc::<Mutex<Vec<[String; 3]>>>::default();
        let collector = tokio::spawn(collect(listener, spans.clone()));
        let told = up(&m, &[&endpoint]).await;
        let pods: Api<Pod> = Api::default_namespaced(client(&told).await);
        pods.create(&PostParams::default(), &pod("traced", "Always", LOOP, &json!({}))).await.unwrap();
        until(&pods, "traced", "runs", runs).await;
        pods.delete("traced", &DeleteParams::default()).await.unwrap();
        wait_async("the pod to be gone", async || matches!(pods.get_opt("traced").await, Ok(None))).await;
        assert!(
            m.minke(&["metrics"]).await.expect(0).out.contains("minke_otlp_spans_total{result=\"unreachable\"} 0\n")
        );
        for (name, outcome) in [
            ("provider.create", "success"),
            ("pod.create", ""),
            ("status.patch", "success"),
            ("provider.delete", "success"),
            ("pod.kill", "done"),
            ("pod.delete", "success"),
        ] {
            let is_it = |[of, pod, went]: &[String; 3]| {
                of == name && pod == "traced" && (outcome.is_empty() || went == outcome)
            };
            // Batches come some seconds late.
            wait_async(name, async || spans.lock().unwrap().iter().any(is_it)).await;
        }
        m.minke(&["down", "--purge"]).await.expect(0);
        collector.abort();
        assert_eq!(m.leftovers(), "");
    })
    .await;
}
