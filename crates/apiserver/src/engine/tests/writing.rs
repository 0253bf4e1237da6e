//! Creating, updating, patching, binding.

use super::*;

#[tokio::test]
async fn the_server_says_who_an_object_is() {
    let engine = engine().await;
    let mut wanted = pod("p");
    wanted["metadata"]["uid"] = "mine".into();
    wanted["metadata"]["generation"] = 7.into();
    wanted["status"] = json!({"phase": "Running"});
    wanted["spec"]["nonsense"] = true.into();
    let made = create(&engine, "pods", wanted).await.unwrap();
    assert_eq!(made["kind"], "Pod");
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-02T12:00:00Z");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(made["spec"].get("nonsense"), None);
    assert_eq!(read(&engine, "pods", "p"), made);
}

#[tokio::test]
async fn creating_refuses_what_upstream_refuses() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let taken = create(&engine, "configmaps", map("a")).await.unwrap_err();
    assert_eq!((taken.reason, taken.to_string().as_str()), (Reason::AlreadyExists, r#"configmaps "a" already exists"#));
    let config_maps = kind("configmaps");
    let options = WriteOptions::default();
    let lost = engine.create(config_maps, "zzz", map("a"), &options).await.unwrap_err();
    assert_eq!((lost.code(), lost.to_string().as_str()), (404, r#"namespaces "zzz" not found"#));
    let mut elsewhere = map("b");
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(create(&engine, "configmaps", elsewhere).await.unwrap_err().code(), 400);
    let wrong = create(&engine, "configmaps", json!({"kind": "Secret", "metadata": {"name": "x"}})).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::BadRequest);
    let mistyped = create(&engine, "configmaps", json!({"metadata": {"name": "x"}, "data": 3})).await.unwrap_err();
    assert_eq!(mistyped.reason, Reason::BadRequest);
    let invalid =
        create(&engine, "pods", json!({"metadata": {"name": "X"}, "spec": {"containers": []}})).await.unwrap_err();
    assert_eq!(invalid.code(), 422);
    let fields: Vec<&str> = invalid.details.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert!(fields.contains(&"metadata.name") && fields.contains(&"spec.containers"), "{fields:?}");
    assert_eq!(invalid.details.kind, "Pod");
    for bad in
        [json!(null), json!([]), json!({"metadata": 1}), json!({"metadata": {}}), json!({"metadata": {"name": 3}})]
    {
        assert!(matches!(create(&engine, "configmaps", bad).await.unwrap_err().code(), 400 | 422));
    }
}

#[tokio::test]
async fn generated_names_have_the_prefix_and_differ() {
    let engine = engine().await;
    let wanted = json!({"metadata": {"generateName": "web-"}});
    let a = create(&engine, "configmaps", wanted.clone()).await.unwrap();
    let b = create(&engine, "configmaps", wanted).await.unwrap();
    let (a, b) = (a["metadata"]["name"].as_str().unwrap(), b["metadata"]["name"].as_str().unwrap());
    assert!(a.starts_with("web-") && a.len() == 9 && a != b, "{a} {b}");
    let long = create(&engine, "configmaps", json!({"metadata": {"generateName": "x".repeat(80)}})).await.unwrap();
    assert_eq!(long["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[tokio::test]
async fn an_update_based_on_a_passed_revision_is_a_conflict_and_one_based_on_none_is_not() {
    let engine = engine().await;
    let first = create(&engine, "configmaps", map("a")).await.unwrap();
    let mut second = first.clone();
    second["data"]["a"] = "c".into();
    let second = put(&engine, "configmaps", second).await.unwrap();
    assert!(revision(&second) > revision(&first));
    let stale = put(&engine, "configmaps", first.clone()).await.unwrap_err();
    assert_eq!(stale.reason, Reason::Conflict);
    assert!(stale.to_string().contains("the object has been modified"));
    put(&engine, "configmaps", map("a")).await.unwrap();
    let mut other = map("a");
    other["metadata"]["uid"] = "another".into();
    assert_eq!(put(&engine, "configmaps", other).await.unwrap_err().reason, Reason::Conflict);
    assert_eq!(put(&engine, "configmaps", map("nope")).await.unwrap_err().code(), 404);
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.123456Z"}});
    let made = create(&engine, "leases", lease.clone()).await.unwrap();
    assert_eq!(made["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    assert_eq!(put(&engine, "leases", lease).await.unwrap_err().code(), 422);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_no_event() {
    let engine = engine().await;
    let made = create(&engine, "pods", pod("p")).await.unwrap();
    assert_eq!(put(&engine, "pods", made.clone()).await.unwrap(), made);
    let mut unconditional = made.clone();
    unconditional["metadata"].as_object_mut().unwrap().retain(|field, _| field == "name");
    assert_eq!(put(&engine, "pods", unconditional).await.unwrap(), made);
    let patched = merge(&engine, at("pods", "p"), Part::Main, json!({"metadata": {"labels": null}})).await.unwrap();
    assert_eq!(revision(&patched), revision(&made));
    assert_eq!(engine.store().revision(), revision(&made));
}

#[tokio::test]
async fn the_status_is_written_through_its_own_part_and_generation_counts_the_spec_alone() {
    let engine = engine().await;
    let made = create(&engine, "pods", pod("p")).await.unwrap();
    let patch = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}});
    let main = merge(&engine, at("pods", "p"), Part::Main, json!({"status": {"phase": "Running"}})).await.unwrap();
    assert_eq!(main, made);
    let status = merge(&engine, at("pods", "p"), Part::Status, patch).await.unwrap();
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["spec"], made["spec"]);
    assert_eq!(status["metadata"]["generation"], 1);
    assert_eq!(status["metadata"]["labels"], json!({"a": "b"}));
    let image = json!({"spec": {"containers": [{"name": "c", "image": "x:2"}]}});
    let strategic =
        engine.patch(at("pods", "p"), Part::Main, PatchKind::Strategic, &image, &WriteOptions::default()).await;
    let strategic = strategic.unwrap().entry.parse().unwrap();
    assert_eq!(strategic["metadata"]["generation"], 2);
    assert_eq!(strategic["status"]["phase"], "Running");
    let refused =
        merge(&engine, at("pods", "p"), Part::Main, json!({"spec": {"restartPolicy": "Never"}})).await.unwrap_err();
    assert_eq!(refused.code(), 422);
    assert!(refused.to_string().contains("pod updates may not change fields other than"), "{refused}");
}

#[tokio::test]
async fn a_failing_test_of_a_json_patch_is_invalid() {
    let engine = engine().await;
    create(&engine, "configmaps", map("a")).await.unwrap();
    let patch = json!([{"op": "test", "path": "/data/a", "value": "x"}]);
    let refused =
        engine.patch(at("configmaps", "a"), Part::Main, PatchKind::Json, &patch, &WriteOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), 422);
    let patch = json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, patch).await.unwrap_err().code(), 409);
    let rename = json!({"metadata": {"name": "b"}});
    assert_eq!(merge(&engine, at("configmaps", "a"), Part::Main, rename).await.unwrap_err().code(), 400);
}

