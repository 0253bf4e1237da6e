//! Deleting: finalizers, preconditions, grace.

use super::*;

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let engine = engine().await;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    create(&engine, "configmaps", held).await.unwrap();
    assert!(matches!(delete(&engine, "configmaps", "a", json!({})).await.unwrap(), Deleted::Going(_)));
    let marked = read(&engine, "configmaps", "a");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-02T12:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(matches!(delete(&engine, "configmaps", "a", json!({})).await.unwrap(), Deleted::Going(_)));
    assert_eq!(revision(&read(&engine, "configmaps", "a")), revision(&marked));
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, more).await.unwrap_err().code(), 422);
    let none = json!({"metadata": {"finalizers": null}});
    merge(&engine, at("configmaps", "a"), Part::Main, none).await.unwrap();
    assert_eq!(engine.get(at("configmaps", "a"), None).unwrap_err().code(), 404);
}

#[tokio::test]
async fn preconditions_name_the_one_that_is_meant() {
    let engine = engine().await;
    let made = create(&engine, "configmaps", map("a")).await.unwrap();
    let wrong = delete(&engine, "configmaps", "a", json!({"preconditions": {"uid": "x"}})).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::Conflict);
    assert!(wrong.to_string().contains("the UID in the precondition (x) does not match"), "{wrong}");
    let wrong = delete(&engine, "configmaps", "a", json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(wrong.unwrap_err().reason, Reason::Conflict);
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"]}, "propagationPolicy": "Background"});
    assert!(matches!(delete(&engine, "configmaps", "a", right).await.unwrap(), Deleted::Gone(_)));
    assert_eq!(delete(&engine, "configmaps", "a", json!({})).await.unwrap_err().code(), 404);
    assert_eq!(DeleteOptions::parse(&json!({"propagationPolicy": "Later"})).unwrap_err().code(), 422);
}

fn grace(engine: &Engine, name: &str) -> i64 {
    read(engine, "pods", name)["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap()
}

#[tokio::test]
async fn a_bound_pod_is_deleted_gracefully_and_only_ever_faster() {
    let engine = engine().await;
    bound(&engine, "p").await;
    assert!(matches!(delete(&engine, "pods", "p", json!({})).await.unwrap(), Deleted::Going(_)));
    assert_eq!(grace(&engine, "p"), 30);
    assert_eq!(read(&engine, "pods", "p")["metadata"]["deletionTimestamp"], "2026-01-02T12:00:30Z");
    delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 60})).await.unwrap();
    assert_eq!(grace(&engine, "p"), 30);
    delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 5})).await.unwrap();
    assert_eq!(grace(&engine, "p"), 5);
    assert_eq!(read(&engine, "pods", "p")["metadata"]["deletionTimestamp"], "2026-01-02T12:00:05Z");
    assert!(matches!(delete(&engine, "pods", "p", json!({"gracePeriodSeconds": 0})).await.unwrap(), Deleted::Gone(_)));
    assert_eq!(engine.get(at("pods", "p"), None).unwrap_err().code(), 404);
}

#[tokio::test]
async fn a_pod_that_nobody_runs_goes_at_once() {
    let engine = engine().await;
    create(&engine, "pods", pod("unbound")).await.unwrap();
    assert!(matches!(delete(&engine, "pods", "unbound", json!({})).await.unwrap(), Deleted::Gone(_)));
    bound(&engine, "done").await;
    merge(&engine, at("pods", "done"), Part::Status, json!({"status": {"phase": "Failed"}})).await.unwrap();
    assert!(matches!(delete(&engine, "pods", "done", json!({})).await.unwrap(), Deleted::Gone(_)));
    bound(&engine, "evicted").await;
    let eviction = json!({"deleteOptions": {"gracePeriodSeconds": 7}});
    engine.evict(at("pods", "evicted"), &eviction, false).await.unwrap();
    assert_eq!(grace(&engine, "evicted"), 7);
}

/// `minke watch` tells a drain from a deletion by it.
#[tokio::test]
async fn a_running_pod_that_is_evicted_says_so() {
    let engine = engine().await;
    let disrupted = |name: &str| {
        let pod = read(&engine, "pods", name);
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        let mark = conditions.into_iter().find(|condition| condition["type"] == "DisruptionTarget");
        mark.map(|mark| (mark["status"].clone(), mark["reason"].clone()))
    };
    for (name, phase) in [("runs", "Running"), ("pends", "Pending")] {
        bound(&engine, name).await;
        merge(&engine, at("pods", name), Part::Status, json!({"status": {"phase": phase}})).await.unwrap();
    }
    let wrong = json!({"deleteOptions": {"preconditions": {"uid": "another"}}});
    assert_eq!(engine.evict(at("pods", "runs"), &wrong, false).await.unwrap_err().reason, Reason::Conflict);
    engine.evict(at("pods", "runs"), &json!({}), true).await.unwrap();
    assert_eq!(disrupted("runs"), None, "nothing is written by a dry run, nor when another one is meant");
    let revision = read(&engine, "pods", "runs")["metadata"]["resourceVersion"].clone();
    let right = json!({"deleteOptions": {"preconditions": {"resourceVersion": revision}}});
    for (name, eviction) in [("runs", right), ("pends", json!({}))] {
        assert!(matches!(engine.evict(at("pods", name), &eviction, false).await.unwrap(), Deleted::Going(_)));
    }
    assert_eq!(disrupted("runs"), Some((json!("True"), json!("EvictionByEvictionAPI"))));
    assert_eq!(disrupted("pends"), None, "nothing is lost with it");
}

/// More than are deleted at a time; one is held, others are not selected.
#[tokio::test]
async fn a_collection_goes_whole_and_nothing_beside_it() {
    let engine = engine().await;
    let names: Vec<String> = (0..100).map(|n| format!("a{n:03}")).collect();
    for name in &names {
        let mut made = map(name);
        made["metadata"]["labels"]["in"] = json!("yes");
        if name == "a050" {
            made["metadata"]["finalizers"] = json!(["example.com/x"]);
        }
        create(&engine, "configmaps", made).await.unwrap();
    }
    create(&engine, "configmaps", map("stays")).await.unwrap();
    let selection = Selection { labels: LabelSelector::parse("in=yes").unwrap(), ..Selection::default() };
    let options = ListOptions { selection, ..ListOptions::default() };
    let mut watch = engine.watch(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!(watch.next().await.unwrap().len(), 100);

    let kind = kind("configmaps");
    let was = engine.delete_collection(kind, Some("default"), &options, &DeleteOptions::default()).await.unwrap();
    assert_eq!(was.entries.len(), 100, "the answer is what they were");
    let left = engine.list(kind, Some("default"), &ListOptions::default()).unwrap();
    let left: Vec<_> = left.entries.iter().map(|entry| entry.parse().unwrap()["metadata"]["name"].clone()).collect();
    assert_eq!(left, ["a050", "stays"]);
    let (mut gone, mut marked, mut revisions) = (Vec::new(), 0, Vec::new());
    while gone.len() + marked < 100 {
        for item in watch.next().await.unwrap() {
            let (WatchItem::Deleted(entry) | WatchItem::Modified(entry)) = &item else { panic!("{item:?}") };
            revisions.push(entry.revision);
            match item {
                WatchItem::Deleted(_) => {
                    gone.push(entry.parse().unwrap()["metadata"]["name"].as_str().unwrap().to_owned())
                }
                _ => marked += 1,
            }
        }
    }
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
    gone.sort_unstable();
    assert!(gone.iter().eq(names.iter().filter(|name| *name != "a050")), "each is told once: {gone:?}");
}
