//! Any text as the path, query and `Accept` of a request, a line each: never a panic, and a server without objects lists none.

use minke_apiserver::fuzzing::request;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    request(next(), next(), next()).expect("a law");
}
