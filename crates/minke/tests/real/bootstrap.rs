//! A node that has nothing but a bootstrap token, in a real cluster: it asks for its certificates, and for the next ones.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use minke_testkit::kube::KubeApi;
use rustix::process::Signal;
use serde_json::json;

use crate::cluster::{Cluster, NODE, client, config, phase, pod, programs};
use crate::support::{wait_async, with_instance};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// A bootstrap token and what it may, as kubeadm makes them.
async fn allow_bootstrap(admin: &Client) {
    let token = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
    });
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    secrets.create(&PostParams::default(), &serde_json::from_value(token).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": "bootstrap"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

async fn requests(admin: &Client) -> Vec<CertificateSigningRequest> {
    Api::all(admin.clone()).list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}

/// Who asked for what is signed by this signer, in order.
async fn asked(admin: &Client, signer: &str) -> Vec<String> {
    let mut all = requests(admin).await;
    all.retain(|request| request.spec.signer_name == signer);
    all.sort_by_key(|request| request.metadata.creation_timestamp.clone());
    all.into_iter().filter_map(|request| request.spec.username).collect()
}

/// Approves and signs what nobody has decided on, as an operator and kube-controller-manager do: good for so many seconds.
async fn decide(admin: &Client, api: &KubeApi, seconds: u64) {
    let all: Api<CertificateSigningRequest> = Api::all(admin.clone());
    for request in requests(admin).await {
        if request.status.as_ref().is_some_and(|status| status.certificate.is_some()) {
            continue;
        }
        let name = request.metadata.name.unwrap();
        let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "t"}]}});
        all.patch_approval(&name, &PatchParams::default(), &Patch::Merge(&approved)).await.unwrap();
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap();
        let (text, good) = (String::from_utf8(request.spec.request.0).unwrap(), now - 1..now + seconds);
        let signed = match request.spec.signer_name.as_str() {
            CLIENT => api.sign_client(&text, good).unwrap(),
            SERVING => api.sign_serving(&text, good).unwrap(),
            other => panic!("nobody here signs for {other}"),
        };
        let signed = json!({"status": {"certificate": ByteString(signed.into_bytes())}});
        all.patch_status(&name, &PatchParams::default(), &Patch::Merge(&signed)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_bootstrap_token_gets_its_certificates_and_renews_them() {
    const NAME: &str = "a_node_with_a_bootstrap_token_gets_its_certificates_and_renews_them";
    /// The life of the first ones.
    const SHORT: u64 = 30;
    let Some(programs) = programs(NAME) else { return };
    with_instance(NAME, async |m| {
        let cluster = Cluster::start(&m, &programs).await;
        let admin = cluster.client.clone();
        allow_bootstrap(&admin).await;
        let token = m.root().join("bootstrap.conf");
        cluster.api.kubeconfig_with("abcdef.0123456789abcdef", &token).unwrap();
        std::fs::write(m.root().join("ca.crt"), cluster.api.authority()).unwrap();
        let (config, ca) = (config(&m), m.root().join("ca.crt").display().to_string());
        let arguments = [
            "node",
            "--bootstrap-kubeconfig",
            token.to_str().unwrap(),
            "--node-name",
            NODE,
            "--config",
            &config,
            "--node-ip=127.0.0.1",
            "--listen=127.0.0.1:0",
            "--server-tls-bootstrap",
            "--client-ca-file",
            &ca,
        ];
        let node = m.spawn(&arguments);
        // Nothing happens until somebody says that this may be a node.
        wait_async("the request", async || asked(&admin, CLIENT).await == ["system:bootstrap:abcdef"]).await;
        assert!(cluster.nodes().get_opt(NODE).await.unwrap().is_none());
        decide(&admin, &cluster.api, SHORT).await;
        cluster.ready().await;
        wait_async("the request to serve", async || asked(&admin, SERVING).await == ["system:node:n1"]).await;
        decide(&admin, &cluster.api, SHORT).await;
        cluster.pods().create(&PostParams::default(), &pod("said", "Never", "echo hello")).await.unwrap();
        wait_async("the API to ask the node", async || cluster.kubectl(&["logs", "said"]).await.out == "hello\n").await;

        // It asks for the next ones as itself, and goes on when the first ones are over.
        wait_async("the next requests", async || {
            asked(&admin, CLIENT).await.get(1).is_some_and(|user| user == "system:node:n1")
                && asked(&admin, SERVING).await.len() == 2
        })
        .await;
        decide(&admin, &cluster.api, 3600).await;
        tokio::time::sleep(Duration::from_secs(SHORT)).await;
        cluster.pods().create(&PostParams::default(), &pod("later", "Never", "echo later")).await.unwrap();
        wait_async("a later pod to end", async || {
            cluster.pods().get("later").await.is_ok_and(|pod| phase(&pod) == "Succeeded")
        })
        .await;
        wait_async("its log", async || cluster.kubectl(&["logs", "later"]).await.out == "later\n").await;

        // The next process finds them, and the token is not needed any more.
        node.signal(Signal::TERM);
        node.end().await.expect(0);
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
        secrets.delete("bootstrap-token-abcdef", &Default::default()).await.unwrap();
        let before = requests(&admin).await.len();
        let node = m.spawn(&arguments);
        cluster.pods().create(&PostParams::default(), &pod("last", "Never", "echo last")).await.unwrap();
        wait_async("the last pod to end", async || {
            cluster.pods().get("last").await.is_ok_and(|pod| phase(&pod) == "Succeeded")
        })
        .await;
        wait_async("its log", async || cluster.kubectl(&["logs", "last"]).await.out == "last\n").await;
        assert_eq!(requests(&admin).await.len(), before);
        // Nobody else reads the keys.
        for name in ["node-client.pem", "node-serving.pem"] {
            use std::os::unix::fs::PermissionsExt as _;
            let path = m.root().join("state/pki").join(name);
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        node.signal(Signal::TERM);
        node.end().await.expect(0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bootstrap_token_that_nobody_knows_is_told() {
    const NAME: &str = "a_bootstrap_token_that_nobody_knows_is_told";
    let Some(programs) = programs(NAME) else { return };
    with_instance(NAME, async |m| {
        let cluster = Cluster::start(&m, &programs).await;
        let token = m.root().join("bootstrap.conf");
        cluster.api.kubeconfig_with("abcdef.0000000000000000", &token).unwrap();
        let refused = m.minke(&["node", "--bootstrap-kubeconfig", token.to_str().unwrap(), "--node-name", NODE]).await;
        assert!(refused.clone().expect(2).err.contains("does not know this agent"), "{refused:?}");
        let known = client(&token).await.apiserver_version().await;
        assert!(matches!(known, Err(Error::Api(status)) if status.code == 401));
    })
    .await;
}
