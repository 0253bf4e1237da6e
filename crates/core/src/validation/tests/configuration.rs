//! ConfigMaps and Secrets.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::*;

fn about_map(map: &Value) -> Vec<String> {
    let map: ConfigMap = serde_json::from_value(merged(json!({"metadata": {"name": "m"}}), map)).unwrap();
    validate_config_map(&map).iter().map(ValidationError::to_string).collect()
}

fn about_secret(secret: &Value) -> Vec<String> {
    let secret: Secret = serde_json::from_value(merged(json!({"metadata": {"name": "s"}}), secret)).unwrap();
    validate_secret(&secret).iter().map(ValidationError::to_string).collect()
}

#[test]
fn config_maps() {
    let rows = vec![
        (json!({"data": {"a.b-c_D": "x", ".env": ""}, "binaryData": {"b": "AA=="}}), vec![]),
        (json!({"metadata": {}}), vec!["metadata.name: Required value"]),
        (json!({"data": {"a/b": "x"}}), vec!["data[a/b]: Invalid value: \"a/b\": a valid config key"]),
        (json!({"binaryData": {"..": "AA=="}}), vec!["binaryData[..]: Invalid value: \"..\": must not be '..'"]),
        (
            json!({"data": {"a": "x"}, "binaryData": {"a": "AA=="}}),
            vec!["data[a]: Invalid value: \"a\": duplicate of key \"a\" present in binaryData"],
        ),
        (json!({"data": {"a": "x".repeat(1024 * 1024)}}), vec![]),
        (
            json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}),
            vec!["data: Too long: may not be more than 1048576 bytes"],
        ),
    ];
    check(rows, about_map);
}

#[test]
fn secrets_by_type() {
    let kind = |kind: &str, data: Value| json!({"type": format!("kubernetes.io/{kind}"), "data": data});
    let rows = vec![
        (json!({"data": {"k": "AA=="}}), vec![]),
        (json!({"data": {"a b": "AA=="}}), vec!["data[a b]: Invalid value: \"a b\""]),
        (kind("dockerconfigjson", json!({})), vec!["data[.dockerconfigjson]: Required value"]),
        (kind("dockerconfigjson", json!({".dockerconfigjson": "e30="})), vec![]),
        (
            kind("dockerconfigjson", json!({".dockerconfigjson": "AA=="})),
            vec!["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": is not JSON"],
        ),
        (kind("dockercfg", json!({})), vec!["data[.dockercfg]: Required value"]),
        (kind("tls", json!({"tls.crt": ""})), vec!["data[tls.key]: Required value"]),
        (kind("ssh-auth", json!({})), vec!["data[ssh-privatekey]: Required value"]),
        (kind("basic-auth", json!({})), vec!["data[username]: Required value", "data[password]: Required value"]),
        (kind("basic-auth", json!({"password": "AA=="})), vec![]),
        (kind("service-account-token", json!({})), vec![]),
        (json!({"type": "example.com/own", "data": {"k": ""}}), vec![]),
    ];
    check(rows, about_secret);
}

#[test]
fn reasons_are_those_of_an_api_server() {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {}, "data": {"a/b": ""}})).unwrap();
    let reasons: Vec<&str> = validate_config_map(&map).iter().map(|error| error.reason.as_str()).collect();
    assert_eq!(reasons, ["FieldValueRequired", "FieldValueInvalid"]);
}
