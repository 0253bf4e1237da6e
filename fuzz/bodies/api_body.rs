//! Any bytes as a JSON or YAML body of any kind: never a panic; reading again what was read changes nothing.

use minke_apiserver::schema::builtin;
use minke_apiserver::strict::{Parsed, parse_json, parse_yaml, typed};

pub(crate) fn run(data: &[u8]) {
    for parsed in [parse_json(data), parse_yaml(data)] {
        let Ok(Parsed { value, .. }) = parsed else { continue };
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let kind = builtin().kind(&text("apiVersion"), &text("kind")).or_else(|| builtin().kind("v1", "Pod"));
        let kind = kind.expect("there are Pods");
        let Ok(once) = typed(builtin(), &kind, value) else { continue };
        let twice = typed(builtin(), &kind, once.object.clone()).expect("what was written can be read");
        assert!(twice.unknown.is_empty());
        assert_eq!(twice.object, once.object);
    }
}
