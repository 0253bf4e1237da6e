//! Watches.

use super::*;

fn told(items: &[WatchItem]) -> Vec<String> {
    let name = |entry: &Entry| entry.parse().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let tell = |item: &WatchItem| match item {
        WatchItem::Added(entry) => format!("+{}", name(entry)),
        WatchItem::Modified(entry) => format!("~{}", name(entry)),
        WatchItem::Deleted(entry) => format!("-{}", name(entry)),
        WatchItem::Bookmark { initial_end, .. } => if *initial_end { "|" } else { "." }.to_owned(),
        WatchItem::Error(error) => error.code().to_string(),
    };
    items.iter().map(tell).collect()
}

#[tokio::test]
async fn a_watch_of_a_selection_sees_objects_come_and_go() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let selection = Selection { labels: LabelSelector::parse("app=a").unwrap(), ..Selection::default() };
    let options = ListOptions { selection, ..ListOptions::default() };
    let mut watch = engine.watch(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!(told(&watch.next().await.unwrap()), ["+a"]);
    let place = at("configmaps", "a");
    create(&engine, "configmaps", map("b")).await.unwrap();
    merge(&engine, place, Part::Main, json!({"data": {"x": "y"}})).await.unwrap();
    let out = merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"app": "z"}}})).await.unwrap();
    merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"app": "a"}}})).await.unwrap();
    delete(&engine, "configmaps", "a", json!({})).await.unwrap();
    let items = watch.next().await.unwrap();
    assert_eq!(told(&items), ["~a", "-a", "+a", "-a"]);
    // What leaves is told as it was inside, at the revision at which it left.
    let WatchItem::Deleted(left) = &items[1] else { panic!("{items:?}") };
    let left = left.parse().unwrap();
    assert_eq!((&left["metadata"]["labels"]["app"], revision(&left)), (&json!("a"), revision(&out)));
    let WatchItem::Deleted(gone) = &items[3] else { panic!("{items:?}") };
    assert_eq!(gone.revision, engine.store().revision());
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_ends_its_beginning_with_a_bookmark_and_sends_more_while_nothing_happens() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let watch = WatchOptions { bookmarks: true, initial_events: Some(true), timeout_seconds: Some(150) };
    let revision_match = Some(RevisionMatch::NotOlderThan);
    let options = ListOptions { watch, revision_match, ..ListOptions::default() };
    let mut watch = engine.watch(kind("configmaps"), None, &options).unwrap();
    assert_eq!(told(&watch.next().await.unwrap()), ["+a", "|"]);
    // Another resource's changes move the bookmark, too.
    create(&engine, "secrets", json!({"metadata": {"name": "s"}})).await.unwrap();
    let start = tokio::time::Instant::now();
    let items = watch.next().await.unwrap();
    assert_eq!(items, [WatchItem::Bookmark { revision: engine.store().revision(), initial_end: false }]);
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(told(&watch.next().await.unwrap()), ["."]);
    assert_eq!(told(&watch.next().await.unwrap()), ["."]);
    assert_eq!(start.elapsed().as_secs(), 148);
    assert_eq!(watch.next().await, None);
    assert_eq!(start.elapsed().as_secs(), 150);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watches_that_would_miss_something_are_refused() {
    let store = Store::in_memory(HistoryLimits { events: 2, bytes: 1 << 20 });
    let engine = Engine::new(store, Arc::new(Noon));
    engine.prepare().await.unwrap();
    let watch = |revision, options: WatchOptions, revision_match| {
        let options =
            ListOptions { resource_version: revision, watch: options, revision_match, ..ListOptions::default() };
        engine.watch(kind("configmaps"), None, &options)
    };
    let a = revision(&create(&engine, "configmaps", map("a")).await.unwrap());
    let mut slow = watch(Some(a), WatchOptions::default(), None).unwrap();
    for name in ["b", "c", "d", "e"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let old = watch(Some(a), WatchOptions::default(), None).unwrap_err();
    assert_eq!((old.code(), old.reason), (410, Reason::Expired));
    assert!(old.to_string().starts_with(&format!("too old resource version: {a} (")), "{old}");
    assert_eq!(told(&slow.next().await.unwrap()), ["410"]);
    assert_eq!(slow.next().await, None);
    assert_eq!(watch(Some(9999), WatchOptions::default(), None).unwrap_err().code(), 504);
    let initial = |bookmarks| WatchOptions { bookmarks, initial_events: Some(true), timeout_seconds: None };
    assert_eq!(watch(None, initial(true), None).unwrap_err().code(), 422);
    assert_eq!(watch(None, initial(false), Some(RevisionMatch::NotOlderThan)).unwrap_err().code(), 422);
    assert_eq!(watch(None, WatchOptions::default(), Some(RevisionMatch::NotOlderThan)).unwrap_err().code(), 422);
}
