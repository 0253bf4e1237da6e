//! `CustomResourceDefinition` as a kind: its defaults and rules.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use serde_json::{Value, json};

use super::check::check;
use super::node::Node;
use super::{rules, structural};
use crate::error::Cause;
use crate::kinds::{forbidden, invalid};
use crate::table::JsonPath;

/// What holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// Most selectable fields of a version.
const MOST_FIELDS: usize = 8;
/// Groups of Kubernetes itself need the blessing of its reviewers.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Through its type, with defaults.
pub(crate) fn complete(value: Value) -> Result<Value, serde_json::Error> {
    let mut definition: CustomResourceDefinition = serde_json::from_value(value)?;
    let names = &mut definition.spec.names;
    let (singular, list_kind) = (names.kind.to_lowercase(), format!("{}List", names.kind));
    if !names.kind.is_empty() {
        names.singular.get_or_insert(singular);
        names.list_kind.get_or_insert(list_kind);
    }
    let none = || CustomResourceConversion { strategy: "None".to_owned(), webhook: None };
    definition.spec.conversion.get_or_insert_with(none);
    let mut value = serde_json::to_value(definition)?;
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        whole(&mut version["schema"]);
    }
    Ok(value)
}

/// Bounds are floating-point numbers in Rust as in Go, which writes `1` for one.
fn whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let small = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15);
            #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
            if let Some(number) = small {
                *value = (number as i64).into();
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(whole),
        Value::Object(fields) => fields.values_mut().for_each(whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A new one has been stored in its storage version, and nothing else is known of it yet.
pub(crate) fn create(value: &mut Value) {
    let versions = value["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<Value> = versions.filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    value["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": stored});
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn required(at: &str, why: &str) -> Cause {
    let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
    Cause::new("FieldValueRequired", message, at)
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(inner)
        && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Rules for the definition alone.
pub(crate) fn validate(object: &Value) -> Vec<Cause> {
    let mut found = crate::kinds::metadata(object);
    let spec = &object["spec"];
    let group = text(spec, "group");
    found.extend(name_matches(object));
    if group.is_empty() {
        found.push(required("spec.group", ""));
    } else if !is_subdomain(group) {
        found.push(invalid("spec.group", &group.into(), SUBDOMAIN));
    } else if !group.contains('.') {
        found.push(invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if protected && text(&object["metadata"]["annotations"], APPROVAL).is_empty() {
        let why = format!(
            "protected groups must have approval annotation {APPROVAL:?}, see https://github.com/kubernetes/enhancements/pull/1111"
        );
        found.push(required(&format!("metadata.annotations[{APPROVAL}]"), &why));
    }
    match text(spec, "scope") {
        "" => found.push(required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let message = format!("Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\"");
            found.push(Cause::new("FieldValueNotSupported", message, "spec.scope"));
        }
    }
    if spec["preserveUnknownFields"] == true {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        found.push(invalid("spec.preserveUnknownFields", &true.into(), why));
    }
    names(&spec["names"], "spec.names", &mut found);
    versions(spec, &mut found);
    found
}

/// A definition is called by its resource.
fn name_matches(object: &Value) -> Option<Cause> {
    let wanted = format!("{}.{}", text(&object["spec"]["names"], "plural"), text(&object["spec"], "group"));
    let name = text(&object["metadata"], "name");
    let why = "must be spec.names.plural+\".\"+spec.group";
    (name != wanted).then(|| invalid("metadata.name", &name.into(), why))
}

fn names(names: &Value, at: &str, found: &mut Vec<Cause>) {
    for field in ["plural", "singular"] {
        match text(names, field) {
            "" => found.push(required(&format!("{at}.{field}"), "")),
            name if !is_label(name) => found.push(invalid(&format!("{at}.{field}"), &name.into(), LABEL)),
            _ => {}
        }
    }
    for field in ["kind", "listKind"] {
        match text(names, field) {
            "" => found.push(required(&format!("{at}.{field}"), "")),
            name if !is_label(&name.to_lowercase()) => {
                let why = format!("may have mixed case, but should otherwise match: {LABEL}");
                found.push(invalid(&format!("{at}.{field}"), &name.into(), &why));
            }
            _ => {}
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        found.push(invalid(&format!("{at}.listKind"), &names["listKind"], "kind and listKind may not be the same"));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in names[field].as_array().into_iter().flatten().enumerate() {
            if !is_label(name.as_str().unwrap_or_default()) {
                found.push(invalid(&format!("{at}.{field}[{index}]"), name, LABEL));
            }
        }
    }
}

fn versions(spec: &Value, found: &mut Vec<Cause>) {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        unique &= seen.insert(name);
        if !is_label(name) {
            found.push(invalid(&format!("spec.versions[{index}].name"), &name.into(), LABEL));
        }
    }
    let listed = Value::from(versions.to_vec());
    if !unique {
        found.push(invalid("spec.versions", &listed, "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        found.push(invalid("spec.versions", &listed, why));
    }
    match text(&spec["conversion"], "strategy") {
        "" | "None" => {}
        "Webhook" if versions.iter().filter(|version| version["served"] == true).count() < 2 => {}
        "Webhook" => {
            let why = "versions are converted by changing apiVersion alone; webhooks are not called";
            found.push(forbidden("spec.conversion.strategy", why));
        }
        other => {
            let message = format!("Unsupported value: {other:?}: supported values: \"None\", \"Webhook\"");
            found.push(Cause::new("FieldValueNotSupported", message, "spec.conversion.strategy"));
        }
    }
    // What all versions have in common upstream tells of once.
    let one = |field: &str| versions.iter().all(|version| version[field] == versions[0][field]);
    for (index, version) in versions.iter().enumerate() {
        let each = format!("spec.versions[{index}]");
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            found.push(required(&format!("{each}.schema.openAPIV3Schema"), "schemas are required"));
        } else if index == 0 || !one("schema") {
            let at = if one("schema") { "spec.validation".to_owned() } else { format!("{each}.schema") };
            schema_rules(schema, &format!("{at}.openAPIV3Schema"), found);
        }
        if index == 0 || !one("subresources") {
            let at = if one("subresources") { "spec" } else { each.as_str() };
            subresources(&version["subresources"], &format!("{at}.subresources"), found);
        }
        if index == 0 || !one("additionalPrinterColumns") {
            let at = if one("additionalPrinterColumns") { "spec" } else { each.as_str() };
            columns(&version["additionalPrinterColumns"], &format!("{at}.additionalPrinterColumns"), found);
        }
        fields(&version["selectableFields"], schema, &format!("{each}.selectableFields"), found);
    }
}

/// The schema is structural, and its own defaults are right.
fn schema_rules(schema: &Value, at: &str, found: &mut Vec<Cause>) {
    let problems = structural::problems(schema, at);
    if problems.is_empty() {
        defaults(schema, at, found);
        found.extend(rules::misspelt(schema, at));
    }
    found.extend(problems);
}

fn defaults(schema: &Value, at: &str, found: &mut Vec<Cause>) {
    let default = &schema["default"];
    if !default.is_null()
        && let Ok(props) = serde_json::from_value(schema.clone())
        && let Ok(node) = Node::new(&props)
    {
        let mut filled = default.clone();
        super::defaults::fill(&node, &mut filled, node.embedded);
        let at = format!("{at}.default");
        let mut wrong = Vec::new();
        check(&node, &filled, &at, &mut wrong);
        found.extend(wrong);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        defaults(below, &format!("{at}.properties[{name}]"), found);
    }
    for word in ["items", "additionalProperties"].into_iter().filter(|word| schema[word].is_object()) {
        defaults(&schema[word], &format!("{at}.{word}"), found);
    }
}

fn subresources(below: &Value, at: &str, found: &mut Vec<Cause>) {
    let scale = &below["scale"];
    if !scale.is_object() {
        return;
    }
    for (field, root, needed) in [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", ".s", false),
    ] {
        let (path, at) = (text(scale, field), format!("{at}.scale.{field}"));
        if path.is_empty() {
            found.extend(needed.then(|| required(&at, "")));
        } else if !is_simple(path) {
            found.push(invalid(&at, &path.into(), "must be a simple json path starting with ."));
        } else if !path.starts_with(root) {
            let under = root.trim_end_matches('.');
            let under = if needed { under } else { ".spec or .status" };
            found.push(invalid(&at, &path.into(), &format!("should be a json path under {under}")));
        }
    }
}

/// `.spec.replicas`: names with dots before them.
fn is_simple(path: &str) -> bool {
    path.strip_prefix('.').is_some_and(|rest| {
        rest.split('.')
            .all(|step| !step.is_empty() && step.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')))
    })
}

fn columns(columns: &Value, at: &str, found: &mut Vec<Cause>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}[{index}]");
        if text(column, "name").is_empty() {
            found.push(required(&format!("{at}.name"), ""));
        }
        match text(column, "type") {
            "" => found.push(required(&format!("{at}.type"), &format!("must be one of {}", COLUMN_TYPES.join(",")))),
            kind if !COLUMN_TYPES.contains(&kind) => {
                let why = format!("must be one of {}", COLUMN_TYPES.join(","));
                found.push(invalid(&format!("{at}.type"), &kind.into(), &why));
            }
            _ => {}
        }
        let path = text(column, "jsonPath");
        if path.is_empty() {
            found.push(required(&format!("{at}.jsonPath"), ""));
        } else if let Err(error) = JsonPath::parse(path) {
            found.push(invalid(&format!("{at}.jsonPath"), &path.into(), &error.to_string()));
        }
    }
}

fn fields(fields: &Value, schema: &Value, at: &str, found: &mut Vec<Cause>) {
    let list = fields.as_array().map(Vec::as_slice).unwrap_or_default();
    if list.len() > MOST_FIELDS {
        let message = format!("Too many: {}: must have at most {MOST_FIELDS} items", list.len());
        found.push(Cause::new("FieldValueTooMany", message, at));
    }
    let mut seen = BTreeSet::new();
    for (index, field) in list.iter().enumerate() {
        let (path, at) = (text(field, "jsonPath"), format!("{at}[{index}].jsonPath"));
        let target = is_simple(path)
            .then(|| path[1..].split('.').try_fold(schema, |schema, step| schema["properties"].get(step)));
        match target {
            _ if path.is_empty() => found.push(required(&at, "")),
            None => found.push(invalid(&at, &path.into(), "is an invalid path: does not refer to a valid field")),
            Some(None) => found.push(invalid(&at, &path.into(), "is an invalid path: does not refer to a valid field")),
            Some(Some(_)) if path.starts_with(".metadata.") => {
                found.push(invalid(&at, &path.into(), "must not point to fields in metadata"));
            }
            Some(Some(target)) if !matches!(text(target, "type"), "string" | "boolean" | "integer") => {
                let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats \
                           are allowed.";
                found.push(invalid(&at, &path.into(), why));
            }
            Some(Some(_)) if !seen.insert(path) => {
                found.push(Cause::new("FieldValueDuplicate", format!("Duplicate value: {path:?}"), at));
            }
            Some(Some(_)) => {}
        }
    }
}

/// Rules for the step from one to the next.
pub(crate) fn update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    let conditions = old["status"]["conditions"].as_array().into_iter().flatten();
    let established = conditions.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True");
    let held: &[&str] = match established {
        true => &["/spec/scope", "/spec/names/kind", "/spec/group", "/spec/names/plural"],
        false => &["/spec/group", "/spec/names/plural"],
    };
    found.extend(held.iter().filter_map(|pointer| crate::kinds::immutable(new, old, pointer)));
    let versions = new["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, stored) in old["status"]["storedVersions"].as_array().into_iter().flatten().enumerate() {
        if !versions.iter().any(|version| version["name"] == *stored) {
            let why = "missing from spec.versions; must be in spec.versions while objects are stored in it";
            found.push(invalid(&format!("status.storedVersions[{index}]"), stored, why));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        complete(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.shop.example"},
            "spec": {
                "group": "shop.example", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "default": 1}, "colour": {"type": "string"},
                    }}},
                }}}],
            },
        }))
        .unwrap()
    }

    fn told(change: impl Fn(&mut Value)) -> Vec<String> {
        let mut object = definition();
        change(&mut object);
        validate(&object).iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn defaults_are_upstreams() {
        let definition = definition();
        assert_eq!(definition["spec"]["names"]["singular"], "widget");
        assert_eq!(definition["spec"]["names"]["listKind"], "WidgetList");
        assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(told(|_| {}), [""; 0]);
        let mut new = definition;
        create(&mut new);
        assert_eq!(new["status"]["storedVersions"], json!(["v1"]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let version =
            |field: &'static str, value: Value| told(move |d| d["spec"]["versions"][0][field] = value.clone());
        assert_eq!(
            told(|d| d["metadata"]["name"] = "x.shop.example".into()),
            [r#"metadata.name: Invalid value: "x.shop.example": must be spec.names.plural+"."+spec.group"#]
        );
        assert!(told(|d| d["spec"]["scope"] = "Odd".into())[0].starts_with("spec.scope: Unsupported value: \"Odd\""));
        assert!(told(|d| d["spec"]["names"]["kind"] = "-".into())[0].starts_with("spec.names.kind: Invalid value"));
        assert_eq!(
            version("schema", Value::Null),
            ["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]
        );
        assert_eq!(
            version("schema", json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})),
            [
                "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields"
            ]
        );
        let wrong =
            json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "default": 1}}}});
        assert!(
            version("schema", wrong)[0]
                .starts_with("spec.validation.openAPIV3Schema.properties[a].default: Invalid value")
        );
        assert!(
            version("storage", false.into())[0].ends_with("must have exactly one version marked as storage version")
        );
        assert_eq!(
            version("additionalPrinterColumns", json!([{"name": "A", "type": "odd", "jsonPath": ".spec.a"}])),
            [
                r#"spec.additionalPrinterColumns[0].type: Invalid value: "odd": must be one of boolean,date,integer,number,string"#
            ]
        );
        assert_eq!(
            version(
                "subresources",
                json!({"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.x"}})
            ),
            [
                r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec"#
            ]
        );
        assert_eq!(version("selectableFields", json!([{"jsonPath": ".spec.colour"}])), [""; 0]);
        assert_eq!(version("selectableFields", json!([{"jsonPath": ".spec.none"}])).len(), 1);
        let group = told(|d| {
            d["spec"]["group"] = "shop.k8s.io".into();
            d["metadata"]["name"] = "widgets.shop.k8s.io".into();
        });
        assert!(group[0].contains("protected groups must have approval annotation"), "{group:?}");
    }

    #[test]
    fn webhooks_are_refused_where_they_would_be_called() {
        let two = told(|d| {
            let mut second = d["spec"]["versions"][0].clone();
            second["name"] = "v2".into();
            second["storage"] = false.into();
            d["spec"]["versions"].as_array_mut().unwrap().push(second);
            d["spec"]["conversion"] = json!({"strategy": "Webhook"});
        });
        assert!(two[0].starts_with("spec.conversion.strategy: Forbidden"), "{two:?}");
        assert_eq!(told(|d| d["spec"]["conversion"] = json!({"strategy": "Webhook"})), [""; 0]);
    }

    #[test]
    fn what_objects_are_stored_by_stays() {
        let (mut old, new) = (definition(), definition());
        old["status"] = json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
        let changed = |pointer: &str, value: &str| {
            let mut new = new.clone();
            *new.pointer_mut(pointer).unwrap() = value.into();
            update(&new, &old).into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(changed("/spec/scope", "Cluster"), ["spec.scope"]);
        assert_eq!(changed("/spec/names/kind", "Gadget"), ["spec.names.kind"]);
        assert_eq!(changed("/spec/versions/0/name", "v2"), ["status.storedVersions[0]"]);
        assert_eq!(changed("/spec/names/singular", "gadget"), [""; 0]);
    }
}
