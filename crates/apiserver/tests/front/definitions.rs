//! Custom resources over HTTP: from a definition to its objects and back to nothing.

use std::time::Duration;

use hyper::Method;
use minke_apiserver::http::Limits;
use serde_json::{Value, json};

use crate::server::{ADMIN, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example/v1/namespaces/default/widgets";

fn schema() -> Value {
    json!({"openAPIV3Schema": {"type": "object", "description": "A widget is a thing.", "properties": {
        "spec": {"type": "object", "description": "What it is to be.", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "description": "How large it is."},
            "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer"},
                }},
            },
        }},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}},
    }}})
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example"},
        "spec": {
            "group": "shop.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": schema(),
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
                }},
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            }],
        },
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn with_widgets() -> TestServer {
    let server = TestServer::start(Limits::default()).await;
    let (code, created) = server.json(ADMIN, Method::POST, DEFINITIONS, &widgets()).await;
    assert_eq!(code, 201, "{created}");
    server
}

/// Until it is so: what the server does by itself takes a moment.
async fn until(server: &TestServer, path: &str, so: impl Fn(u16, &Value) -> bool) {
    for _ in 0..500 {
        let (code, body) = server.json(ADMIN, Method::GET, path, &Value::Null).await;
        if so(code, &body) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} does not come about");
}

#[tokio::test]
async fn a_definition_is_established_and_its_kind_served_at_once() {
    let server = with_widgets().await;
    let (_, definition) =
        server.json(ADMIN, Method::GET, &format!("{DEFINITIONS}/widgets.shop.example"), &Value::Null).await;
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"), "{definition}");
    assert_eq!(definition["status"]["acceptedNames"]["singular"], "widget");
    let (_, group) = server.json(ADMIN, Method::GET, "/apis/shop.example", &Value::Null).await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let (_, list) = server.json(ADMIN, Method::GET, "/apis/shop.example/v1", &Value::Null).await;
    let names: Vec<&str> = list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let (code, empty) = server.json(ADMIN, Method::GET, WIDGETS, &Value::Null).await;
    assert_eq!((code, empty["kind"].as_str()), (200, Some("WidgetList")));
    let (_, document) = server.json(ADMIN, Method::GET, "/openapi/v3/apis/shop.example/v1", &Value::Null).await;
    let schema = &document["components"]["schemas"]["example.shop.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["description"], "How large it is.");
}

#[tokio::test]
async fn custom_objects_are_pruned_completed_and_validated() {
    let server = with_widgets().await;
    let spec = json!({"size": 2, "odd": 1, "free": {"x": [1]}, "port": "http"});
    let (code, created) = server.json(ADMIN, Method::POST, WIDGETS, &widget("a", &spec)).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"], json!({"size": 2, "colour": "red", "free": {"x": [1]}, "port": "http"}));
    assert_eq!(created["metadata"]["generation"], 1);
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let (code, refused) = server.json(ADMIN, Method::POST, &strict, &widget("b", &spec)).await;
    assert_eq!(code, 400);
    assert!(
        refused["message"].as_str().unwrap().ends_with(r#"strict decoding error: unknown field "spec.odd""#),
        "{refused}"
    );
    let wrong = json!({"size": 0, "colour": "green", "parts": [{"name": "p"}, {"name": "p"}]});
    let (code, refused) = server.json(ADMIN, Method::POST, WIDGETS, &widget("b", &wrong)).await;
    assert_eq!((code, refused["details"]["kind"].as_str()), (422, Some("Widget")));
    let fields: Vec<&str> =
        refused["details"]["causes"].as_array().unwrap().iter().map(|c| c["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.colour", "spec.size", "spec.parts[1]"]);
    let (code, _) = server.json(ADMIN, Method::POST, WIDGETS, &widget("b", &json!({}))).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn status_and_scale_are_parts_of_their_own() {
    let server = with_widgets().await;
    let mut object = widget("a", &json!({"size": 2}));
    object["status"] = json!({"size": 9});
    let (_, created) = server.json(ADMIN, Method::POST, WIDGETS, &object).await;
    assert_eq!(created.get("status"), None, "who creates says no status");
    let status = json!({"spec": {"size": 7}, "status": {"size": 1, "selector": "a=b"}});
    let (code, told) = server.json(ADMIN, Method::PATCH, &format!("{WIDGETS}/a/status"), &status).await;
    assert_eq!((code, &told["spec"]["size"], &told["status"]["size"]), (200, &json!(2), &json!(1)));
    assert_eq!(told["metadata"]["generation"], 1);
    let (_, scale) = server.json(ADMIN, Method::GET, &format!("{WIDGETS}/a/scale"), &Value::Null).await;
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 2})));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b"}));
    let five = json!({"spec": {"replicas": 5}});
    let (code, scale) = server.json(ADMIN, Method::PATCH, &format!("{WIDGETS}/a/scale"), &five).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(5)));
    let mut stale = scale.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    let (code, _) = server.json(ADMIN, Method::PUT, &format!("{WIDGETS}/a/scale"), &stale).await;
    assert_eq!(code, 409);
    let (_, object) = server.json(ADMIN, Method::GET, &format!("{WIDGETS}/a"), &Value::Null).await;
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(5), &json!(2)));
}

