//! What both servers are asked, in this order. A step may use what an earlier one was answered: `{step:name:/pointer}`.

use hyper::Method;
use serde_json::{Value, json};

use super::compare::Answer;

/// One request.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: Option<String>,
    /// Asked again until it is so, for a while.
    pub(super) until: Option<fn(&Answer) -> bool>,
    /// The part of the answer that both have.
    pub(super) part: Option<fn(&mut Value)>,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example/v1/namespaces/default/widgets";

fn get(name: &'static str, path: &'static str) -> Step {
    Step { name, method: Method::GET, path, content_type: "", body: None, until: None, part: None }
}

fn send(name: &'static str, method: Method, path: &'static str, content_type: &'static str, body: &Value) -> Step {
    Step { name, method, path, content_type, body: Some(body.to_string()), until: None, part: None }
}

fn post(name: &'static str, path: &'static str, body: &Value) -> Step {
    send(name, Method::POST, path, JSON, body)
}

fn patch(name: &'static str, path: &'static str, content_type: &'static str, body: &Value) -> Step {
    send(name, Method::PATCH, path, content_type, body)
}

fn delete(name: &'static str, path: &'static str) -> Step {
    Step { name, method: Method::DELETE, path, content_type: "", body: None, until: None, part: None }
}

fn gone(answer: &Answer) -> bool {
    answer.code == 404
}

fn there(answer: &Answer) -> bool {
    answer.code == 200
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "a"}}, "data": {"k": "v"}})
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        // The peer runs without the admission that gives accounts: nobody there would make them.
        "spec": {"serviceAccountName": "default", "automountServiceAccountToken": false, "containers": [{
            "name": "c", "image": "example.com/x:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"port": 80}},
        }], "volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "configMap": {"name": "m"}}]},
    })
}

fn schema() -> Value {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "at": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "count": {"type": "integer"},
            }},
        },
        "either": {
            "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
    }});
    json!({"type": "object", "properties": {
        "spec": spec, "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }})
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example"},
        "spec": {
            "group": "shop.example", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// All of it.
pub(super) fn script() -> Vec<Step> {
    let mut steps = Vec::new();
    steps.extend(objects());
    steps.extend(refusals());
    steps.extend(pods());
    steps.extend(custom());
    steps.extend(certificates());
    steps.extend(presentation());
    steps
}

fn objects() -> Vec<Step> {
    let mut same = map("a");
    same["data"]["k"] = "w".into();
    let mut stale = same.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    let mut other = map("b");
    other["metadata"]["finalizers"] = json!(["example.com/held"]);
    vec![
        post("create a ConfigMap", MAPS, &map("a")),
        get("get a ConfigMap", "/api/v1/namespaces/default/configmaps/a"),
        post("create it again", MAPS, &map("a")),
        send("update", Method::PUT, "/api/v1/namespaces/default/configmaps/a", JSON, &same),
        send("update what has changed", Method::PUT, "/api/v1/namespaces/default/configmaps/a", JSON, &stale),
        send("update under another name", Method::PUT, "/api/v1/namespaces/default/configmaps/x", JSON, &same),
        patch("merge patch", "/api/v1/namespaces/default/configmaps/a", MERGE, &json!({"data": {"k": null, "l": "m"}})),
        patch(
            "strategic merge patch",
            "/api/v1/namespaces/default/configmaps/a",
            STRATEGIC,
            &json!({"metadata": {"labels": {"b": "c"}}}),
        ),
        patch(
            "JSON patch",
            "/api/v1/namespaces/default/configmaps/a",
            JSON_PATCH,
            &json!([{"op": "add", "path": "/data/j", "value": "x"}]),
        ),
        patch(
            "JSON patch whose test fails",
            "/api/v1/namespaces/default/configmaps/a",
            JSON_PATCH,
            &json!([{"op": "test", "path": "/data/j", "value": "y"}]),
        ),
        patch("patch in an unknown language", "/api/v1/namespaces/default/configmaps/a", "text/plain", &json!({})),
        patch("apply", "/api/v1/namespaces/default/configmaps/applied?fieldManager=me", APPLY, &map("applied")),
        patch(
            "apply with a conflict",
            "/api/v1/namespaces/default/configmaps/applied?fieldManager=you",
            APPLY,
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "w"},
            }),
        ),
        patch(
            "apply by force",
            "/api/v1/namespaces/default/configmaps/applied?fieldManager=you&force=true",
            APPLY,
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "w"},
            }),
        ),
        patch("apply without a manager", "/api/v1/namespaces/default/configmaps/applied", APPLY, &map("applied")),
        get("list by label", "/api/v1/namespaces/default/configmaps?labelSelector=b%3Dc"),
        get("list by field", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da"),
        get(
            "list by a field that can't be selected by",
            "/api/v1/namespaces/default/configmaps?fieldSelector=data.k%3Da",
        ),
        get("list by a selector that is none", "/api/v1/namespaces/default/configmaps?labelSelector=a%20b"),
        post("dry run", "/api/v1/namespaces/default/configmaps?dryRun=All", &map("dry")),
        get("get what was a dry run", "/api/v1/namespaces/default/configmaps/dry"),
        post("create what is held", MAPS, &other),
        delete("delete what is held", "/api/v1/namespaces/default/configmaps/b"),
        patch("let go", "/api/v1/namespaces/default/configmaps/b", MERGE, &json!({"metadata": {"finalizers": null}})),
        get("get what is gone", "/api/v1/namespaces/default/configmaps/b"),
        send(
            "delete with the wrong uid",
            Method::DELETE,
            "/api/v1/namespaces/default/configmaps/a",
            JSON,
            &json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"},
            }),
        ),
        delete("delete", "/api/v1/namespaces/default/configmaps/a"),
        delete("delete again", "/api/v1/namespaces/default/configmaps/a"),
        post(
            "create a Secret",
            "/api/v1/namespaces/default/secrets",
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"},
            }),
        ),
        post(
            "create a Lease",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            &json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me"},
            }),
        ),
        post(
            "create a Namespace",
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
        ),
        post(
            "create a PriorityClass",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            &json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 5,
            }),
        ),
        post(
            "create a Node",
            "/api/v1/nodes",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}),
        ),
    ]
}

