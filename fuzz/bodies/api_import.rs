//! Any bytes as an export that is imported, and as a row of the log: never a panic; what is taken in can be stored, read and
//! followed by new revisions.

use minke_apiserver::fuzzing::row;
use minke_apiserver::store::{Key, Loaded, State};

pub(crate) fn run(mut data: &[u8]) {
    row(data).expect("a law");
    let Ok(loaded) = Loaded::of_export(&mut data) else { return };
    let (newest, count) = (loaded.revision, loaded.objects.len());
    assert!(newest < u64::MAX, "there is a next revision");
    let state = State::restore(loaded);
    assert_eq!((state.revision(), state.all().count()), (newest, count));
    for (key, entry) in state.all() {
        assert_eq!(Key::from_bytes(&key.to_bytes()).as_ref(), Some(&key), "its place can be stored");
        let object = entry.parse().expect("an object can be read");
        assert_eq!(object["metadata"]["name"], *key.name);
        assert_eq!(object["metadata"]["resourceVersion"], entry.revision.to_string());
        assert!(entry.revision <= newest && entry.created <= entry.revision);
    }
}
