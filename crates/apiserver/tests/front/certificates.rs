//! A node joins: with a token that allows nothing else it asks for its certificate, and comes back as itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, BOOTSTRAP, NODE, TestServer};

const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn asks(name: &str, signer: &str, usage: &str, addresses: &[&str]) -> (rcgen::KeyPair, Value) {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{name}"));
    let addresses = addresses.iter().map(|address| rcgen::SanType::IpAddress(address.parse().unwrap()));
    params.subject_alt_names.extend(addresses);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"generateName": "csr-"},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["digital signature", usage]},
    });
    (key, object)
}

/// The certificate, once it is there.
async fn issued(server: &TestServer, token: &str, name: &str) -> String {
    for _ in 0..1000 {
        let (code, object) = server.json(token, Method::GET, &format!("{SIGNING}/{name}"), &Value::Null).await;
        assert_eq!(code, 200, "{object}");
        if let Some(certificate) = object["status"]["certificate"].as_str() {
            return certificate.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{name} is not issued");
}

#[tokio::test]
async fn a_node_joins_with_a_token_and_comes_back_with_its_certificate() {
    let server = TestServer::start(Limits::default()).await;
    let (key, object) = asks("n7", "kubernetes.io/kube-apiserver-client-kubelet", "client auth", &[]);
    let (code, made) = server.json(BOOTSTRAP, Method::POST, SIGNING, &object).await;
    assert_eq!((code, &made["spec"]["username"]), (201, &json!("system:bootstrap:abcdef")), "{made}");
    let certificate = issued(&server, BOOTSTRAP, made["metadata"]["name"].as_str().unwrap()).await;
    for (method, path) in [(Method::GET, "/api/v1/nodes"), (Method::POST, "/api/v1/nodes"), (Method::DELETE, SIGNING)] {
        assert_eq!(server.json(BOOTSTRAP, method, path, &json!({})).await.0, 403, "{path}");
    }
    let mut kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let mut own = serde_json::to_value(&kubeconfig.auth_infos[0].auth_info).unwrap();
    own["client-certificate-data"] = certificate.into();
    own["client-key-data"] = STANDARD.encode(key.serialize_pem()).into();
    kubeconfig.auth_infos[0].auth_info = serde_json::from_value(own).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let review =
        Api::<SelfSubjectReview>::all(client).create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = review.unwrap().status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:node:n7"));
    assert!(user.groups.unwrap().contains(&"system:nodes".to_owned()));
}

#[tokio::test]
async fn a_bootstrap_token_is_a_secret_and_ends_with_it() {
    const TOKEN: &str = "ghijkl.0123456789abcdef";
    const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
    let server = TestServer::start(Limits::default()).await;
    let (_, object) = asks("n8", "kubernetes.io/kube-apiserver-client-kubelet", "client auth", &[]);
    assert_eq!(server.json(TOKEN, Method::POST, SIGNING, &object).await.0, 401);
    let secret = json!({
        "metadata": {"name": "bootstrap-token-ghijkl"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "ghijkl", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    assert_eq!(server.json(ADMIN, Method::POST, SECRETS, &secret).await.0, 201);
    let review = json!({"spec": {"token": TOKEN}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, review) = server.json(ADMIN, Method::POST, reviews, &review).await;
    assert_eq!(
        review["status"]["user"],
        json!({
            "username": "system:bootstrap:ghijkl",
            "groups": ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"],
        })
    );
    let (code, made) = server.json(TOKEN, Method::POST, SIGNING, &object).await;
    assert_eq!((code, &made["spec"]["username"]), (201, &json!("system:bootstrap:ghijkl")), "{made}");
    issued(&server, TOKEN, made["metadata"]["name"].as_str().unwrap()).await;
    assert_eq!(server.json(TOKEN, Method::GET, SECRETS, &Value::Null).await.0, 403);
    assert_eq!(server.json("ghijkl.0123456789abcdeg", Method::GET, SIGNING, &Value::Null).await.0, 401);
    let path = format!("{SECRETS}/bootstrap-token-ghijkl");
    assert_eq!(server.json(ADMIN, Method::DELETE, &path, &Value::Null).await.0, 200);
    assert_eq!(server.json(TOKEN, Method::GET, SIGNING, &Value::Null).await.0, 401);
}

#[tokio::test]
async fn a_node_asks_for_itself_and_its_own_addresses() {
    let server = TestServer::start(Limits::default()).await;
    let serving = |name: &str, address: &str| asks(name, "kubernetes.io/kubelet-serving", "server auth", &[address]).1;
    let (code, refused) = server.json(NODE, Method::POST, SIGNING, &serving("n2", "10.0.0.1")).await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("can only create a node CSR with CN=system:node:n1"));
    let (code, early) = server.json(NODE, Method::POST, SIGNING, &serving("n1", "10.0.0.1")).await;
    assert_eq!(code, 201, "{early}");
    // It is approved once the Node says that this is where it is.
    let (code, _) = server.json(NODE, Method::POST, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    assert_eq!(code, 201);
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    assert_eq!(server.json(NODE, Method::PATCH, "/api/v1/nodes/n1/status", &status).await.0, 200);
    issued(&server, NODE, early["metadata"]["name"].as_str().unwrap()).await;
    let approve = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{SIGNING}/{}/approval", early["metadata"]["name"].as_str().unwrap());
    assert_eq!(server.json(NODE, Method::PATCH, &path, &approve).await.0, 403, "nobody approves their own");
    assert_eq!(server.json(ADMIN, Method::PATCH, &path, &approve).await.0, 200);
}

#[tokio::test]
async fn whoever_applies_a_request_is_who_asks() {
    let server = TestServer::start(Limits::default()).await;
    let (_, mut object) = asks("n", "example.com/signer", "client auth", &[]);
    object["metadata"] = json!({"name": "applied"});
    object["spec"]["username"] = "somebody-else".into();
    let path = format!("{SIGNING}/applied?fieldManager=m");
    let (code, made) = server.patch("application/apply-patch+yaml", &path, &object).await;
    assert_eq!((code, &made["spec"]["username"]), (201, &json!("root")), "{made}");
    object["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client".into();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    object["spec"]["request"] = STANDARD.encode(pem).into();
    let path = format!("{SIGNING}/master?fieldManager=m");
    object["metadata"] = json!({"name": "master"});
    assert_eq!(server.patch("application/apply-patch+yaml", &path, &object).await.0, 403);
    for odd in [json!([]), json!("x"), json!({"spec": 7}), json!({"spec": {}, "status": "x"})] {
        let (code, _) = server.patch("application/apply-patch+yaml", &path, &odd).await;
        assert!((400..500).contains(&code), "{odd}: {code}");
    }
    for part in ["approval", "status"] {
        for odd in
            [json!({"status": "x"}), json!({"status": {"conditions": {}}}), json!({"status": {"conditions": ["x"]}})]
        {
            let (code, _) =
                server.patch("application/merge-patch+json", &format!("{SIGNING}/applied/{part}"), &odd).await;
            assert!((400..500).contains(&code), "{part} {odd}: {code}");
        }
    }
}
