//! Controllers, finalizers, events, leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Resource, ResourceExt};

use super::*;

/// Makes a child for each parent, as its owner's controller.
async fn child_of(parent: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let owner: OwnerReference = parent.controller_owner_ref(&()).unwrap();
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{}-child", parent.name_any()), "ownerReferences": [owner]},
        "data": parent.data,
    });
    maps(&client)
        .patch(&format!("{}-child", parent.name_any()), &PatchParams::apply("parents"), &Patch::Apply(child))
        .await?;
    Ok(Action::await_change())
}

async fn child(client: &Client, is: impl Fn(&ConfigMap) -> bool) -> ConfigMap {
    soon("the child", async {
        loop {
            if let Some(child) = maps(client).get_opt("p-child").await.unwrap().filter(&is) {
                return child;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_controller_makes_again_what_is_taken_away_and_its_children_go_with_the_owner() {
    let (_server, client) = cluster().await;
    let controller = Controller::new(maps(&client), watcher::Config::default().labels("suite=kube-rs"))
        .owns(maps(&client), watcher::Config::default())
        .run(child_of, |_, error, _| panic!("{error}"), Arc::new(client.clone()))
        .for_each(|_| async {});
    let task = tokio::spawn(controller);
    let parent = create(&client, "p", "1").await;
    let first = child(&client, |_| true).await;
    assert_eq!(first.owner_references()[0].uid, parent.uid().unwrap());
    maps(&client).delete("p-child", &DeleteParams::default()).await.unwrap();
    let second = child(&client, |child| child.uid() != first.uid()).await;
    let patch = json!({"data": {"value": "2"}});
    maps(&client).patch("p", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let third = child(&client, |child| child.data.as_ref().is_some_and(|data| data["value"] == "2")).await;
    assert_eq!(third.uid(), second.uid(), "it is changed, not made anew");
    maps(&client).delete("p", &DeleteParams::default()).await.unwrap();
    let uid = third.uid().unwrap();
    let gone = await_condition(maps(&client), "p-child", conditions::is_deleted(&uid));
    soon("the end of the child", gone).await.unwrap();
    task.abort();
}

#[tokio::test]
async fn a_finalizer_is_there_before_the_work_and_goes_after_the_cleaning() {
    let (_server, client) = cluster().await;
    create(&client, "a", "1").await;
    let (applied, cleaned) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reconcile = async || {
        let object = Arc::new(maps(&client).get("a").await.unwrap());
        finalizer(&maps(&client), "example.com/clean", object, async |event| {
            match event {
                finalizer::Event::Apply(object) => {
                    assert_eq!(object.finalizers(), ["example.com/clean"]);
                    applied.fetch_add(1, Ordering::Relaxed)
                }
                finalizer::Event::Cleanup(object) => {
                    assert!(object.metadata.deletion_timestamp.is_some());
                    cleaned.fetch_add(1, Ordering::Relaxed)
                }
            };
            Ok::<_, std::io::Error>(Action::await_change())
        })
        .await
        .unwrap();
        (applied.load(Ordering::Relaxed), cleaned.load(Ordering::Relaxed))
    };
    assert_eq!(reconcile().await, (0, 0), "first it is held");
    assert_eq!(reconcile().await, (1, 0));
    let deleted = maps(&client).delete("a", &DeleteParams::default()).await.unwrap();
    assert!(deleted.left().unwrap().metadata.deletion_timestamp.is_some(), "it is still there");
    assert_eq!(reconcile().await, (1, 1));
    assert!(maps(&client).get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn events_are_told_and_counted_in_both_groups() {
    let (_server, client) = cluster().await;
    let about = create(&client, "a", "1").await;
    let reporter = Reporter { controller: "suite".to_owned(), instance: Some("suite-1".to_owned()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "Odd".to_owned(),
        note: Some("it is odd".to_owned()),
        action: "Looking".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &about.object_ref(&())).await.unwrap();
    }
    let selected = ListParams::default().fields("regarding.name=a,reason=Odd");
    let new = Api::<events::Event>::namespaced(client.clone(), "default").list(&selected).await.unwrap().items;
    let count = |series: &Option<events::EventSeries>| series.as_ref().map(|series| series.count);
    assert_eq!(new.iter().map(|event| count(&event.series)).collect::<Vec<_>>(), [Some(3)]);
    let selected = ListParams::default().fields("involvedObject.name=a,type=Warning");
    let old = Api::<v1::Event>::namespaced(client.clone(), "default").list(&selected).await.unwrap().items;
    assert_eq!(old[0].message.as_deref(), Some("it is odd"));
    assert_eq!(old[0].series.as_ref().unwrap().count, Some(3));
    assert_eq!(old[0].metadata.uid, new[0].metadata.uid, "one event in two forms");
}

/// Takes the lease for someone, if nobody is faster.
async fn takes(leases: &Api<Lease>, seen: &Lease, who: &str) -> bool {
    let mut mine = seen.clone();
    let spec = mine.spec.get_or_insert_default();
    spec.holder_identity = Some(who.to_owned());
    spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
    match leases.replace("leader", &PostParams::default(), &mine).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn of_all_who_take_a_lease_at_once_one_has_it() {
    let (_server, client) = cluster().await;
    let leases = Api::<Lease>::namespaced(client.clone(), "default");
    let lease = |who: usize| Lease {
        metadata: ObjectMeta { name: Some("leader".to_owned()), ..ObjectMeta::default() },
        spec: object(json!({"holderIdentity": who.to_string(), "leaseDurationSeconds": 1})),
    };
    let make = async |who: usize| match leases.create(&PostParams::default(), &lease(who)).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{error}"),
    };
    let made = futures_util::future::join_all((0..16).map(make)).await;
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "one of those who make it");
    for round in 0..5 {
        let seen = leases.get("leader").await.unwrap();
        let names: Vec<String> = (0..16).map(|who| format!("{round}-{who}")).collect();
        let taken = futures_util::future::join_all(names.iter().map(|who| takes(&leases, &seen, who))).await;
        let winners: Vec<&String> = names.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(who, _)| who).collect();
        let now = leases.get("leader").await.unwrap().spec.unwrap();
        assert_eq!(winners, [now.holder_identity.as_ref().unwrap()]);
        assert_eq!(now.lease_transitions, Some(round + 1));
    }
}
