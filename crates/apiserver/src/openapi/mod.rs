//! OpenAPI v3: what kubectl reads before it writes, and what `kubectl explain` shows.
//!
//! - [`index`] is `/openapi/v3`: where each group version's document is, with its hash.
//! - [`document`] is one group version's: for every resource its paths with their kind, the `fieldValidation` parameter
//!   of PATCH, POST and PUT that tells kubectl to leave validation to the server, and the schemas of everything that the
//!   kinds reach, with descriptions.
//!
//! kubectl fails for a kind that has no PATCH operation in such a document, so custom resources are in them too. Paths
//! say no more than clients read: one answer each, no watches.
//!
//! [`v2`] makes the older language of these documents.
//!
//! The built-in schemas are upstream's, packed in `data/openapi.json.gz` and unpacked for every document that is made;
//! callers keep the document's bytes until its resources change.

pub mod v2;

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

const PACKED: &[u8] = include_bytes!("../../data/openapi.json.gz");
const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A resource of a document.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// `Pod`.
    pub kind: &'a str,
    /// `pods`.
    pub plural: &'a str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What is below its objects.
    pub subresources: &'a [Subresource<'a>],
    /// `openAPIV3Schema` of a custom resource, or null where it has none; `None` for a built-in kind.
    pub schema: Option<&'a Value>,
}

/// A path below an object: `status`, `eviction`.
#[derive(Debug, Clone, Copy)]
pub struct Subresource<'a> {
    /// The path's last word.
    pub name: &'a str,
    /// `apiVersion` of the body.
    pub api_version: &'a str,
    /// Kind of the body.
    pub kind: &'a str,
    /// `get`, `put`, `patch`, `post`.
    pub methods: &'a [&'a str],
}

