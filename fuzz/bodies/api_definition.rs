//! Any JSON as a definition of a kind, with its schema and its rules in CEL, and any as an object of it: what is accepted can
//! be served, and an object that is complete stays as it is. The two are separated by a line with `---`.

use minke_apiserver::fuzzing::definition;
use serde_json::Value;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (kind, object) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
    let (Ok(kind), Ok(object)) = (serde_json::from_str::<Value>(kind), serde_json::from_str::<Value>(object)) else {
        return;
    };
    definition(kind, &object).expect("a law");
}
