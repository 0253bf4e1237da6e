//! Service accounts, their tokens, and what reviews say, over the wire.

use hyper::Method;
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, NOBODY, TestServer};

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const PODS: &str = "/api/v1/namespaces/default/pods";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "example.com/x:1"}]}})
}

/// A token for the default account.
async fn token(server: &TestServer, spec: Value) -> String {
    let (code, answer) = server.json(ADMIN, Method::POST, TOKEN, &json!({"spec": spec})).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_namespace_has_its_account_and_pods_get_a_token() {
    let server = TestServer::start(Limits::default()).await;
    let namespace = json!({"metadata": {"name": "new"}});
    assert_eq!(server.json(ADMIN, Method::POST, "/api/v1/namespaces", &namespace).await.0, 201);
    for namespace in ["default", "kube-system", "new"] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        assert_eq!(server.json(ADMIN, Method::GET, &path, &Value::Null).await.0, 200, "{namespace}");
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        let (code, map) = server.json(ADMIN, Method::GET, &path, &Value::Null).await;
        assert_eq!(code, 200, "{namespace}");
        assert!(map["data"]["ca.crt"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    }
    let (code, made) = server.json(ADMIN, Method::POST, PODS, &pod("a")).await;
    assert_eq!((code, &made["spec"]["serviceAccountName"]), (201, &json!("default")));
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mount["name"], made["spec"]["volumes"][0]["name"]);
    let mut foreign = pod("b");
    foreign["spec"]["serviceAccountName"] = "nobody".into();
    let (code, refused) = server.json(ADMIN, Method::POST, PODS, &foreign).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "pods \"b\" is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found"
    );
}

#[tokio::test]
async fn a_token_is_its_account_until_what_it_is_bound_to_goes() {
    let server = TestServer::start(Limits::default()).await;
    let (_, made) = server.json(ADMIN, Method::POST, PODS, &pod("a")).await;
    let uid = &made["metadata"]["uid"];
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid}});
    let token = token(&server, bound).await;
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, me) = server.json(&token, Method::POST, who, &json!({})).await;
    assert_eq!(code, 201, "{me}");
    let user = &me["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:default:default");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["a"]));
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(user["groups"], groups);
    // It may nothing.
    let (code, refused) = server.json(&token, Method::GET, PODS, &Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "pods is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"pods\" in API group \"\" in the \
         namespace \"default\""
    );
    assert_eq!(server.json(&token, Method::GET, "/api/v1", &Value::Null).await.0, 200);
    let review = json!({"spec": {"token": token}});
    let (code, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review).await;
    assert_eq!((code, &answer["status"]["authenticated"]), (201, &json!(true)), "{answer}");
    assert_eq!(answer["spec"]["token"], "", "a token is not told back");
    let delete = json!({"gracePeriodSeconds": 0});
    assert_eq!(server.json(ADMIN, Method::DELETE, &format!("{PODS}/a"), &delete).await.0, 200);
    assert_eq!(server.json(&token, Method::GET, "/api/v1", &Value::Null).await.0, 401);
    let (_, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review).await;
    assert_eq!(answer["status"]["authenticated"], false);
}

#[tokio::test]
async fn a_token_for_others_is_not_one_for_this_server() {
    let server = TestServer::start(Limits::default()).await;
    let token = token(&server, json!({"audiences": ["vault"], "expirationSeconds": 600})).await;
    assert_eq!(server.json(&token, Method::GET, "/api/v1", &Value::Null).await.0, 401);
    let review = |audiences: Value| json!({"spec": {"token": token, "audiences": audiences}});
    let (_, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review(json!(["vault", "x"]))).await;
    assert_eq!((&answer["status"]["authenticated"], &answer["status"]["audiences"]), (&json!(true), &json!(["vault"])));
    let (_, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review(json!(["x"]))).await;
    assert_eq!(answer["status"]["authenticated"], false);
}

#[tokio::test]
async fn a_token_of_the_token_file_is_reviewed_too() {
    let server = TestServer::start(Limits::default()).await;
    let review = |audiences: Value| json!({"spec": {"token": NOBODY, "audiences": audiences}});
    let (_, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review(Value::Null)).await;
    assert_eq!(answer["status"]["user"], json!({"username": "nobody", "groups": ["system:authenticated"]}));
    assert_eq!(answer["spec"]["token"], "", "a token is not told back");
    let (_, answer) = server.json(ADMIN, Method::POST, REVIEWS, &review(json!(["vault"]))).await;
    assert_eq!(answer["status"]["authenticated"], false);
}

#[tokio::test]
async fn bad_token_requests_are_refused_with_reasons() {
    let server = TestServer::start(Limits::default()).await;
    for (spec, code, part) in [
        (json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": 5_000_000_000_i64}), 422, "may not specify a duration larger than 2^32 seconds"),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"}}),
            404,
            "pods \"none\" not found",
        ),
        (json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}), 400, "cannot bind token"),
        (json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod"}}), 422, "Required value"),
    ] {
        let (found, answer) = server.json(ADMIN, Method::POST, TOKEN, &json!({"spec": spec})).await;
        assert_eq!(found, code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{answer}");
    }
    let other = TOKEN.replace("serviceaccounts/default", "serviceaccounts/none");
    assert_eq!(server.json(ADMIN, Method::POST, &other, &json!({})).await.0, 404);
    assert_eq!(server.json(NOBODY, Method::POST, TOKEN, &json!({})).await.0, 403);
    assert_eq!(server.json(ADMIN, Method::GET, TOKEN, &Value::Null).await.0, 405);
}

