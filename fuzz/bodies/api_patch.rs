//! Any JSON as a patch of every form, and as an object that is applied: never a panic. The input is an object and a
//! patch, separated by a line with `---`.

use minke_apiserver::apply::{Writer, apply, track};
use minke_apiserver::patch::{json_patch, merge_patch, strategic_merge_patch};
use minke_apiserver::schema::{Types, builtin};
use serde_json::Value;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (object, patch) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
    let (Ok(object), Ok(patch)) = (serde_json::from_str::<Value>(object), serde_json::from_str::<Value>(patch)) else {
        return;
    };
    let kind = builtin().kind("v1", "Pod").expect("there are Pods");
    let _ = json_patch(&object, &patch);
    let merged = merge_patch(&object, &patch);
    assert_eq!(merge_patch(&merged, &patch), merged);
    let _ = strategic_merge_patch(builtin(), &kind, &object, &patch);
    let writer = Writer { manager: "m", api_version: "v1", subresource: "", ignored: &[], now: "2026-01-01T00:00:00Z" };
    let tracked = track(builtin(), &kind, &object, patch.clone(), &writer);
    if let Ok(once) = apply(builtin(), &kind, &tracked, &patch, &writer, true) {
        let twice = apply(builtin(), &kind, &once, &patch, &writer, false).expect("nothing is left to conflict");
        assert_eq!(twice, once);
    }
    // As the schema of a custom resource.
    if let Ok(types) = Types::structural("a.example/v1", "A", &patch) {
        let kind = types.kind("a.example/v1", "A").expect("the kind is there");
        let mut pruned = object;
        minke_apiserver::strict::prune(&types, &kind, &mut pruned);
        assert_eq!(minke_apiserver::strict::prune(&types, &kind, &mut pruned), [""; 0]);
    }
}
