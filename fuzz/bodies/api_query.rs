//! Any text as a selector of labels or fields, or as the path of a column: never a panic, and what was read selects.

use minke_apiserver::engine::{FieldSelector, LabelSelector, Selection};
use minke_apiserver::kinds::find;
use minke_apiserver::store::Attributes;
use minke_apiserver::table::JsonPath;
use serde_json::json;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let attributes = Attributes {
        labels: vec![("app".into(), "web".into()), ("size".into(), "7".into())],
        fields: vec![("spec.nodeName".into(), "n".into())],
        ..Attributes::default()
    };
    let pods = find("", "v1", "pods").expect("there are Pods");
    let labels = LabelSelector::parse(&text).unwrap_or_default();
    let fields = FieldSelector::parse(&text, pods).unwrap_or_default();
    let selection = Selection { labels, fields };
    let matches = selection.matches("ns", "p", &attributes);
    assert!(matches || !selection.is_everything());
    if let Ok(path) = JsonPath::parse(&text) {
        let _ =
            path.first(&json!({"spec": {"containers": [{"name": "a", "image": "i"}]}, "status": {"conditions": []}}));
    }
}
