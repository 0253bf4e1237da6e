//! Watchers, stores, waiting.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector};

use super::*;

fn told<K: ResourceExt>(event: &Event<K>) -> String {
    match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("first {}", object.name_any()),
        Event::InitDone => "ready".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

fn selected() -> watcher::Config {
    watcher::Config::default().labels("suite=kube-rs")
}

#[tokio::test]
async fn a_watcher_sees_everything_once_by_pages_and_by_a_streamed_list() {
    let (_server, client) = cluster().await;
    for name in ["a", "b", "c"] {
        create(&client, name, "1").await;
    }
    for (round, config) in [selected().page_size(2), selected().streaming_lists()].into_iter().enumerate() {
        let mut events = pin!(watcher::watcher(maps(&client), config));
        let mut next = async || told(&soon("an event", events.try_next()).await.unwrap().unwrap());
        for expected in ["init", "first a", "first b", "first c", "ready"] {
            assert_eq!(next().await, expected, "round {round}");
        }
        create(&client, "d", "1").await;
        assert_eq!(next().await, "apply d");
        let patch = json!({"data": {"value": format!("of round {round}")}});
        maps(&client).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(next().await, "apply a");
        // What leaves the selection is gone, as far as this watcher knows.
        let patch = json!({"metadata": {"labels": {"suite": "other"}}});
        maps(&client).patch("d", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(next().await, "delete d");
        maps(&client).delete("d", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_is_what_the_server_has_metadata_alone_included() {
    let (_server, client) = cluster().await;
    create(&client, "a", "1").await;
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher::watcher(maps(&client), selected())).applied_objects();
    let task = tokio::spawn(stream.for_each(|_| async {}));
    soon("the store", reader.wait_until_ready()).await.unwrap();
    let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(client.clone(), "default");
    let (names, writer) = reflector::store();
    let stream = reflector(writer, watcher::watcher(api, selected())).applied_objects();
    let bare = tokio::spawn(stream.for_each(|object| async move {
        assert_eq!(object.unwrap().types.unwrap().kind, "PartialObjectMetadata");
    }));
    soon("the other store", names.wait_until_ready()).await.unwrap();
    for number in 2..20 {
        let patch = json!({"data": {"value": number.to_string()}});
        maps(&client).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        create(&client, &format!("b{number}"), "1").await;
    }
    maps(&client).delete("b7", &DeleteParams::default()).await.unwrap();
    let last = ObjectRef::<ConfigMap>::new("b7").within("default");
    soon("the end", async {
        while reader.len() != 18 || names.len() != 18 || reader.get(&last).is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let values: BTreeMap<String, String> =
        reader.state().iter().map(|map| (map.name_any(), map.data.as_ref().unwrap()["value"].clone())).collect();
    assert_eq!(values["a"], "19");
    assert!(values.keys().all(|name| names.get(&ObjectRef::new(name).within("default")).is_some()));
    assert!(!bare.is_finished(), "every one was metadata alone");
    task.abort();
    bare.abort();
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let (_server, client) = cluster().await;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = pods.create(&PostParams::default(), &object(pod)).await.unwrap();
    let runs = tokio::spawn(await_condition(pods.clone(), "p", conditions::is_pod_running()));
    let status = json!({"status": {"phase": "Running"}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let seen = soon("a running Pod", runs).await.unwrap().unwrap().unwrap();
    assert_eq!(seen.uid(), made.uid());
    let uid = made.uid().unwrap();
    let gone = tokio::spawn({
        let pods = pods.clone();
        async move { await_condition(pods, "p", conditions::is_deleted(&uid)).await }
    });
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    soon("the end of the Pod", gone).await.unwrap().unwrap();
}