#[tokio::test]
async fn reviews_say_what_the_authorizer_does() {
    let server = TestServer::start(Limits::default()).await;
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let ask = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}});
    let (code, answer) = server.json(ADMIN, Method::POST, own, &ask).await;
    assert_eq!((code, &answer["status"]), (201, &json!({"allowed": true})));
    let (code, answer) = server.json(NOBODY, Method::POST, own, &ask).await;
    assert_eq!((code, &answer["status"]), (201, &json!({"allowed": false})));
    assert_eq!(server.json(NOBODY, Method::POST, own, &json!({"spec": {}})).await.0, 422);
    let others = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let mut about = ask.clone();
    about["spec"]["user"] = "system:node:n1".into();
    about["spec"]["groups"] = json!(["system:nodes"]);
    let (_, answer) = server.json(ADMIN, Method::POST, others, &about).await;
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(server.json(NOBODY, Method::POST, others, &about).await.0, 403);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (code, answer) = server.json(NOBODY, Method::POST, rules, &json!({"spec": {"namespace": "default"}})).await;
    assert_eq!((code, answer["status"]["resourceRules"].as_array().unwrap().len()), (201, 2));
    assert_eq!(server.json(ADMIN, Method::GET, own, &Value::Null).await.0, 405);
}

#[tokio::test]
async fn others_find_the_key_that_signs() {
    let server = TestServer::start(Limits::default()).await;
    let (code, found) = server.json(NOBODY, Method::GET, "/.well-known/openid-configuration", &Value::Null).await;
    assert_eq!((code, &found["issuer"]), (200, &json!("https://kubernetes.default.svc.cluster.local")));
    let (code, keys) = server.json(NOBODY, Method::GET, "/openid/v1/jwks", &Value::Null).await;
    assert_eq!((code, &keys["keys"][0]["alg"]), (200, &json!("ES256")));
    assert_eq!(server.json("", Method::GET, "/openid/v1/jwks", &Value::Null).await.0, 401);
}

#[tokio::test]
async fn a_node_touches_what_is_its_own() {
    let server = TestServer::start(Limits::default()).await;
    let node = crate::server::NODE;
    let on = |name: &str, node: &str| {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": format!("of-{name}")}}]);
        pod
    };
    for object in [on("mine", "n1"), on("theirs", "n2")] {
        assert_eq!(server.json(ADMIN, Method::POST, PODS, &object).await.0, 201);
    }
    for name in ["of-mine", "of-theirs"] {
        let secret = json!({"metadata": {"name": name}});
        assert_eq!(server.json(ADMIN, Method::POST, "/api/v1/namespaces/default/secrets", &secret).await.0, 201);
    }
    let status = json!({"status": {"phase": "Running"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| json!({"metadata": {"name": name}});
    let own_node = json!({"metadata": {"name": "n1"}});
    let other_node = json!({"metadata": {"name": "n2"}});
    let mut mirror = on("mirror", "n1");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "h"});
    for (method, path, body, expected) in [
        (Method::PATCH, format!("{PODS}/mine/status"), &status, 200),
        (Method::PATCH, format!("{PODS}/theirs/status"), &status, 403),
        (Method::DELETE, format!("{PODS}/theirs"), &Value::Null, 403),
        (Method::GET, format!("{PODS}/theirs"), &Value::Null, 200),
        (Method::GET, format!("{secrets}/of-mine"), &Value::Null, 200),
        (Method::GET, format!("{secrets}/of-theirs"), &Value::Null, 403),
        (Method::GET, secrets.to_owned(), &Value::Null, 403),
        (Method::POST, "/api/v1/nodes".to_owned(), &own_node, 201),
        (Method::POST, "/api/v1/nodes".to_owned(), &other_node, 403),
        (Method::POST, leases.to_owned(), &lease("n1"), 201),
        (Method::POST, leases.to_owned(), &lease("n2"), 403),
        (Method::POST, PODS.to_owned(), &on("new", "n1"), 403),
        (Method::POST, PODS.to_owned(), &mirror, 201),
        (Method::POST, TOKEN.to_owned(), &json!({}), 403),
    ] {
        let (code, answer) = server.json(node, method.clone(), &path, body).await;
        assert_eq!(code, expected, "{method} {path}: {answer}");
    }
    let ask = |name: &str, uid: &Value| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}});
    for (name, expected) in [("mine", 201), ("theirs", 403)] {
        let (_, pod) = server.json(ADMIN, Method::GET, &format!("{PODS}/{name}"), &Value::Null).await;
        let (code, answer) = server.json(node, Method::POST, TOKEN, &ask(name, &pod["metadata"]["uid"])).await;
        assert_eq!(code, expected, "{name}: {answer}");
    }
}
