//! What `minke up --demo` applies: `examples/up/demo.yaml`, by server-side apply, as `kubectl apply --server-side` does.
//!
//! Its Pods want the demo's own image of busybox; where that was not imported, the public one stands in for it.

use kube::Client as KubeClient;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use minke_core::manifest::document;
use minke_core::runtime::error_chain;
use minke_oci::image::{ImageStore, StoreConfig};
use serde_json::Value;

use crate::client::Client;
use crate::cmd::watch::connect::connect;
use crate::exit::Failure;
use crate::protocol::Served;

const MANIFEST: &str = include_str!("../../../../../examples/up/demo.yaml");
const OWN: &str = "localhost/minke-demo/busybox:1";
const PUBLIC: &str = "docker.io/library/busybox:stable";
const MANAGER: &str = "minke-up-demo";

/// An object of the manifest: what it is called in paths, and what it says.
struct Part {
    resource: ApiResource,
    object: DynamicObject,
}

/// Applies the examples; tells what was applied, and what to try.
pub(super) async fn apply(served: &Served, client: &Client) -> Result<String, Failure> {
    let image = image(client);
    let api = connect(Some(&served.kubeconfig), None).await?.client;
    let mut text = String::from("\n");
    for part in parts(&MANIFEST.replace(OWN, image))? {
        text.push_str(&apply_one(&api, &part).await?);
    }
    text.push_str(TRY);
    Ok(text)
}

const TRY: &str = "
try
  kubectl -n demo get pods -w
  kubectl -n demo logs hello
  curl http://127.0.0.1:8089/
  kubectl -n demo describe pod crashing
  kubectl delete namespace demo
";

/// An image with a shell: the demo's own, or the public one that stands in for it.
pub(in crate::cmd) fn image(client: &Client) -> &'static str {
    if has_own_image(client) { OWN } else { PUBLIC }
}

/// Only the embedded runtime's store can be looked into; elsewhere the image may have any name.
fn has_own_image(client: &Client) -> bool {
    let store = ImageStore::open(&client.place().state.join("images"), StoreConfig::default());
    store.is_ok_and(|store| matches!(store.status(OWN), Ok(Some(_))))
}

fn parts(manifest: &str) -> Result<Vec<Part>, Failure> {
    let broken = |what: String| Failure::system(format!("the demo's manifest is broken: {what}; please report this"));
    manifest
        .split("\n---\n")
        .map(|text| {
            let value = document(text).map_err(|error| broken(error.to_string()))?.value;
            let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let kind = GroupVersionKind::gvk("", &field("apiVersion"), &field("kind"));
            let object = serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
            Ok(Part { resource: ApiResource::from_gvk(&kind), object })
        })
        .collect()
}

async fn apply_one(api: &KubeClient, part: &Part) -> Result<String, Failure> {
    let meta = &part.object.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let objects: Api<DynamicObject> = match &meta.namespace {
        Some(namespace) => Api::namespaced_with(api.clone(), namespace, &part.resource),
        None => Api::all_with(api.clone(), &part.resource),
    };
    let params = PatchParams::apply(MANAGER).force();
    let applied = objects.patch(name, &params, &Patch::Apply(&part.object)).await;
    let what = part.resource.kind.to_lowercase();
    applied.map_err(|error| Failure::system(format!("can't apply {what}/{name}: {}", error_chain(&error))))?;
    Ok(format!("{what}/{name} applied\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_what_is_told() {
        let parts = parts(MANIFEST).unwrap();
        let names: Vec<String> = parts
            .iter()
            .map(|part| format!("{}/{}", part.resource.plural, part.object.metadata.name.clone().unwrap_or_default()))
            .collect();
        assert_eq!(names, ["namespaces/demo", "configmaps/page", "pods/web", "pods/hello", "pods/crashing"]);
        for part in &parts[1..] {
            assert_eq!(part.object.metadata.namespace.as_deref(), Some("demo"));
        }
        assert_eq!(MANIFEST.matches(OWN).count(), 3);
    }
}
