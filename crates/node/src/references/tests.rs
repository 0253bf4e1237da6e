use super::*;
use minke_core::identity::PodUid;

fn pod(value: &serde_json::Value) -> Pod {
    serde_json::from_value(serde_json::json!({"spec": value})).unwrap()
}

fn key(name: &str) -> PodKey {
    PodKey::new("ns", name, PodUid::new(name).unwrap())
}

fn map(name: &str) -> ObjectRef {
    ObjectRef { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: name.to_owned() }
}

fn with_map(name: &str) -> Pod {
    pod(&serde_json::json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": name}}]}]}))
}

/// Follows in a cluster without services, and says what else is watched.
fn follow(references: &mut References, key: &PodKey, pod: &Pod) -> Watches {
    let mut watches = references.follow(key, pod);
    for reference in watches.start.extract_if(.., |reference| reference.kind == ObjectKind::Services) {
        references.learned(&reference, Known::Services([].into()));
    }
    watches
}

#[test]
fn every_place_that_refers_is_found() {
    let pod = pod(&serde_json::json!({
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "m1"}}, {"secretRef": {"name": "s1"}}]}],
        "containers": [{"name": "c", "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m2", "key": "k"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
        ]}],
        "volumes": [
            {"name": "a", "configMap": {"name": "m3"}},
            {"name": "b", "secret": {"secretName": "s3"}},
            {"name": "c", "projected": {"sources": [{"configMap": {"name": "m4"}}, {"secret": {"name": "s4"}}]}},
        ],
        "imagePullSecrets": [{"name": "s5"}],
    }));
    let names: Vec<String> = references(&"ns".into(), &pod).into_iter().map(|r| r.name).collect();
    assert_eq!(names, ["m1", "m2", "m3", "m4", "s1", "s2", "s3", "s4", "s5"]);
}

#[test]
fn only_what_is_referred_to_is_watched_and_only_once() {
    let mut references = References::default();
    assert_eq!(follow(&mut references, &key("a"), &with_map("m")).start, [map("m")]);
    assert_eq!(follow(&mut references, &key("b"), &with_map("m")), Watches::default());
    assert_eq!(references.leave(&key("a")), Watches::default());
    assert_eq!(references.leave(&key("b")).stop[0], map("m"));
    assert_eq!(references.followed(), 0);
}

#[test]
fn a_pod_that_refers_to_something_else_follows_that() {
    let mut references = References::default();
    follow(&mut references, &key("a"), &with_map("old"));
    let watches = follow(&mut references, &key("a"), &with_map("new"));
    assert_eq!((watches.start, watches.stop), (vec![map("new")], vec![map("old")]));
}

#[test]
fn r11_what_was_not_asked_for_yet_is_pending_and_not_absent() {
    let mut references = References::default();
    follow(&mut references, &key("a"), &with_map("m"));
    assert!(!references.ready(&key("a")));
    assert_eq!(references.learned(&map("m"), Known::Absent), [key("a")]);
    assert!(references.ready(&key("a")));
}

#[test]
fn r2_late_arrivals_wake_those_who_wait_for_them() {
    let mut references = References::default();
    follow(&mut references, &key("a"), &with_map("m"));
    follow(&mut references, &key("b"), &with_map("other"));
    references.learned(&map("m"), Known::Absent);
    let mut late = ConfigMap::default();
    (late.metadata.namespace, late.metadata.name) = (Some("ns".to_owned()), Some("m".to_owned()));
    let known = Known::ConfigMap(Arc::new(late));
    assert_eq!(references.learned(&map("m"), known.clone()), [key("a")]);
    assert_eq!(references.learned(&map("m"), known), [], "the same again is no news");
    assert!(references.objects(&key("a")).config_map("ns", "m").is_some());
    assert_eq!(references.learned(&map("nobody's"), Known::Absent), []);
}

#[test]
fn tokens_are_wanted_for_each_pod_audience_and_lifetime_and_reach_its_objects() {
    let source = |token: serde_json::Value| serde_json::json!({"serviceAccountToken": token});
    let pod = pod(&serde_json::json!({"serviceAccountName": "robot", "containers": [], "volumes": [
        {"name": "a", "projected": {"sources": [
            source(serde_json::json!({"path": "own"})),
            source(serde_json::json!({"path": "vault", "audience": "vault", "expirationSeconds": 600})),
        ]}},
        {"name": "b", "projected": {"sources": [source(serde_json::json!({"path": "own"}))]}},
    ]}));
    let (mut references, key) = (References::default(), key("p"));
    let watches = follow(&mut references, &key, &pod);
    assert_eq!(watches.start.len(), 2, "what two volumes want is asked for once");
    assert!(watches.start.iter().all(|reference| reference.name == "robot") && !references.ready(&key));
    for reference in &watches.start {
        let ObjectKind::Token(wanted) = &reference.kind else { panic!("{reference:?}") };
        let token = Known::Token(format!("token for {:?}", wanted.audience).into());
        assert!(!format!("{token:?}").contains("token for"));
        assert_eq!(references.learned(reference, token), std::slice::from_ref(&key));
    }
    assert!(references.ready(&key));
    let objects = references.objects(&key);
    assert_eq!(objects.token("vault", 600), Some("token for \"vault\""));
    assert_eq!(objects.token("", 3600), Some("token for \"\""));
    let stopped = references.leave(&key).stop;
    assert_eq!(stopped.iter().filter(|reference| reference.kind != ObjectKind::Services).count(), 2);
}

fn service(namespace: &str, name: &str) -> Service {
    let value = serde_json::json!({
        "metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 443}]},
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn services_are_waited_for_once_and_then_no_news() {
    let mut references = References::default();
    let linked = pod(&serde_json::json!({"containers": []}));
    let alone = pod(&serde_json::json!({"containers": [], "enableServiceLinks": false}));
    let of = |namespace: &str, name: &str| ObjectRef {
        kind: ObjectKind::Services,
        namespace: namespace.into(),
        name: name.to_owned(),
    };
    assert_eq!(references.follow(&key("a"), &linked).start, [of("default", "kubernetes"), of("ns", "")]);
    assert_eq!(references.follow(&key("b"), &alone), Watches::default());
    let known = |services: Vec<Service>| Known::Services(services.into());
    assert_eq!(references.learned(&of("ns", ""), known(vec![service("ns", "web")])), [key("a")]);
    assert!(!references.ready(&key("a")), "the API's own is not known yet");
    let both = references.learned(&of("default", "kubernetes"), known(vec![service("default", "kubernetes")]));
    assert_eq!(both, [key("a"), key("b")]);
    assert!(references.ready(&key("a")) && references.ready(&key("b")));
    let told = |references: &References, name: &str| {
        let all = references.objects(&key(name)).service_env().keys().cloned().collect::<Vec<_>>();
        all.into_iter().filter(|name| name.ends_with("_SERVICE_HOST")).collect::<Vec<_>>()
    };
    assert_eq!(told(&references, "a"), ["KUBERNETES_SERVICE_HOST", "WEB_SERVICE_HOST"]);
    assert_eq!(told(&references, "b"), ["KUBERNETES_SERVICE_HOST"]);
    // What runs keeps the environment that it has.
    assert_eq!(references.learned(&of("ns", ""), known(vec![])), []);
    assert_eq!(told(&references, "a"), ["KUBERNETES_SERVICE_HOST"]);
}