fn refusals() -> Vec<Step> {
    let mut typo = map("typo");
    typo["dta"] = json!({});
    let mut elsewhere = map("e");
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut versioned = map("v");
    versioned["metadata"]["resourceVersion"] = "1".into();
    vec![
        get("an unknown group", "/apis/nope.example/v1"),
        get("an unknown resource", "/api/v1/namespaces/default/nopes"),
        get("an unknown path", "/nope"),
        post("an unknown field, strictly", "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", &typo),
        post(
            "an unknown field, with a warning",
            "/api/v1/namespaces/default/configmaps?fieldValidation=Warn&dryRun=All",
            &typo,
        ),
        post("an unknown validation", "/api/v1/namespaces/default/configmaps?fieldValidation=Odd", &map("x")),
        post("another namespace than the path's", MAPS, &elsewhere),
        post("a namespace that is not there", "/api/v1/namespaces/nope/configmaps", &map("x")),
        post("a revision in what is new", MAPS, &versioned),
        post("another kind than the path's", MAPS, &pod("p")),
        post("a name that is none", MAPS, &map("A_b")),
        post("no name", MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})),
        post(
            "a wrong type",
            MAPS,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": 1}}),
        ),
        Step { body: Some("{".to_owned()), ..post("no JSON", MAPS, &Value::Null) },
        send("a content type that nobody reads", Method::POST, MAPS, "text/plain", &map("x")),
        send("a method that there is not", Method::PUT, MAPS, JSON, &map("x")),
        post("an unknown dry run", "/api/v1/namespaces/default/configmaps?dryRun=Some", &map("x")),
        delete("a namespace that must stay", "/api/v1/namespaces/default"),
        get("a list of a future", "/api/v1/namespaces/default/configmaps?resourceVersion=1&resourceVersionMatch=Odd"),
        get("a continue token that is none", "/api/v1/namespaces/default/configmaps?limit=1&continue=x"),
    ]
}

