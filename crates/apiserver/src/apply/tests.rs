//! Ownership as a whole: what upstream does, case by case, and laws that hold for any objects.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::patch::tests::any_pod;
use crate::schema::builtin;

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";

fn kind() -> Kind {
    builtin().kind("v1", "Pod").unwrap()
}

fn writer<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, api_version: "v1", subresource: "", ignored: &[], now }
}

fn named(mut object: Value) -> Value {
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    object["metadata"]["name"] = "p".into();
    object
}

fn applied(live: &Value, manager: &str, config: Value, force: bool) -> Result<Value, ApplyError> {
    apply(builtin(), &kind(), live, &named(config), &writer(manager, NOW), force)
}

/// The object after a plain write, `uid` given as a server does.
fn written(live: &Value, manager: &str, new: Value) -> Value {
    let mut object = track(builtin(), &kind(), live, named(new), &writer(manager, NOW));
    object["metadata"]["uid"] = "u".into();
    object
}

/// What a manager owns.
fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().find(|entry| entry["manager"] == manager).map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn labels(pairs: &[(&str, &str)]) -> Value {
    json!({"metadata": {"labels": pairs.iter().copied().collect::<std::collections::BTreeMap<_, _>>()}})
}

#[test]
fn an_apply_creates_and_owns_what_it_sends() {
    let object = applied(
        &Value::Null,
        "a",
        json!({"metadata": {"labels": {"x": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        false,
    )
    .unwrap();
    assert_eq!(object["spec"]["containers"], json!([{"name": "c", "image": "i"}]));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:x": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}},
            },
        }])
    );
}

#[test]
fn a_create_owns_what_differs_from_an_empty_object() {
    let pod = json!({"metadata": {"labels": {"x": "1"}}, "spec": {"containers": [{"name": "c", "resources": {}}], "nodeName": "n"}});
    let object = written(&Value::Null, "kubectl-create", pod);
    assert_eq!(
        owned(&object, "kubectl-create"),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:resources": {}}},
                "f:nodeName": {},
            },
        })
    );
}

#[test]
fn what_an_applier_no_longer_sends_goes() {
    let first = applied(&Value::Null, "a", labels(&[("x", "1"), ("y", "1")]), false).unwrap();
    let second = applied(&first, "a", labels(&[("x", "1")]), false).unwrap();
    assert_eq!(second["metadata"]["labels"], json!({"x": "1"}));
    let none = applied(&second, "a", json!({}), false).unwrap();
    assert_eq!(none["metadata"].get("labels"), None);
    assert_eq!(none["metadata"].get("managedFields"), None);
}

#[test]
fn what_somebody_else_owns_too_stays() {
    let first = applied(&Value::Null, "a", labels(&[("x", "1"), ("y", "1")]), false).unwrap();
    let both = applied(&first, "b", labels(&[("y", "1")]), false).unwrap();
    let left = applied(&both, "a", labels(&[("x", "1")]), false).unwrap();
    assert_eq!(left["metadata"]["labels"], json!({"x": "1", "y": "1"}));
    let gone = applied(&left, "b", json!({}), false).unwrap();
    assert_eq!(gone["metadata"]["labels"], json!({"x": "1"}));
}

#[test]
fn entries_of_lists_go_with_what_only_their_applier_owned() {
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let spec = |containers: &[Value]| json!({"spec": {"containers": containers}});
    let first = applied(&Value::Null, "a", spec(&[container("c", "1"), container("d", "1")]), false).unwrap();
    let other = applied(&first, "b", json!({"spec": {"containers": [{"name": "c", "tty": true}]}}), false).unwrap();
    let gone = applied(&other, "a", json!({}), false).unwrap();
    assert_eq!(gone["spec"], json!({"containers": [{"name": "c", "tty": true}]}));
}

#[test]
fn changing_what_another_owns_is_a_conflict_with_upstreams_words() {
    let live = applied(&Value::Null, "a", labels(&[("x", "1"), ("y", "1")]), false).unwrap();
    let Err(ApplyError::Conflicts { message, causes }) = applied(&live, "b", labels(&[("x", "2")]), false) else {
        panic!()
    };
    assert_eq!(message, r#"Apply failed with 1 conflict: conflict with "a": .metadata.labels.x"#);
    assert_eq!(causes, [Cause::new("FieldManagerConflict", r#"conflict with "a""#, ".metadata.labels.x")]);
    let Err(error) = applied(&live, "b", labels(&[("x", "2"), ("y", "2")]), false) else { panic!() };
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .metadata.labels.x\n- .metadata.labels.y"
    );
    let status = ApiError::from(error).to_status();
    assert_eq!((status["code"].clone(), status["reason"].clone()), (json!(409), json!("Conflict")));
    let live = written(&Value::Null, "kubectl-edit", labels(&[("x", "1")]));
    let Err(error) = applied(&live, "b", labels(&[("x", "2")]), false) else { panic!() };
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .metadata.labels.x"#
    );
}

#[test]
fn force_takes_the_field_over() {
    let live = applied(&Value::Null, "a", labels(&[("x", "1"), ("y", "1")]), false).unwrap();
    let object = applied(&live, "b", labels(&[("x", "2")]), true).unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"x": "2", "y": "1"}));
    assert_eq!(owned(&object, "a"), json!({"f:metadata": {"f:labels": {"f:y": {}}}}));
    assert_eq!(owned(&object, "b"), json!({"f:metadata": {"f:labels": {"f:x": {}}}}));
}

