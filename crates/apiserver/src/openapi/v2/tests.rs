use super::*;
use crate::openapi::{Resource, Schemas, Subresource};

fn v2() -> Value {
    let below = [Subresource { name: "eviction", api_version: "policy/v1", kind: "Eviction", methods: &["post"] }];
    let pods = Resource { kind: "Pod", plural: "pods", namespaced: true, subresources: &below, schema: None };
    let v3 = crate::openapi::document(&Schemas::unpack(), "v1", &[pods]);
    document([&v3], "v1.37.0")
}

#[test]
fn schemas_say_the_same_in_older_words() {
    let document = v2();
    let definitions = &document["definitions"];
    let pod = &definitions["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    let spec = &pod["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(!spec["description"].as_str().unwrap().is_empty());
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["items"]["$ref"], "#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"], "string");
    // Nothing of the newer language is left.
    let text = document.to_string();
    for newer in ["#/components", "\"oneOf\"", "\"allOf\"", "\"nullable\"", "\"requestBody\""] {
        assert!(!text.contains(newer), "{newer}");
    }
    for name in text.split("#/definitions/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(definitions[name].is_object(), "{name}");
    }
}

#[test]
fn kubectl_finds_the_parameter_that_it_looks_for() {
    let document = v2();
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
    let named = |name: &str| patch["parameters"].as_array().unwrap().iter().find(|p| p["name"] == name).cloned();
    assert_eq!(named("fieldValidation").unwrap()["type"], "string");
    assert_eq!(named("body").unwrap()["schema"]["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
}

/// Fields of a message: number and content.
fn fields(mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    fn number(bytes: &mut &[u8]) -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let length = if tag & 7 == 2 { number(&mut bytes) } else { 1 };
        let (content, rest) = bytes.split_at(length);
        found.push((tag >> 3, content));
        bytes = rest;
    }
    found
}

fn one(bytes: &[u8], path: &[usize]) -> Vec<u8> {
    path.iter().fold(bytes.to_vec(), |bytes, wanted| {
        fields(&bytes).into_iter().find(|(field, _)| field == wanted).unwrap().1.to_vec()
    })
}

/// The entry of a map by its name.
fn entry(bytes: &[u8], list: usize, name: &str) -> Vec<u8> {
    let entries = fields(bytes).into_iter().filter(|(field, _)| *field == list);
    entries
        .map(|(_, entry)| entry)
        .find(|entry| one(entry, &[1]) == name.as_bytes())
        .map(|entry| one(entry, &[2]))
        .unwrap()
}

#[test]
fn the_protobuf_form_has_the_same_in_gnostics_fields() {
    let document = v2();
    let bytes = protobuf(&document);
    assert_eq!(one(&bytes, &[1]), b"2.0");
    assert_eq!(one(&bytes, &[2, 2]), b"v1.37.0");
    let definitions = one(&bytes, &[9]);
    assert_eq!(fields(&definitions).len(), document["definitions"].as_object().unwrap().len());
    let spec = entry(&definitions, 1, "io.k8s.api.core.v1.PodSpec");
    let containers = entry(&one(&spec, &[25]), 1, "containers");
    assert_eq!(one(&containers, &[22, 1]), b"array");
    assert_eq!(one(&containers, &[23, 1, 1]), b"#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(one(&entry(&containers, 31, "x-kubernetes-patch-merge-key"), &[2]), b"\"name\"");
    let item = entry(&one(&bytes, &[8]), 2, "/api/v1/namespaces/{namespace}/pods/{name}");
    let patch = one(&item, &[8]);
    let queries = fields(&patch).into_iter().filter(|(field, _)| *field == 8).filter_map(|(_, parameter)| {
        let parameter = one(parameter, &[1]);
        fields(&parameter)[0].0.eq(&2).then(|| String::from_utf8(one(&parameter, &[2, 3, 4])).unwrap())
    });
    assert_eq!(queries.collect::<Vec<_>>(), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(
        String::from_utf8(one(&entry(&patch, 13, "x-kubernetes-group-version-kind"), &[2])).unwrap().contains("Pod")
    );
}