#[tokio::test]
async fn apply_creates_what_is_not_there_and_conflicts_with_other_owners() {
    let engine = engine().await;
    let options =
        |manager: &str, force| WriteOptions { field_manager: manager.to_owned(), force, ..WriteOptions::default() };
    let config =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let place = at("configmaps", "a");
    let apply = async |value: &str, options: WriteOptions| {
        engine.patch(place, Part::Main, PatchKind::Apply, &config(value), &options).await
    };
    assert_eq!(apply("1", options("", false)).await.unwrap_err().code(), 422);
    let Patched { entry: made, created, .. } = apply("1", options("one", false)).await.unwrap();
    assert!(created);
    assert_eq!(made.parse().unwrap()["metadata"]["managedFields"][0]["manager"], "one");
    let same = apply("1", options("one", false)).await.unwrap();
    assert_eq!((same.entry.revision, same.created), (made.revision, false));
    let conflict = apply("2", options("two", false)).await.unwrap_err();
    assert_eq!((conflict.code(), conflict.details.causes[0].reason.as_str()), (409, "FieldManagerConflict"));
    let taken = apply("2", options("two", true)).await.unwrap();
    assert_eq!(taken.entry.parse().unwrap()["data"]["k"], "2");
    let (patch, edit) = (json!({"data": {"x": "y"}}), options("edit", false));
    let written = engine.patch(place, Part::Main, PatchKind::Merge, &patch, &edit).await.unwrap();
    let managers = written.entry.parse().unwrap()["metadata"]["managedFields"].as_array().unwrap().len();
    // Whose last field was taken owns nothing any more.
    assert_eq!(managers, 2);
}

#[tokio::test]
async fn a_dry_run_answers_and_keeps_nothing() {
    let engine = engine().await;
    let before = engine.store().revision();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let made = engine.create(kind("configmaps"), "default", map("a"), &options).await.unwrap().parse().unwrap();
    assert_eq!(made["metadata"]["name"], "a");
    assert_eq!(engine.store().revision(), before);
    create(&engine, "configmaps", map("a")).await.unwrap();
    let again = engine.create(kind("configmaps"), "default", map("a"), &options).await.unwrap_err();
    assert_eq!(again.reason, Reason::AlreadyExists);
    let mut other = map("a");
    other["data"] = json!({"x": "y"});
    let written = engine.update(at("configmaps", "a"), Part::Main, other, &options).await.unwrap().parse().unwrap();
    assert_eq!(written["data"], json!({"x": "y"}));
    delete(&engine, "configmaps", "a", json!({"dryRun": ["All"]})).await.unwrap();
    assert_eq!(read(&engine, "configmaps", "a")["data"], json!({"a": "b"}));
    assert_eq!(DeleteOptions::parse(&json!({"dryRun": ["Some"]})).unwrap_err().code(), 422);
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let engine = engine().await;
    bound(&engine, "p").await;
    let pod = read(&engine, "pods", "p");
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let again =
        engine.bind(at("pods", "p"), &json!({"target": {"name": "m"}}), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(again.reason, Reason::Conflict);
    assert!(again.to_string().contains("already assigned to node \"n\""), "{again}");
    let nothing = engine.bind(at("pods", "p"), &json!({}), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(nothing.code(), 422);
}

#[tokio::test]
async fn immutable_configuration_stays() {
    let engine = engine().await;
    let mut frozen = map("a");
    frozen["immutable"] = true.into();
    create(&engine, "configmaps", frozen).await.unwrap();
    let place = at("configmaps", "a");
    assert_eq!(merge(&engine, place, Part::Main, json!({"data": {"a": "c"}})).await.unwrap_err().code(), 422);
    assert_eq!(merge(&engine, place, Part::Main, json!({"immutable": false})).await.unwrap_err().code(), 422);
    merge(&engine, place, Part::Main, json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}});
    let secret = create(&engine, "secrets", secret).await.unwrap();
    assert_eq!((&secret["data"]["k"], &secret["type"]), (&json!("dg=="), &json!("Opaque")));
    assert_eq!(secret.get("stringData"), None);
    let other = json!({"type": "kubernetes.io/tls"});
    assert_eq!(merge(&engine, at("secrets", "s"), Part::Main, other).await.unwrap_err().code(), 422);
}
