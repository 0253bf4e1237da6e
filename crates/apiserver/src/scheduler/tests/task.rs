//! The whole scheduler over a real engine.

use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::SystemClock;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{node_object, pod_object};
use crate::engine::{Engine, ListOptions, Part, Place, WriteOptions};
use crate::kinds::find;
use crate::store::{HistoryLimits, Store};

struct Cluster {
    engine: Engine,
    scheduler: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.scheduler.abort();
    }
}

impl Cluster {
    async fn start() -> Self {
        let engine = Engine::new(Store::in_memory(HistoryLimits::default()), Arc::new(SystemClock));
        engine.prepare().await.unwrap();
        let own = engine.clone();
        let scheduler = tokio::spawn(async move { crate::scheduler::run(&own).await });
        Self { engine, scheduler }
    }

    async fn create(&self, plural: &str, object: Value) {
        let kind = find("", "v1", plural).unwrap();
        let namespace = if kind.namespaced { "default" } else { "" };
        let mut object = object;
        object["metadata"].as_object_mut().unwrap().retain(|field, _| !matches!(field.as_str(), "namespace" | "uid"));
        self.engine.create(kind, namespace, object, &WriteOptions::default()).await.unwrap();
    }

    fn pod(&self, name: &str) -> Option<Value> {
        let place = Place { kind: find("", "v1", "pods").unwrap(), namespace: "default", name };
        self.engine.get(place, None).ok().map(|entry| entry.parse().unwrap())
    }

    fn events(&self) -> Vec<(String, String)> {
        let list = self.engine.list(find("", "v1", "events").unwrap(), None, &ListOptions::default()).unwrap();
        let told = |object: Value| {
            (object["reason"].as_str().unwrap().to_owned(), object["message"].as_str().unwrap().to_owned())
        };
        list.entries.iter().map(|entry| told(entry.parse().unwrap())).collect()
    }

    /// Waits until what is asked for is so.
    async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !is(self) {
            assert!(tokio::time::Instant::now() < deadline, "{what}: {:?} {:?}", self.events(), self.pod("a"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_pod_waits_with_a_reason_and_is_bound_when_a_node_comes() {
    let cluster = Cluster::start().await;
    cluster.create("pods", pod_object("a", 500)).await;
    let said = |cluster: &Cluster| cluster.pod("a").unwrap()["status"]["conditions"][0]["message"].clone();
    cluster.until("it says why", |cluster| said(cluster) == "no nodes available to schedule pods").await;
    cluster.create("nodes", node_object("n1", "1", "1Gi", 5)).await;
    cluster.until("it is bound", |cluster| cluster.pod("a").unwrap()["spec"]["nodeName"] == "n1").await;
    let pod = cluster.pod("a").unwrap();
    assert_eq!(pod["status"]["conditions"][0]["status"], "True");
    let scheduled = ("Scheduled".to_owned(), "Successfully assigned default/a to n1".to_owned());
    cluster.until("it is told", |cluster| cluster.events().contains(&scheduled)).await;
    let failed = ("FailedScheduling".to_owned(), "no nodes available to schedule pods".to_owned());
    assert!(cluster.events().contains(&failed));
}

#[tokio::test]
async fn an_important_pod_takes_the_place_of_a_lesser_one() {
    let cluster = Cluster::start().await;
    cluster.create("nodes", node_object("n1", "1", "1Gi", 5)).await;
    cluster.create("pods", pod_object("lesser", 800)).await;
    let bound = |name: &'static str| {
        move |cluster: &Cluster| cluster.pod(name).is_some_and(|pod| pod["spec"]["nodeName"] == "n1")
    };
    cluster.until("the lesser one runs", bound("lesser")).await;
    let mut important = pod_object("a", 800);
    important["spec"]["priorityClassName"] = "important".into();
    let class = json!({"metadata": {"name": "important"}, "value": 1000});
    let classes = find("scheduling.k8s.io", "v1", "priorityclasses").unwrap();
    cluster.engine.create(classes, "", class, &WriteOptions::default()).await.unwrap();
    cluster.create("pods", important).await;
    let going =
        |cluster: &Cluster| cluster.pod("lesser").is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    cluster.until("the lesser one is told to go", going).await;
    let place = Place { kind: find("", "v1", "pods").unwrap(), namespace: "default", name: "lesser" };
    let reason = &cluster.pod("lesser").unwrap()["status"]["conditions"][1]["reason"];
    assert_eq!(reason, "PreemptionByScheduler");
    cluster.until("it is nominated", |c| c.pod("a").unwrap()["status"]["nominatedNodeName"] == "n1").await;
    // Its node lets it end.
    let options = crate::engine::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    cluster.engine.delete(place, &options).await.unwrap();
    cluster.until("the important one runs", bound("a")).await;
    assert!(cluster.events().iter().any(|(reason, _)| reason == "Preempted"));
}

#[tokio::test]
async fn many_pods_find_their_nodes_and_no_node_has_too_many() {
    let cluster = Cluster::start().await;
    for node in ["n1", "n2"] {
        cluster.create("nodes", node_object(node, "100", "1Gi", 60)).await;
    }
    for pod in 0..150 {
        cluster.create("pods", pod_object(&format!("p{pod}"), 100)).await;
    }
    let on = |cluster: &Cluster, node: &str| {
        (0..150).filter(|pod| cluster.pod(&format!("p{pod}")).unwrap()["spec"]["nodeName"] == *node).count()
    };
    cluster.until("both are full", |cluster| on(cluster, "n1") + on(cluster, "n2") == 120).await;
    assert_eq!((on(&cluster, "n1"), on(&cluster, "n2")), (60, 60));
    // A Pod that has ended makes room for one that waits.
    let ended =
        (0..150).map(|pod| format!("p{pod}")).find(|name| cluster.pod(name).unwrap()["spec"]["nodeName"] == "n1");
    let name = ended.unwrap();
    let place = Place { kind: find("", "v1", "pods").unwrap(), namespace: "default", name: &name };
    let mut pod = cluster.pod(&name).unwrap();
    pod["status"]["phase"] = "Succeeded".into();
    pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    cluster.engine.update(place, Part::Status, pod, &WriteOptions::default()).await.unwrap();
    cluster.until("another one has its place", |cluster| on(cluster, "n1") == 61).await;
}