fn pods() -> Vec<Step> {
    let mut unlike = pod("p");
    unlike["spec"]["containers"][0]["name"] = "d".into();
    let wrong = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"},
        "spec": {"restartPolicy": "Sometimes", "containers": [{"name": "C", "image": "", "ports": [{"containerPort": 0}]}]},
    });
    vec![
        post("create a Pod", PODS, &pod("p")),
        post("create a Pod that is wrong", PODS, &wrong),
        post(
            "create a Pod without containers",
            PODS,
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"}, "spec": {"containers": []}}),
        ),
        patch(
            "change an image",
            "/api/v1/namespaces/default/pods/p",
            STRATEGIC,
            &json!({"spec": {"containers": [{"name": "c", "image": "y"}]}}),
        ),
        patch(
            "change what stays",
            "/api/v1/namespaces/default/pods/p",
            MERGE,
            &json!({"spec": {"restartPolicy": "Never"}}),
        ),
        patch(
            "write a status",
            "/api/v1/namespaces/default/pods/p/status",
            MERGE,
            &json!({"status": {"phase": "Running"}, "spec": {"nodeName": "x"}}),
        ),
        post(
            "bind",
            "/api/v1/namespaces/default/pods/p/binding",
            &json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"},
            }),
        ),
        post(
            "bind again",
            "/api/v1/namespaces/default/pods/p/binding",
            &json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"},
            }),
        ),
        get("get a bound Pod", "/api/v1/namespaces/default/pods/p"),
        delete("delete a bound Pod", "/api/v1/namespaces/default/pods/p"),
        delete("delete it at once", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0"),
        get("get a deleted Pod", "/api/v1/namespaces/default/pods/p"),
    ]
}

const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn certificates() -> Vec<Step> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "somebody");
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let asks = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "R_1"},
        "spec": {
            "request": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem),
            "signerName": "example.com/signer", "usages": ["digital signature", "client auth"], "username": "forged",
            "expirationSeconds": 3600,
        },
        "status": {"conditions": [{"type": "Approved", "status": "True"}]},
    });
    let with = |name: &str, field: &str, value: Value| {
        let mut asks = asks.clone();
        asks["metadata"]["name"] = name.into();
        asks["spec"][field] = value;
        asks
    };
    let decided = |name: &str| json!({"status": {"conditions": [{"type": name, "status": "True", "reason": "r", "message": "m"}]}});
    vec![
        post("ask for a certificate", SIGNING, &asks),
        post("ask for none", SIGNING, &with("bad", "usages", json!([]))),
        post(
            "ask for an unknown usage",
            SIGNING,
            &with("bad", "usages", json!(["client auth", "client auth", "nope"])),
        ),
        post("ask for too short a time", SIGNING, &with("bad", "expirationSeconds", 599.into())),
        post("ask the legacy signer", SIGNING, &with("bad", "signerName", "kubernetes.io/legacy-unknown".into())),
        post("ask a signer without a domain", SIGNING, &with("bad", "signerName", "signer".into())),
        patch(
            "change what was asked",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1",
            MERGE,
            &json!({"spec": {"expirationSeconds": 7200}, "metadata": {"labels": {"a": "b"}}}),
        ),
        patch(
            "approve through the status",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1/status",
            MERGE,
            &decided("Approved"),
        ),
        patch(
            "approve",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1/approval",
            MERGE,
            &decided("Approved"),
        ),
        patch(
            "deny what is approved",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1/approval",
            MERGE,
            &decided("Denied"),
        ),
        patch(
            "issue what is no certificate",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1/status",
            MERGE,
            &json!({"status": {"certificate": "bm8="}}),
        ),
        get(
            "list by signer",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName%3Dno",
        ),
        delete("withdraw", "/apis/certificates.k8s.io/v1/certificatesigningrequests/R_1"),
    ]
}

/// Of what is listed, the resources that begin so.
fn only(body: &mut Value, prefixes: &[&str]) {
    let begins =
        |one: &Value| prefixes.iter().any(|prefix| one["name"].as_str().is_some_and(|name| name.starts_with(prefix)));
    if let Some(all) = body["resources"].as_array_mut() {
        all.retain(begins);
        // A difference that has a step of its own.
        all.iter_mut().filter_map(Value::as_object_mut).for_each(|one| drop(one.remove("storageVersionHash")));
    }
}