#[test]
fn the_same_value_is_shared_without_a_conflict() {
    let live = applied(&Value::Null, "a", labels(&[("x", "1")]), false).unwrap();
    let object = applied(&live, "b", labels(&[("x", "1")]), false).unwrap();
    assert_eq!(owned(&object, "a"), owned(&object, "b"));
}

#[test]
fn a_plain_write_takes_what_it_changes_and_no_more() {
    let live = applied(&Value::Null, "a", labels(&[("x", "1"), ("y", "1")]), false).unwrap();
    let object = written(&live, "edit", labels(&[("x", "2"), ("y", "1")]));
    assert_eq!(owned(&object, "a"), json!({"f:metadata": {"f:labels": {"f:y": {}}}}));
    assert_eq!(owned(&object, "edit"), json!({"f:metadata": {"f:labels": {"f:x": {}}}}));
    let removed = written(&object, "edit", json!({}));
    assert_eq!(removed["metadata"].get("managedFields"), None);
}

#[test]
fn a_write_that_changes_nothing_keeps_the_entries_and_their_times() {
    let live = written(&Value::Null, "create", labels(&[("x", "1")]));
    let same = track(builtin(), &kind(), &live, live.clone(), &writer("other", LATER));
    assert_eq!(same, live);
    let live = applied(&Value::Null, "a", labels(&[("x", "1")]), false).unwrap();
    let again = apply(builtin(), &kind(), &live, &named(labels(&[("x", "1")])), &writer("a", LATER), false).unwrap();
    assert_eq!(again, live);
}

