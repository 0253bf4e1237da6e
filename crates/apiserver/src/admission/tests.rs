//! Each plugin by its effect on a Pod.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Facts, admit};

#[derive(Default)]
struct Objects {
    objects: HashMap<(String, String), Value>,
    priority: Option<Value>,
    tokens: bool,
}

impl Facts for Objects {
    fn find(&self, plural: &str, name: &str) -> Option<Value> {
        self.objects.get(&(plural.to_owned(), name.to_owned())).cloned()
    }

    fn default_priority(&self) -> Option<Value> {
        self.priority.clone()
    }

    fn mounts_tokens(&self) -> bool {
        self.tokens
    }

    fn suffix(&self) -> String {
        "abcde".to_owned()
    }
}

impl Objects {
    fn new(objects: &[(&str, &str, Value)]) -> Self {
        let mut all = Self { tokens: true, ..Self::default() };
        all.add("serviceaccounts", "default", json!({}));
        for (plural, name, object) in objects {
            all.add(plural, name, object.clone());
        }
        all
    }

    fn add(&mut self, plural: &str, name: &str, object: Value) {
        self.objects.insert((plural.to_owned(), name.to_owned()), object);
    }
}

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c"}]);
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
}

fn admitted(spec: Value, facts: &Objects) -> Value {
    let mut pod = pod(spec);
    admit(&mut pod, facts).unwrap();
    pod["spec"].clone()
}

fn refused(spec: Value, facts: &Objects) -> String {
    admit(&mut pod(spec), facts).unwrap_err()
}

#[test]
fn a_plain_pod_gets_an_account_a_token_priority_and_tolerations() {
    let spec = admitted(json!({}), &Objects::new(&[]));
    assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
    let mount = json!({
        "name": "kube-api-access-abcde", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    });
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(spec["volumes"][0]["name"], "kube-api-access-abcde");
    let sources = spec["volumes"][0]["projected"]["sources"].as_array().unwrap();
    assert_eq!(sources[0], json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}));
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    let keys: Vec<&str> = spec["tolerations"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    // A second time changes nothing.
    assert_eq!(admitted(spec.clone(), &Objects::new(&[]))["tolerations"], spec["tolerations"]);
}

#[test]
fn automount_of_the_pod_counts_before_that_of_its_account() {
    let account = |automount: bool| {
        Objects::new(&[("serviceaccounts", "sa", json!({"automountServiceAccountToken": automount}))])
    };
    let mounts = |own: Value, account: &Objects| {
        let spec = admitted(json!({"serviceAccountName": "sa", "automountServiceAccountToken": own}), account);
        spec["containers"][0]["volumeMounts"].is_array()
    };
    assert!(mounts(Value::Null, &account(true)) && !mounts(Value::Null, &account(false)));
    assert!(mounts(json!(true), &account(false)) && !mounts(json!(false), &account(true)));
    let without = Objects { tokens: false, ..account(true) };
    assert!(!mounts(json!(true), &without), "who issues no tokens mounts none");
}

#[test]
fn an_account_that_is_not_there_is_refused_and_its_pull_secrets_are_used() {
    let facts = Objects::new(&[("serviceaccounts", "sa", json!({"imagePullSecrets": [{"name": "s"}]}))]);
    assert_eq!(
        refused(json!({"serviceAccountName": "x"}), &facts),
        "error looking up service account ns/x: serviceaccount \"x\" not found"
    );
    let spec = admitted(json!({"serviceAccountName": "sa"}), &facts);
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    let own = admitted(json!({"serviceAccountName": "sa", "imagePullSecrets": [{"name": "o"}]}), &facts);
    assert_eq!(own["imagePullSecrets"], json!([{"name": "o"}]));
}

#[test]
fn a_mount_that_is_there_stays_and_a_copied_volume_is_used() {
    let own = json!([{"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let mut object = pod(json!({}));
    object["spec"]["containers"][0]["volumeMounts"] = own.clone();
    admit(&mut object, &Objects::new(&[])).unwrap();
    assert_eq!(object["spec"]["containers"][0]["volumeMounts"], own);
    assert!(object["spec"]["volumes"].is_null());
    let copied = json!({"name": "kube-api-access-zzzzz", "projected": {}});
    let spec = admitted(json!({"volumes": [copied]}), &Objects::new(&[]));
    assert_eq!(spec["volumes"], json!([copied]));
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-zzzzz");
}

#[test]
fn mirrors_of_static_pods_are_given_no_account_and_may_have_none() {
    let mirror = |spec: Value| {
        let mut pod = pod(spec);
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        admit(&mut pod, &Objects::new(&[])).map(|()| pod)
    };
    assert!(mirror(json!({})).unwrap()["spec"]["serviceAccountName"].is_null());
    for spec in [
        json!({"serviceAccountName": "default"}),
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
        json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
    ] {
        assert!(mirror(spec.clone()).is_err(), "{spec}");
    }
}

#[test]
fn a_priority_class_is_its_number() {
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    let mut facts = Objects::new(&[("priorityclasses", "high", class.clone())]);
    let spec = admitted(json!({"priorityClassName": "high"}), &facts);
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(7), &json!("Never")));
    assert_eq!(refused(json!({"priorityClassName": "low"}), &facts), "no PriorityClass with name low was found");
    let message = "the integer value of priority must not be provided in pod spec; priority admission controller computed 7 \
                   from the given PriorityClass name";
    assert_eq!(refused(json!({"priorityClassName": "high", "priority": 8}), &facts), message);
    assert_eq!(admitted(json!({"priorityClassName": "high", "priority": 7}), &facts)["priority"], 7);
    facts.priority = Some(class);
    let spec = admitted(json!({}), &facts);
    assert_eq!((&spec["priority"], &spec["priorityClassName"]), (&json!(7), &json!("high")));
}

#[test]
fn a_runtime_class_brings_its_overhead_and_its_nodes() {
    let class = json!({
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    });
    let facts = Objects::new(&[("runtimeclasses", "vm", class)]);
    let spec = admitted(json!({"runtimeClassName": "vm", "nodeSelector": {"disk": "ssd"}}), &facts);
    assert_eq!(spec["overhead"], json!({"cpu": "100m"}));
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "vm": "yes"}));
    assert!(spec["tolerations"].as_array().unwrap().iter().any(|t| t["key"] == "vm"));
    assert_eq!(refused(json!({"runtimeClassName": "x"}), &facts), "pod rejected: RuntimeClass \"x\" not found");
    for spec in [
        json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
        json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
        json!({"overhead": {"cpu": "1"}}),
    ] {
        assert!(!refused(spec, &facts).is_empty());
    }
}