fn presentation() -> Vec<Step> {
    vec![
        Step {
            part: Some(|body| {
                only(body, &["pods", "nodes", "namespaces", "configmaps", "serviceaccounts"]);
                // Through the API server to whatever listens in a Pod or on a node: not here.
                if let Some(all) = body["resources"].as_array_mut() {
                    all.retain(|one| !one["name"].as_str().is_some_and(|name| name.ends_with("/proxy")));
                }
            }),
            ..get("resources of the core", "/api/v1")
        },
        Step {
            part: Some(|body| only(body, &["certificatesigningrequests"])),
            ..get("resources of certificates", "/apis/certificates.k8s.io/v1")
        },
        Step { part: Some(|body| *body = json!([body["major"], body["minor"]])), ..get("the version", "/version") },
    ]
}

fn custom() -> Vec<Step> {
    let wrong = json!({
        "size": 11, "colour": "green", "name": "A", "at": "soon", "port": true, "list": ["a", "b", "a"],
        "parts": [{"name": "x"}, {"name": "x"}], "either": {},
    });
    let mut unlike = widgets();
    unlike["metadata"]["name"] = "gadgets.shop.example".into();
    unlike["spec"]["names"]["plural"] = "gadgets".into();
    let mut formless = widgets();
    formless["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}});
    let mut misnamed = widgets();
    misnamed["metadata"]["name"] = "x.shop.example".into();
    vec![
        post("define without a type", CRDS, &formless),
        post("define under another name", CRDS, &misnamed),
        post("define", CRDS, &widgets()),
        Step {
            until: Some(|answer| answer.body.to_string().contains("InitialNamesAccepted")),
            ..get("a definition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.shop.example")
        },
        Step { until: Some(there), ..get("resources of its group", "/apis/shop.example/v1") },
        get("its group", "/apis/shop.example"),
        Step {
            until: Some(|answer| answer.code != 404),
            ..post("create a custom object", WIDGETS, &widget("a", &json!({"size": 2, "odd": 1, "port": "x"})))
        },
        post(
            "create a custom object, strictly",
            "/apis/shop.example/v1/namespaces/default/widgets?fieldValidation=Strict",
            &widget("b", &json!({"size": 2, "odd": 1})),
        ),
        post("create a custom object that is wrong", WIDGETS, &widget("b", &wrong)),
        post("create a custom object of wrong types", WIDGETS, &widget("b", &json!({"size": "x", "list": {}}))),
        post("create a custom object without what is required", WIDGETS, &widget("b", &json!({}))),
        send(
            "update a custom object without a revision",
            Method::PUT,
            "/apis/shop.example/v1/namespaces/default/widgets/a",
            JSON,
            &widget("a", &json!({"size": 3})),
        ),
        patch(
            "patch a custom object",
            "/apis/shop.example/v1/namespaces/default/widgets/a",
            MERGE,
            &json!({"spec": {"size": 4}, "status": {"size": 9}}),
        ),
        patch(
            "patch its status",
            "/apis/shop.example/v1/namespaces/default/widgets/a/status",
            MERGE,
            &json!({"spec": {"size": 5}, "status": {"size": 1}}),
        ),
        patch(
            "patch it strategically",
            "/apis/shop.example/v1/namespaces/default/widgets/a",
            STRATEGIC,
            &json!({"spec": {"size": 4}}),
        ),
        patch(
            "apply a custom object",
            "/apis/shop.example/v1/namespaces/default/widgets/a?fieldManager=me&force=true",
            APPLY,
            &widget("a", &json!({"size": 2, "parts": [{"name": "x", "count": 1}]})),
        ),
        get("its scale", "/apis/shop.example/v1/namespaces/default/widgets/a/scale"),
        patch(
            "patch its scale",
            "/apis/shop.example/v1/namespaces/default/widgets/a/scale",
            MERGE,
            &json!({"spec": {"replicas": 7}}),
        ),
        get("list custom objects", WIDGETS),
        get(
            "list custom objects by a field that can't be selected by",
            "/apis/shop.example/v1/namespaces/default/widgets?fieldSelector=spec.size%3D1",
        ),
        post("define a rival", CRDS, &unlike),
        Step {
            until: Some(|answer| answer.body.to_string().contains("NotAccepted")),
            ..get("a rival", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.shop.example")
        },
        delete("delete a custom object", "/apis/shop.example/v1/namespaces/default/widgets/a"),
        delete("delete a definition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.shop.example"),
        Step {
            until: Some(gone),
            ..get(
                "a definition that is gone",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.shop.example",
            )
        },
    ]
}