#[test]
fn objects_that_nobody_tracked_belong_to_before_first_apply() {
    let untracked = named(json!({"metadata": {"uid": "u", "labels": {"x": "1"}}}));
    let still = track(builtin(), &kind(), &untracked, untracked.clone(), &writer("edit", NOW));
    assert_eq!(still["metadata"].get("managedFields"), None);
    let Err(error) = applied(&untracked, "a", labels(&[("x", "2")]), false) else { panic!() };
    assert!(error.to_string().contains("\"before-first-apply\" using v1: .metadata.labels.x"), "{error}");
    let object = applied(&untracked, "a", labels(&[("y", "1")]), false).unwrap();
    assert_eq!(owned(&object, "before-first-apply"), json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_itself_before() {
    let mut pod = named(labels(&[("x", "1")]));
    let last = pod.to_string();
    pod["metadata"]["annotations"] = json!({LAST_APPLIED: last});
    let live = written(&Value::Null, "kubectl-client-side-apply", pod);
    let object = applied(&live, "kubectl", labels(&[("x", "2")]), false).unwrap();
    assert_eq!(object["metadata"]["labels"]["x"], "2");
    assert!(matches!(applied(&live, "other", labels(&[("x", "2")]), false), Err(ApplyError::Conflicts { .. })));
    let mut edited = live.clone();
    edited["metadata"]["labels"]["x"] = "3".into();
    let edited = track(builtin(), &kind(), &live, edited, &writer("edit", NOW));
    assert!(matches!(applied(&edited, "kubectl", labels(&[("x", "2")]), false), Err(ApplyError::Conflicts { .. })));
}

#[test]
fn a_subresource_has_an_entry_of_its_own_and_can_not_write_entries() {
    let live = written(&Value::Null, "create", json!({"spec": {"nodeName": "n"}, "status": {}}));
    let mut new = live.clone();
    new["status"] = json!({"phase": "Running"});
    new["metadata"]["managedFields"] = json!([]);
    let status = Writer { subresource: "status", ignored: &[&["spec"]], ..writer("kubelet", NOW) };
    let object = track(builtin(), &kind(), &live, new, &status);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    let of_status = entries.iter().find(|entry| entry["subresource"] == "status").unwrap();
    assert_eq!(of_status["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

#[test]
fn ignored_fields_are_nobodys() {
    let ignoring = Writer { ignored: &[&["status"]], ..writer("a", NOW) };
    let config = named(json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}));
    let object = apply(builtin(), &kind(), &Value::Null, &config, &ignoring, false).unwrap();
    assert_eq!(owned(&object, "a"), json!({"f:spec": {"f:nodeName": {}}}));
}

#[test]
fn entries_can_be_forgotten_and_edited_by_a_write() {
    let live = applied(&Value::Null, "a", labels(&[("x", "1")]), false).unwrap();
    for forget in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = forget;
        let object = track(builtin(), &kind(), &live, new, &writer("edit", NOW));
        assert_eq!(object["metadata"].get("managedFields"), None);
    }
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["manager"] = "renamed".into();
    let object = track(builtin(), &kind(), &live, new.clone(), &writer("edit", NOW));
    assert_eq!(owned(&object, "a"), Value::Null);
    assert!(owned(&object, "renamed").is_object());
    new["metadata"]["managedFields"] = json!("nonsense");
    let object = track(builtin(), &kind(), &live, new, &writer("edit", NOW));
    assert!(owned(&object, "a").is_object());
}

#[test]
fn what_may_not_be_applied_is_refused() {
    let untyped = applied(&Value::Null, "a", json!({"metadata": {"namespace": "default"}, "spec": {"foo": 1}}), false)
        .unwrap_err();
    assert_eq!(
        untyped.to_string(),
        "failed to create typed patch object (default/p; /v1, Kind=Pod): .spec.foo: field not declared in schema"
    );
    let config = json!({"metadata": {"managedFields": [{"manager": "x"}]}});
    assert_eq!(applied(&Value::Null, "a", config, false), Err(ApplyError::ManagedFields));
}

#[test]
fn entries_of_another_group_never_conflict_and_stay() {
    let types = builtin();
    let core = types.kind("v1", "Event").unwrap();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "A"});
    let new = Writer { api_version: "events.k8s.io/v1", ..writer("a", NOW) };
    let live = track(types, &core, &Value::Null, event.clone(), &new);
    let mut config = event;
    config["reason"] = "B".into();
    let object = apply(types, &core, &live, &config, &writer("b", NOW), false).unwrap();
    assert_eq!(object["reason"], "B");
    assert!(owned(&object, "a").is_object() && owned(&object, "b").is_object());
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(live in any_pod(), config in any_pod()) {
        let live = written(&Value::Null, "create", live);
        let once = applied(&live, "a", config.clone(), true).unwrap();
        let twice = apply(builtin(), &kind(), &once, &named(config), &writer("a", LATER), false).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn nobody_loses_a_field_that_another_owns(a in any_pod(), b in any_pod()) {
        let first = applied(&Value::Null, "a", a.clone(), false).unwrap();
        if let Ok(second) = applied(&first, "b", b, false) {
            prop_assert_eq!(owned(&second, "a"), owned(&first, "a"));
            // The second takes everything back: what the first sent is all there, and only it.
            let third = applied(&second, "b", json!({}), false).unwrap();
            let kept = applied(&third, "a", a, false).unwrap();
            prop_assert_eq!(owned(&kept, "a"), owned(&first, "a"));
            // By fields: nobody owns an empty list of entries, here as upstream, and so it may have gone.
            let fields = |object| walk::fields_of(builtin(), &kind(), object);
            prop_assert_eq!(fields(&kept), fields(&third));
            prop_assert_eq!(owned(&third, "b"), Value::Null);
        }
    }

    #[test]
    fn what_was_applied_is_there(live in any_pod(), config in any_pod()) {
        let live = written(&Value::Null, "create", live);
        let object = applied(&live, "a", config.clone(), true).unwrap();
        let kind = kind();
        let place = Place { types: builtin(), kind: &kind };
        let missing = place.fields(&config).difference(&place.named(&place.fields(&object)));
        prop_assert!(missing.is_empty(), "{:?}", missing.to_json());
        let changes = walk::changes(builtin(), &kind, &object, &config);
        prop_assert!(changes.modified.is_empty() && changes.added.is_empty(), "{changes:?}");
    }

    #[test]
    fn conflicts_are_the_fields_whose_values_would_change(a in any_pod(), b in any_pod()) {
        let live = applied(&Value::Null, "a", a, false).unwrap();
        let forced = applied(&live, "b", b.clone(), true).unwrap();
        let lost = owned(&forced, "a") != owned(&live, "a");
        let conflicts = matches!(applied(&live, "b", b, false), Err(ApplyError::Conflicts { .. }));
        prop_assert_eq!(conflicts, lost);
    }

    #[test]
    fn every_changed_field_has_exactly_its_writer(old in any_pod(), new in any_pod()) {
        let live = written(&Value::Null, "create", old);
        let object = written(&live, "edit", new);
        let mut stripped = (live.clone(), object.clone());
        managed::take(&mut stripped.0);
        managed::take(&mut stripped.1);
        let changes = walk::changes(builtin(), &kind(), &stripped.0, &stripped.1);
        let changed = changes.set();
        let read = |manager| FieldSet::from_json(&owned(&object, manager)).unwrap_or_default();
        prop_assert!(read("create").intersection(&changed.union(&changes.removed)).is_empty());
        prop_assert_eq!(read("edit"), changed.difference(&paths(&UNOWNED)));
        // Who created it keeps all the rest.
        let created = FieldSet::from_json(&owned(&live, "create")).unwrap_or_default();
        prop_assert_eq!(read("create"), created.difference(&changed.union(&changes.removed)));
    }
}
