//! Bodies as Go writes them, and bodies that nobody should write. `fuzz/corpus/proto` has the former as Go's own
//! serializer made them, and `fuzz/corpus/api_body` the JSON that Go makes of the same objects.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::schema::builtin;
use crate::strict::typed;

fn read(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)).unwrap()
}

/// An envelope around bytes of a message.
fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = field(1, api_version.as_bytes());
    meta.extend(field(2, kind.as_bytes()));
    [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
}

fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    [varint(u64::from(number << 3 | 2)), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

#[test]
fn what_go_writes_is_read_as_go_writes_it_in_json() {
    for name in
        ["pod", "configmap", "secret", "lease", "event", "eviction", "review", "service", "volume", "definition"]
    {
        let object = decode(builtin(), &read(&format!("proto/{name}.pb"))).unwrap();
        let kind = builtin().kind(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap();
        let typed = typed(builtin(), &kind, object).unwrap();
        let expected: Value = serde_json::from_slice(&read(&format!("api_body/{name}.json"))).unwrap();
        assert_eq!(typed.unknown, [""; 0], "{name}");
        assert_eq!(typed.object, expected, "{name}");
    }
}

#[test]
fn bodies_that_are_none_are_refused() {
    assert_eq!(decode(builtin(), b"{}"), Err(ProtoError::Magic));
    assert_eq!(decode(builtin(), b""), Err(ProtoError::Magic));
    let unknown = ProtoError::Kind { api_version: "apps/v1".to_owned(), kind: "Deployment".to_owned() };
    assert_eq!(decode(builtin(), &body("apps/v1", "Deployment", b"")), Err(unknown));
    assert!(matches!(decode(builtin(), b"k8s\0\x0a\xff"), Err(ProtoError::Malformed(_))));
    let zipped = [body("v1", "Pod", b""), field(3, b"gzip")].concat();
    assert_eq!(decode(builtin(), &zipped), Err(ProtoError::Encoding("gzip".to_owned())));
    let cbor = [body("v1", "Pod", b""), field(4, b"application/cbor")].concat();
    assert_eq!(decode(builtin(), &cbor), Err(ProtoError::Encoding("application/cbor".to_owned())));
}

#[test]
fn what_is_wrong_names_its_field() {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.name";
    let latin1 = body("v1", "Pod", &field(1, &field(1, b"\xe4")));
    assert_eq!(decode(builtin(), &latin1), Err(ProtoError::Malformed(name.to_owned())));
    let number_as_name = body("v1", "Pod", &field(1, &[0x08, 0x01]));
    assert_eq!(decode(builtin(), &number_as_name), Err(ProtoError::Malformed(name.to_owned())));
}

#[test]
fn numbers_that_no_field_has_are_skipped() {
    let more = [field(1, &field(1, b"p")), field(4000, b"?"), vec![0x80, 0x7d, 0x01]].concat();
    let pod = decode(builtin(), &body("v1", "Pod", &more)).unwrap();
    assert_eq!(pod, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
}

#[test]
fn a_message_that_comes_twice_is_joined() {
    let twice = [field(1, &field(1, b"p")), field(1, &field(3, b"n"))].concat();
    let pod = decode(builtin(), &body("v1", "Pod", &twice)).unwrap();
    assert_eq!(pod["metadata"], json!({"name": "p", "namespace": "n"}));
}

#[test]
fn depth_is_bounded() {
    // items within items within items.
    let mut schema = Vec::new();
    for _ in 0..200 {
        schema = field(24, &field(1, &schema));
    }
    let versions = field(7, &field(4, &field(1, &schema)));
    let definition = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &versions));
    assert_eq!(decode(builtin(), &definition), Err(ProtoError::TooLarge));
}

#[test]
fn the_number_of_values_is_bounded() {
    let finalizers = field(14, b"").repeat(MOST_VALUES + 1);
    assert_eq!(decode(builtin(), &body("v1", "Pod", &field(1, &finalizers))), Err(ProtoError::TooLarge));
}
