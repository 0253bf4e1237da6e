//! The published OpenAPI v3 documents: the schemas of the kinds that are served, and of everything that these refer to.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::Value;

use super::ApiDataError;

/// Schemas by name, without the reference's prefix.
pub(super) type Schemas = BTreeMap<String, Value>;

/// The start of every `$ref`.
const REFERENCE: &str = "#/components/schemas/";

/// The schemas that `roots` reach, from all documents of `directory`.
pub(super) fn closure(directory: &Path, roots: &[(&str, &str, &str)]) -> Result<Schemas, ApiDataError> {
    let all = read_all(directory)?;
    let mut found = Schemas::new();
    for (group, version, kind) in roots {
        let root = all.iter().find(|(_, schema)| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| {
                kinds.iter().any(|k| k["group"] == *group && k["version"] == *version && k["kind"] == *kind)
            })
        });
        let Some((name, _)) = root else {
            return Err(ApiDataError::Unknown {
                place: format!("{group}/{version} {kind}"),
                what: "no document has it".into(),
            });
        };
        add(name, &all, &mut found)?;
    }
    Ok(found)
}

/// The schemas as one compressed object. The same schemas give the same bytes.
pub(super) fn compress(schemas: &Schemas, place: &Path) -> Result<Vec<u8>, ApiDataError> {
    let failed = |source: std::io::Error| ApiDataError::File { path: place.to_owned(), source };
    let text = serde_json::to_vec(schemas).map_err(|source| ApiDataError::Json { path: place.to_owned(), source })?;
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(&text).map_err(failed)?;
    encoder.finish().map_err(failed)
}

/// The type that a property or element refers to, directly or as the one entry of `allOf`.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str())?;
    direct.strip_prefix(REFERENCE)
}

fn read_all(directory: &Path) -> Result<Schemas, ApiDataError> {
    let failed = |source| ApiDataError::File { path: directory.to_owned(), source };
    let mut all = Schemas::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.to_string_lossy().ends_with("_openapi.json") {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|source| ApiDataError::File { path: path.clone(), source })?;
        let mut document: Value =
            serde_json::from_slice(&bytes).map_err(|source| ApiDataError::Json { path: path.clone(), source })?;
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            all.extend(schemas);
        }
    }
    Ok(all)
}

fn add(name: &str, all: &Schemas, found: &mut Schemas) -> Result<(), ApiDataError> {
    if found.contains_key(name) {
        return Ok(());
    }
    let Some(schema) = all.get(name) else {
        return Err(ApiDataError::Unknown { place: name.to_owned(), what: "is referred to and not there".into() });
    };
    let mut schema = schema.clone();
    if let Some(kinds) = schema["x-kubernetes-group-version-kind"].as_array_mut().filter(|kinds| kinds.len() > 1) {
        // Options are listed under every group there is; which document is read differs by chance.
        kinds.retain(|kind| kind["group"] == "" && kind["version"] == "v1");
    }
    found.insert(name.to_owned(), schema.clone());
    let mut referred = Vec::new();
    collect(&schema, &mut referred);
    referred.iter().try_for_each(|name| add(name, all, found))
}

fn collect(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            into.extend(
                fields.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE)).map(Into::into),
            );
            fields.values().for_each(|field| collect(field, into));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
