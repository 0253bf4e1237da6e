//! What a server does by itself.

use super::*;

/// Waits until the object is gone.
async fn gone(engine: &Engine, place: Place<'_>) {
    let mut revisions = engine.store.shared.revisions();
    while engine.get(place, None).is_ok() {
        revisions.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let engine = engine().await;
    let place = Place { kind: kind("namespaces"), namespace: "", name: "n" };
    let made = create(&engine, "namespaces", json!({"metadata": {"name": "n"}})).await.unwrap();
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!((&made["spec"]["finalizers"], &made["status"]["phase"]), (&json!(["kubernetes"]), &json!("Active")));
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    engine.create(kind("configmaps"), "n", held, &WriteOptions::default()).await.unwrap();
    engine.create(kind("pods"), "n", pod("p"), &WriteOptions::default()).await.unwrap();
    engine.delete(place, &DeleteOptions::default()).await.unwrap();
    let refused = engine.create(kind("configmaps"), "n", map("late"), &WriteOptions::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.details.causes[0].reason.as_str()), (403, "NamespaceTerminating"));
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    gone(&engine, Place { kind: kind("pods"), namespace: "n", name: "p" }).await;
    let config_map = Place { kind: kind("configmaps"), namespace: "n", name: "held" };
    assert_eq!(engine.get(place, None).unwrap().attributes.field("status.phase"), "Terminating");
    merge(&engine, config_map, Part::Main, json!({"metadata": {"finalizers": null}})).await.unwrap();
    gone(&engine, place).await;
    care.abort();
    let immortal = Place { name: "default", ..place };
    let refused = engine.delete(immortal, &DeleteOptions::default()).await.unwrap_err();
    assert!(refused.code() == 403 && refused.to_string().contains("this namespace may not be deleted"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_owner_before_it_or_not_at_all_as_the_policy_says() {
    let engine = engine().await;
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    for (policy, stays) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let owner = create(&engine, "configmaps", map("owner")).await.unwrap();
        let mut dependent = map("dependent");
        dependent["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        }]);
        create(&engine, "configmaps", dependent).await.unwrap();
        delete(&engine, "configmaps", "owner", json!({"propagationPolicy": policy})).await.unwrap();
        gone(&engine, at("configmaps", "owner")).await;
        if stays {
            assert_eq!(read(&engine, "configmaps", "dependent")["metadata"].get("ownerReferences"), None);
        } else {
            gone(&engine, at("configmaps", "dependent")).await;
        }
    }
    care.abort();
}

#[tokio::test]
async fn the_servers_own_service_is_there_after_every_start() {
    let engine = engine().await;
    for port in [6443, 6443, 7443] {
        engine.announce(port).await.unwrap();
        assert_eq!(read(&engine, "services", "kubernetes")["spec"]["ports"][0]["targetPort"], port);
    }
}
