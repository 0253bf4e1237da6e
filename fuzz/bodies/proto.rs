//! Any bytes as a protobuf body: never a panic; what is read goes through its type, and that twice changes nothing.

use minke_apiserver::proto::decode;
use minke_apiserver::schema::builtin;
use minke_apiserver::strict::typed;

pub(crate) fn run(data: &[u8]) {
    let Ok(object) = decode(builtin(), data) else { return };
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let kind = builtin().kind(&text("apiVersion"), &text("kind")).expect("what was read has a kind");
    let Ok(once) = typed(builtin(), &kind, object) else { return };
    assert!(once.unknown.is_empty(), "the table has no other fields: {:?}", once.unknown);
    let twice = typed(builtin(), &kind, once.object.clone()).expect("what was written can be read");
    assert_eq!(twice.object, once.object);
}
