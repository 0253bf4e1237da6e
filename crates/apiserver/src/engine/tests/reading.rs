//! Getting and listing.

use super::*;

#[tokio::test]
async fn lists_come_in_parts_of_one_picture() {
    let engine = engine().await;
    for name in ["a", "b", "c", "d", "e"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let mut options = ListOptions { limit: Some(2), ..ListOptions::default() };
    let first = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "b".to_owned()], Some(3)));
    delete(&engine, "configmaps", "c", json!({})).await.unwrap();
    create(&engine, "configmaps", map("bb")).await.unwrap();
    options.continue_token = first.continue_token;
    let second = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&second), second.revision), (vec!["c".to_owned(), "d".to_owned()], first.revision));
    options.continue_token = second.continue_token;
    let third = engine.list(kind("configmaps"), Some("default"), &options).unwrap();
    assert_eq!((names(&third), third.continue_token.as_str(), third.remaining), (vec!["e".to_owned()], "", None));
    options.continue_token = "rubbish".to_owned();
    assert_eq!(engine.list(kind("configmaps"), None, &options).unwrap_err().code(), 400);
}

#[tokio::test]
async fn a_continue_token_whose_picture_is_forgotten_brings_one_that_goes_on_without() {
    let store = Store::in_memory(HistoryLimits { events: 3, bytes: 1 << 20 });
    let engine = Engine::new(store, Arc::new(Noon));
    engine.prepare().await.unwrap();
    for name in ["a", "b", "c"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let mut options = ListOptions { limit: Some(1), ..ListOptions::default() };
    options.continue_token = engine.list(kind("configmaps"), None, &options).unwrap().continue_token;
    for name in ["x", "y", "z", "zz"] {
        create(&engine, "configmaps", map(name)).await.unwrap();
    }
    let expired = engine.list(kind("configmaps"), None, &options).unwrap_err();
    assert_eq!((expired.code(), expired.reason), (410, Reason::Expired));
    options.continue_token = expired.to_status()["metadata"]["continue"].as_str().unwrap().to_owned();
    options.limit = None;
    let rest = engine.list(kind("configmaps"), None, &options).unwrap();
    assert_eq!(names(&rest), ["b", "c", "x", "y", "z", "zz"]);
}

#[tokio::test]
async fn revisions_of_lists_mean_what_they_mean_upstream() {
    let engine = engine().await;
    let a = revision(&create(&engine, "configmaps", map("a")).await.unwrap());
    create(&engine, "configmaps", map("b")).await.unwrap();
    let list = |revision: Option<u64>, revision_match, limit| {
        let options = ListOptions { resource_version: revision, revision_match, limit, ..ListOptions::default() };
        engine.list(kind("configmaps"), None, &options)
    };
    assert_eq!(names(&list(None, None, None).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(Some(0), None, Some(500)).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(Some(a), Some(RevisionMatch::NotOlderThan), None).unwrap()), ["a", "b"]);
    let exact = list(Some(a), Some(RevisionMatch::Exact), None).unwrap();
    assert_eq!((names(&exact), exact.revision), (vec!["a".to_owned()], a));
    assert_eq!(names(&list(Some(a), None, Some(5)).unwrap()), ["a"]);
    let future = list(Some(a + 100), None, None).unwrap_err();
    assert_eq!((future.code(), future.details.retry_after_seconds), (504, 1));
    assert_eq!(future.details.causes[0].reason, "ResourceVersionTooLarge");
    assert_eq!(list(None, Some(RevisionMatch::Exact), None).unwrap_err().code(), 422);
    assert_eq!(list(Some(0), Some(RevisionMatch::Exact), None).unwrap_err().code(), 422);
}