/// The index of documents: each an `apiVersion` and the hash of its bytes.
#[must_use]
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths = documents.into_iter().map(|(api_version, hash)| {
        let path = root(api_version);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// `api/v1`, `apis/coordination.k8s.io/v1`.
fn root(api_version: &str) -> String {
    let prefix = if api_version.contains('/') { "apis" } else { "api" };
    format!("{prefix}/{api_version}")
}

/// The schemas of everything that the server knows by itself.
#[derive(Debug, Default)]
pub struct Schemas(Map<String, Value>);

impl Schemas {
    /// Unpacks them: some milliseconds and megabytes, so for as long as documents are made.
    #[must_use]
    pub fn unpack() -> Self {
        Self(builtin_schemas())
    }
}

/// The document of a group version.
#[must_use]
pub fn document(schemas: &Schemas, api_version: &str, resources: &[Resource<'_>]) -> Value {
    let Schemas(all) = schemas;
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in resources {
        let name = match resource.schema {
            None => schema_of(all, api_version, resource.kind).unwrap_or_else(|| format!("{META}.Unknown")),
            Some(schema) => {
                let name = custom_name(api_version, resource.kind);
                schemas.insert(name.clone(), custom_schema(api_version, resource.kind, schema));
                name
            }
        };
        add(all, &name, &mut schemas);
        add_references(all, &schemas.get(&name).cloned().unwrap_or(Value::Null), &mut schemas);
        let patches = if resource.schema.is_some() { &PATCHES[1..] } else { PATCHES };
        let mut base = format!("/{}", root(api_version));
        if resource.namespaced {
            base.push_str("/namespaces/{namespace}");
        }
        let collection = format!("{base}/{}", resource.plural);
        let item = format!("{collection}/{{name}}");
        let operation = |method: &str| operation(method, api_version, resource.kind, &name, patches);
        paths.insert(collection, path(&["get", "post", "delete"], resource.namespaced, false, operation));
        paths.insert(item.clone(), path(&["get", "put", "patch", "delete"], resource.namespaced, true, operation));
        for below in resource.subresources {
            let of_parent = || (below.kind == resource.kind).then(|| name.clone());
            let name = of_parent().or_else(|| schema_of(all, below.api_version, below.kind)).unwrap_or_default();
            add(all, &name, &mut schemas);
            let operation = |method: &str| self::operation(method, below.api_version, below.kind, &name, patches);
            paths.insert(format!("{item}/{}", below.name), path(below.methods, resource.namespaced, true, operation));
        }
    }
    for name in ["Patch", "Status", "DeleteOptions"] {
        add(all, &format!("{META}.{name}"), &mut schemas);
    }
    schemas.entry(format!("{META}.Patch")).or_insert_with(|| {
        json!({"type": "object", "description": "Patch is a change of an object, in the form that its content type says."})
    });
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Strategic merge patches first: custom resources have none.
const PATCHES: &[&str] = &[
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];

fn builtin_schemas() -> Map<String, Value> {
    let mut text = Vec::new();
    // The data is part of the program; a test unpacks it.
    let unpacked = GzDecoder::new(PACKED).read_to_end(&mut text).ok().and_then(|_| serde_json::from_slice(&text).ok());
    unpacked.unwrap_or_default()
}

fn group_version_kind(api_version: &str, kind: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({"group": group, "version": version, "kind": kind})
}

/// The name of the schema that says of itself that it is this kind.
fn schema_of(all: &Map<String, Value>, api_version: &str, kind: &str) -> Option<String> {
    let wanted = group_version_kind(api_version, kind);
    let kinds = |schema: &Value| schema["x-kubernetes-group-version-kind"].as_array().cloned().unwrap_or_default();
    all.iter().find(|(_, schema)| kinds(schema).contains(&wanted)).map(|(name, _)| name.clone())
}

/// `io.example.v1.Kind` of `example.io/v1`.
fn custom_name(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// A custom resource's schema, with what every object has.
fn custom_schema(api_version: &str, kind: &str, schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(_) => schema.clone(),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(api_version, kind)]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] =
        json!({"type": "string", "description": "Group and version of this representation of the object."});
    schema["properties"]["kind"] = json!({"type": "string", "description": "Kind of the object."});
    schema["properties"]["metadata"] = json!({
        "description": "What every object has: name, labels, owners.",
        "allOf": [{"$ref": format!("{REFERENCE}{META}.ObjectMeta")}],
    });
    schema
}

/// Adds a schema and everything that it refers to.
fn add(all: &Map<String, Value>, name: &str, into: &mut Map<String, Value>) {
    if into.contains_key(name) {
        return;
    }
    let Some(schema) = all.get(name) else { return };
    into.insert(name.to_owned(), schema.clone());
    add_references(all, schema, into);
}

fn add_references(all: &Map<String, Value>, schema: &Value, into: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE)) {
                add(all, name, into);
            }
            fields.values().for_each(|field| add_references(all, field, into));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| add_references(all, entry, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn path(methods: &[&str], namespaced: bool, named: bool, operation: impl Fn(&str) -> Value) -> Value {
    let mut path: Map<String, Value> = methods.iter().map(|method| ((*method).to_owned(), operation(method))).collect();
    let place = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let mut parameters = Vec::new();
    parameters.extend(named.then(|| place("name")));
    parameters.extend(namespaced.then(|| place("namespace")));
    path.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(path)
}

fn operation(method: &str, api_version: &str, kind: &str, schema: &str, patches: &[&str]) -> Value {
    let reference = json!({"schema": {"$ref": format!("{REFERENCE}{schema}")}});
    let patch = json!({"schema": {"$ref": format!("{REFERENCE}{META}.Patch")}});
    let options = json!({"schema": {"$ref": format!("{REFERENCE}{META}.DeleteOptions")}});
    let query = |name: &str, kind: &str| json!({"name": name, "in": "query", "schema": {"type": kind}});
    let mut operation = json!({
        "description": format!("{method} {kind}"),
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        "x-kubernetes-group-version-kind": group_version_kind(api_version, kind),
    });
    let mut parameters = Vec::new();
    if method != "get" {
        parameters.push(query("dryRun", "string"));
    }
    match method {
        "post" | "put" => {
            parameters.extend([query("fieldManager", "string"), query("fieldValidation", "string")]);
            operation["requestBody"] = json!({"required": true, "content": {"*/*": reference}});
        }
        "patch" => {
            let query =
                [query("fieldManager", "string"), query("fieldValidation", "string"), query("force", "boolean")];
            parameters.extend(query);
            let content: Map<_, _> = patches.iter().map(|kind| ((*kind).to_owned(), patch.clone())).collect();
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        "delete" => operation["requestBody"] = json!({"content": {"*/*": options}}),
        _ => {}
    }
    operation["parameters"] = Value::Array(parameters);
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &[Subresource<'_>] =
        &[Subresource { name: "status", api_version: "v1", kind: "Pod", methods: &["get", "put", "patch"] }];

    fn pods() -> Value {
        let eviction = Subresource { name: "eviction", api_version: "policy/v1", kind: "Eviction", methods: &["post"] };
        let below = [STATUS[0], eviction];
        document(
            &Schemas::unpack(),
            "v1",
            &[Resource { kind: "Pod", plural: "pods", namespaced: true, subresources: &below, schema: None }],
        )
    }

    /// What kubectl asks: is there a PATCH for this kind that validates fields?
    fn validates(document: &Value, group: &str, version: &str, kind: &str) -> bool {
        let wanted = json!({"group": group, "version": version, "kind": kind});
        document["paths"].as_object().unwrap().values().any(|path| {
            path["patch"]["x-kubernetes-group-version-kind"] == wanted
                && path["patch"]["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation")
        })
    }

    /// Every reference leads somewhere.
    fn whole(document: &Value) {
        fn walk(value: &Value, schemas: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                        let name = name.strip_prefix(REFERENCE).unwrap();
                        assert!(schemas[name].is_object(), "{name}");
                    }
                    fields.values().for_each(|value| walk(value, schemas));
                }
                Value::Array(entries) => entries.iter().for_each(|value| walk(value, schemas)),
                _ => {}
            }
        }
        walk(document, &document["components"]["schemas"]);
    }

    #[test]
    fn kubectl_finds_out_that_the_server_validates() {
        let document = pods();
        assert!(validates(&document, "", "v1", "Pod"));
        assert!(!validates(&document, "", "v1", "Node"));
        whole(&document);
        let item = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
        assert!(item["patch"]["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
        let eviction = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"];
        assert_eq!(eviction["x-kubernetes-group-version-kind"]["group"], "policy");
    }

    #[test]
    fn explain_finds_kinds_fields_and_descriptions() {
        let document = pods();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let gvk = json!({"group": "", "version": "v1", "kind": "Pod"});
        let of_kind = |s: &&Value| s["x-kubernetes-group-version-kind"].as_array().is_some_and(|k| k.contains(&gvk));
        let pod = schemas.values().find(of_kind).unwrap();
        assert!(!pod["description"].as_str().unwrap().is_empty());
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert!(!spec["description"].as_str().unwrap().is_empty());
        assert!(schemas.get("io.k8s.api.core.v1.Node").is_none());
    }

    #[test]
    fn custom_resources_are_there_with_their_own_schema() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "What."}}});
        for schema in [&schema, &Value::Null] {
            let resource = Resource {
                kind: "Widget",
                plural: "widgets",
                namespaced: false,
                subresources: &[],
                schema: Some(schema),
            };
            let document = document(&Schemas::unpack(), "shop.example/v1", &[resource]);
            assert!(validates(&document, "shop.example", "v1", "Widget"));
            whole(&document);
            let item = &document["paths"]["/apis/shop.example/v1/widgets/{name}"]["patch"]["requestBody"]["content"];
            assert!(item.get("application/strategic-merge-patch+json").is_none());
            assert!(item["application/apply-patch+yaml"].is_object());
            let widget = &document["components"]["schemas"]["example.shop.v1.Widget"];
            assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
            assert!(widget["properties"]["metadata"]["allOf"].is_array());
        }
    }

    #[test]
    fn the_index_leads_to_each_document() {
        let index = index([("v1", "A"), ("coordination.k8s.io/v1", "B")]);
        assert_eq!(
            index,
            json!({"paths": {
                "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"},
                "apis/coordination.k8s.io/v1": {"serverRelativeURL": "/openapi/v3/apis/coordination.k8s.io/v1?hash=B"},
            }})
        );
    }

    #[test]
    fn the_packed_schemas_are_those_of_the_table() {
        let all = builtin_schemas();
        assert!(all.len() > 250);
        for (name, schema) in &all {
            let Some(crate::schema::Kind::Struct { id, .. }) = crate::schema::builtin().named(name) else { continue };
            let fields = crate::schema::builtin().get(id).fields.len();
            assert_eq!(schema["properties"].as_object().map_or(0, Map::len), fields, "{name}");
        }
    }
}
