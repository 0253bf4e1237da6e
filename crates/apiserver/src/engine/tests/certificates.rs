//! Certificates: asked for, approved, signed.

use base64::Engine as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::access::{Authority, BOOTSTRAPPERS, certificate_request, identity_of};

const SIGNING: &str = "certificatesigningrequests";

fn asks(user: &str, groups: &[&str], name: &str) -> Value {
    let pem = certificate_request(name, &["system:nodes"], &[], &[]);
    json!({
        "metadata": {"name": "node-csr-A_b"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem), "username": user, "groups": groups,
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["digital signature", "client auth"],
            "expirationSeconds": 3600,
        },
        "status": {"certificate": "YQ==", "conditions": [{"type": "Approved", "status": "True"}]},
    })
}

fn approval(name: &str) -> Value {
    json!({"status": {"conditions": [{"type": name, "status": "True", "reason": "r"}]}})
}

/// Once there is a certificate, or it has failed.
async fn outcome(engine: &Engine) -> Value {
    let mut revisions = engine.store.shared.revisions();
    loop {
        let status = read(engine, SIGNING, "node-csr-A_b")["status"].clone();
        let failed = status["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Failed"));
        if failed || status["certificate"].is_string() {
            return status;
        }
        revisions.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_becomes_a_node_gets_its_certificate_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::open(directory.path(), Noon.now()).unwrap();
    let engine = engine().await.with_authority(Arc::new(authority));
    let made = create(&engine, SIGNING, asks("kubelet", &[BOOTSTRAPPERS], "system:node:n")).await.unwrap();
    assert_eq!(made["status"], json!({}), "nobody approves their own");
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    let status = outcome(&engine).await;
    care.abort();
    let approved = &status["conditions"][0];
    assert_eq!((&approved["type"], &approved["reason"]), (&json!("Approved"), &json!("AutoApproved")));
    assert_eq!(approved["lastTransitionTime"], "2026-01-02T12:00:00Z");
    let pem = base64::engine::general_purpose::STANDARD.decode(status["certificate"].as_str().unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let identity = identity_of(&certificate).unwrap();
    assert_eq!((identity.node(), identity.user.as_str()), (Some("n"), "system:node:n"));
    let (_, read) = x509_parser::parse_x509_certificate(&certificate).unwrap();
    let noon = Noon.now().as_second();
    assert_eq!(read.validity().not_before.timestamp(), noon - 300);
    assert_eq!(read.validity().not_after.timestamp(), noon + 3600);
    assert!(!read.is_ca() && read.extended_key_usage().unwrap().unwrap().value.client_auth);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_approves_wrongly_fails_and_what_they_deny_waits() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::open(directory.path(), Noon.now()).unwrap();
    let engine = engine().await.with_authority(Arc::new(authority));
    create(&engine, SIGNING, asks("u", &[], "somebody")).await.unwrap();
    let place = at(SIGNING, "node-csr-A_b");
    let refused = merge(&engine, place, Part::Status, approval("Approved")).await.unwrap_err();
    assert_eq!((refused.code(), refused.details.causes[0].field.as_str()), (422, "status.conditions"));
    merge(&engine, place, Part::Approval, approval("Approved")).await.unwrap();
    let refused = merge(&engine, place, Part::Approval, approval("Denied")).await.unwrap_err();
    assert_eq!(refused.code(), 422, "a decision is made once");
    let care = tokio::spawn({
        let engine = engine.clone();
        async move { engine.care().await }
    });
    let status = outcome(&engine).await;
    care.abort();
    assert_eq!(status["conditions"][1]["reason"], "SignerValidationFailure");
    assert_eq!(status["conditions"][1]["message"], "subject common name does not begin with system:node:");
    assert!(status.get("certificate").is_none());
}

#[tokio::test]
async fn what_was_asked_for_never_changes() {
    let engine = engine().await;
    let mut object = create(&engine, SIGNING, asks("u", &[], "system:node:n")).await.unwrap();
    object["spec"]["username"] = "root".into();
    object["status"] = approval("Approved")["status"].clone();
    object["metadata"]["labels"] = json!({"a": "b"});
    let written = put(&engine, SIGNING, object).await.unwrap();
    assert_eq!((&written["spec"]["username"], &written["status"]), (&json!("u"), &json!({})));
    assert_eq!(written["metadata"]["labels"]["a"], "b");
}