#[tokio::test]
async fn fields_that_a_definition_names_can_be_selected_by() {
    let server = with_widgets().await;
    for (name, colour) in [("a", "red"), ("b", "blue")] {
        let (code, _) =
            server.json(ADMIN, Method::POST, WIDGETS, &widget(name, &json!({"size": 1, "colour": colour}))).await;
        assert_eq!(code, 201);
    }
    let (_, list) =
        server.json(ADMIN, Method::GET, &format!("{WIDGETS}?fieldSelector=spec.colour%3Dblue"), &Value::Null).await;
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["b"]);
    let (code, _) =
        server.json(ADMIN, Method::GET, &format!("{WIDGETS}?fieldSelector=spec.size%3D1"), &Value::Null).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn versions_of_one_kind_show_the_same_objects() {
    let server = with_widgets().await;
    let (code, _) = server.json(ADMIN, Method::POST, WIDGETS, &widget("a", &json!({"size": 1}))).await;
    assert_eq!(code, 201);
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let (_, mut definition) = server.json(ADMIN, Method::GET, &path, &Value::Null).await;
    let mut v2 = definition["spec"]["versions"][0].clone();
    v2["name"] = "v2".into();
    v2["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] =
        json!({"type": "string", "default": "round"});
    definition["spec"]["versions"][0]["storage"] = false.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(v2);
    let (code, changed) = server.json(ADMIN, Method::PUT, &path, &definition).await;
    assert_eq!(code, 200, "{changed}");
    let in_v2 = WIDGETS.replace("/v1/", "/v2/");
    let (_, object) = server.json(ADMIN, Method::GET, &format!("{in_v2}/a"), &Value::Null).await;
    assert_eq!(object["apiVersion"], "shop.example/v2");
    assert_eq!(object["spec"], json!({"size": 1, "colour": "red", "shape": "round"}), "defaults come on reading, too");
    let (_, object) = server.json(ADMIN, Method::GET, &format!("{WIDGETS}/a"), &Value::Null).await;
    assert_eq!((&object["apiVersion"], &object["spec"]["shape"]), (&json!("shop.example/v1"), &Value::Null));
    let (code, _) = server.json(ADMIN, Method::PATCH, &format!("{WIDGETS}/a"), &json!({"spec": {"size": 3}})).await;
    assert_eq!(code, 200);
    let (_, list) = server.json(ADMIN, Method::GET, &in_v2, &Value::Null).await;
    assert_eq!(
        (&list["items"][0]["apiVersion"], &list["items"][0]["spec"]["size"]),
        (&json!("shop.example/v2"), &json!(3))
    );
    let (_, definition) = server.json(ADMIN, Method::GET, &path, &Value::Null).await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1", "v2"]));
    let (_, group) = server.json(ADMIN, Method::GET, "/apis/shop.example", &Value::Null).await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_and_then_its_kind() {
    let server = with_widgets().await;
    let mut held = widget("a", &json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["test.example/held"]);
    for object in [held, widget("b", &json!({"size": 1}))] {
        assert_eq!(server.json(ADMIN, Method::POST, WIDGETS, &object).await.0, 201);
    }
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let (code, going) = server.json(ADMIN, Method::DELETE, &path, &Value::Null).await;
    assert_eq!((code, &going["metadata"]["finalizers"]), (200, &json!(["customresourcecleanup.apiextensions.k8s.io"])));
    until(&server, &format!("{WIDGETS}/b"), |code, _| code == 404).await;
    let (code, _) = server.json(ADMIN, Method::POST, WIDGETS, &widget("c", &json!({"size": 1}))).await;
    assert_eq!(code, 405, "nothing new comes to a kind that goes");
    let (code, _) = server.json(ADMIN, Method::GET, &path, &Value::Null).await;
    assert_eq!(code, 200, "an object that is held holds its definition");
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.json(ADMIN, Method::PATCH, &format!("{WIDGETS}/a"), &free).await.0, 200);
    until(&server, &path, |code, _| code == 404).await;
    let (code, _) = server.json(ADMIN, Method::GET, WIDGETS, &Value::Null).await;
    assert_eq!(code, 404);
    let (code, _) = server.json(ADMIN, Method::GET, "/apis/shop.example", &Value::Null).await;
    assert_eq!(code, 404);
    assert_eq!(server.json(ADMIN, Method::POST, DEFINITIONS, &widgets()).await.0, 201, "it may come again");
    let (_, list) = server.json(ADMIN, Method::GET, WIDGETS, &Value::Null).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn definitions_and_objects_of_custom_kinds_outlive_the_server() {
    let server = with_widgets().await;
    assert_eq!(server.json(ADMIN, Method::POST, WIDGETS, &widget("a", &json!({"size": 1}))).await.0, 201);
    let server = server.restart().await;
    let (code, object) = server.json(ADMIN, Method::GET, &format!("{WIDGETS}/a"), &Value::Null).await;
    assert_eq!((code, &object["spec"]["size"]), (200, &json!(1)));
}

#[tokio::test]
async fn namespaces_take_custom_objects_with_them() {
    let server = with_widgets().await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}});
    assert_eq!(server.json(ADMIN, Method::POST, "/api/v1/namespaces", &space).await.0, 201);
    let there = WIDGETS.replace("default", "gone");
    assert_eq!(server.json(ADMIN, Method::POST, &there, &widget("a", &json!({"size": 1}))).await.0, 201);
    assert_eq!(server.json(ADMIN, Method::DELETE, "/api/v1/namespaces/gone", &Value::Null).await.0, 200);
    until(&server, "/api/v1/namespaces/gone", |code, _| code == 404).await;
    let (_, all) = server.json(ADMIN, Method::GET, "/apis/shop.example/v1/widgets", &Value::Null).await;
    assert_eq!(all["items"], json!([]));
}

#[tokio::test]
async fn strategic_merge_patches_are_not_for_custom_kinds_and_apply_merges_lists_by_their_keys() {
    let server = with_widgets().await;
    let spec = json!({"size": 1, "parts": [{"name": "p", "count": 1}]});
    assert_eq!(server.json(ADMIN, Method::POST, WIDGETS, &widget("a", &spec)).await.0, 201);
    let path = format!("{WIDGETS}/a");
    let (code, told) =
        server.patch("application/strategic-merge-patch+json", &path, &json!({"spec": {"size": 2}})).await;
    assert_eq!(code, 415, "{told}");
    let applied = widget("a", &json!({"parts": [{"name": "q", "count": 2}]}));
    let (code, told) = server.patch("application/apply-patch+yaml", &format!("{path}?fieldManager=me"), &applied).await;
    assert_eq!(code, 200, "{told}");
    assert_eq!(told["spec"]["parts"], json!([{"name": "p", "count": 1}, {"name": "q", "count": 2}]));
    let owned = told["metadata"]["managedFields"].to_string();
    assert!(owned.contains(r#"k:{\"name\":\"q\"}"#), "{owned}");
}
