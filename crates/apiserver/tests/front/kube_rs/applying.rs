//! Definitions, and server-side apply.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};

use super::*;

/// A definition as kube's derive writes one: a title, empty lists, a status that may be null.
fn definition() -> CustomResourceDefinition {
    let count = json!({"format": "int32", "type": "integer"});
    let schema = json!({
        "description": "Auto-generated derived type for FooSpec via `CustomResource`", "title": "Foo", "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "description": "Our spec for Foo", "type": "object", "required": ["name", "replicas"],
                "properties": {
                    "name": {"type": "string"}, "replicas": count,
                    "info": {"nullable": true, "type": "string"},
                    "mode": {"default": "Slow", "description": "How.", "enum": ["Slow", "Fast"], "type": "string"},
                    "conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                        "items": {"type": "object", "required": ["type"], "properties": {
                            "type": {"type": "string"}, "message": {"type": "string"},
                        }},
                    },
                },
            },
            "status": {
                "nullable": true, "type": "object", "required": ["is_bad"],
                "properties": {"is_bad": {"type": "boolean"}, "replicas": {"format": "int32", "nullable": true, "type": "integer"}},
            },
        },
    });
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.clux.dev"},
        "spec": {
            "group": "clux.dev", "scope": "Namespaced",
            "names": {"categories": [], "kind": "Foo", "plural": "foos", "shortNames": ["f"], "singular": "foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    {"name": "Spec", "description": "name of foo", "jsonPath": ".spec.name", "type": "string"},
                ],
                "subresources": {
                    "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }],
        },
    }))
}

async fn foos(client: &Client) -> Api<DynamicObject> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions
        .patch("foos.clux.dev", &PatchParams::apply("suite").force(), &Patch::Apply(definition()))
        .await
        .unwrap();
    let established = await_condition(definitions, "foos.clux.dev", conditions::is_crd_established());
    soon("the definition", established).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("clux.dev", "v1", "Foo"));
    Api::namespaced_with(client.clone(), "default", &kind)
}

fn foo(spec: &Value) -> Value {
    json!({"apiVersion": "clux.dev/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test]
async fn derived_definitions_are_served_with_defaults_status_and_scale() {
    let (_server, client) = cluster().await;
    let foos = foos(&client).await;
    let made =
        foos.create(&PostParams::default(), &object(foo(&json!({"name": "n", "replicas": 2, "info": null})))).await;
    let made = made.unwrap();
    assert_eq!((&made.data["spec"]["mode"], made.metadata.generation), (&json!("Slow"), Some(1)));
    let refused = foos.create(&PostParams::default(), &object(foo(&json!({"name": "n"})))).await.unwrap_err();
    assert!(refused.to_string().contains("spec.replicas"), "{refused}");
    let status = json!({"status": {"is_bad": false, "replicas": 1}, "spec": {"name": "other"}});
    let written = foos.patch_status("a", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!((&written.data["spec"]["name"], &written.data["status"]["is_bad"]), (&json!("n"), &json!(false)));
    let scale = json!({"spec": {"replicas": 7}});
    let scale = foos.patch_scale("a", &PatchParams::default(), &Patch::Merge(scale)).await.unwrap();
    assert_eq!((scale.spec.unwrap().replicas, scale.status.unwrap().replicas), (Some(7), 1));
    assert_eq!(foos.get("a").await.unwrap().data["spec"]["replicas"], 7);
    // The discovery of kube-rs finds what it needs.
    let group = kube::discovery::group(&client, "clux.dev").await.unwrap();
    let (resource, capabilities) = group.recommended_kind("Foo").unwrap();
    assert_eq!((resource.plural.as_str(), capabilities.subresources.len()), ("foos", 2));
}

#[tokio::test]
async fn who_applies_owns_and_conflicts_are_told_until_somebody_insists() {
    let (_server, client) = cluster().await;
    let foos = foos(&client).await;
    let apply = async |manager: &str, force: bool, spec: Value| {
        let mut params = PatchParams::apply(manager);
        params.force = force;
        foos.patch("a", &params, &Patch::Apply(foo(&spec))).await
    };
    let condition = |kind: &str, message: &str| json!({"type": kind, "message": message});
    apply("one", false, json!({"name": "n", "replicas": 1, "conditions": [condition("A", "a")]})).await.unwrap();
    let both =
        apply("two", false, json!({"name": "n", "replicas": 1, "conditions": [condition("B", "b")]})).await.unwrap();
    assert_eq!(both.data["spec"]["conditions"], json!([condition("A", "a"), condition("B", "b")]));
    let conflict = apply("two", false, json!({"name": "n", "replicas": 2})).await.unwrap_err();
    let kube::Error::Api(status) = conflict else { panic!("{conflict}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.details.unwrap().causes[0].field, ".spec.replicas");
    let insisted = apply("two", true, json!({"name": "n", "replicas": 2})).await.unwrap();
    // What nobody applies any more is gone; what another one applies stays.
    assert_eq!(insisted.data["spec"]["conditions"], json!([condition("A", "a")]));
    assert_eq!(insisted.data["spec"]["replicas"], 2);
    let managers: Vec<String> =
        insisted.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["one", "two"]);
}
