//! The store against a model, over restarts, and under concurrent writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn key(name: &str) -> Key {
    Key::new("pods", "default", name)
}

fn object(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"v": version}})
}

fn attributes(version: u64) -> Arc<Attributes> {
    Arc::new(Attributes { labels: vec![("v".into(), version.to_string().into())], ..Attributes::default() })
}

fn put(name: &str, version: u64, expect: Expect) -> Proposal {
    let change = Change::Put(Draft::of(&object(name, version)), attributes(version));
    Proposal { key: key(name), expect, guard: None, change }
}

fn delete(name: &str, revision: u64) -> Proposal {
    Proposal { key: key(name), expect: Expect::Revision(revision), guard: None, change: Change::Delete(None) }
}

fn everything(at: At) -> Range<'static> {
    Range { resource: "pods", namespace: None, after: None, limit: None, at }
}

fn version(entry: &Entry) -> (String, u64) {
    let value = entry.parse().unwrap();
    assert_eq!(value["metadata"]["resourceVersion"], entry.revision.to_string());
    (value["metadata"]["name"].as_str().unwrap().to_owned(), value["spec"]["v"].as_u64().unwrap())
}

#[test]
fn a_draft_keeps_the_object_and_leaves_a_gap_for_the_revision() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a\"b": "\"resourceVersion\":\"7\""},
        "metadata": {"name": "x", "resourceVersion": "99", "labels": {"a": "b"}},
    });
    let entry = Entry::new(&Draft::of(&object), 12, 3, attributes(1));
    let mut expected = object;
    expected["metadata"]["resourceVersion"] = "12".into();
    assert_eq!(entry.parse().unwrap(), expected);
    let later = Entry::new(&entry.redraft(), 1234, 3, attributes(1));
    expected["metadata"]["resourceVersion"] = "1234".into();
    assert_eq!(later.parse().unwrap(), expected);
    // What has no metadata is an object all the same.
    assert_eq!(
        Entry::new(&Draft::of(&json!(3)), 1, 1, attributes(1)).parse().unwrap(),
        json!({"metadata": {"resourceVersion": "1"}})
    );
}

#[test]
fn rows_come_back_as_they_were_and_damaged_ones_not_at_all() {
    let entry = Entry::new(&Draft::of(&object("a", 1)), 300, 7, attributes(1));
    let row = row::write_entry(&entry);
    assert_eq!(row::read_entry(&row), Some(entry.clone()));
    let previous = Some(Previous { attributes: attributes(0), entry: None });
    let event = Event { key: key("a"), kind: EventKind::Modified, entry: Arc::new(entry), previous };
    let event_row = row::write_event(&event);
    assert_eq!(row::read_event(&event_row), Some(event));
    for length in 0..row.len() {
        assert_eq!(row::read_entry(&row[..length]), None, "{length}");
    }
    for length in 0..event_row.len() {
        assert_eq!(row::read_event(&event_row[..length]), None, "{length}");
    }
}

#[test]
fn a_guard_that_has_changed_refuses() {
    let mut state = State::restore(Loaded::default());
    let mut batch = Batch::new(&state);
    let namespace = batch.propose(&state, put("ns", 1, Expect::Absent)).unwrap().revision();
    state.publish(batch.finish(&state, HistoryLimits::default()));
    let guarded = |revision| Proposal { guard: Some((key("ns"), revision)), ..put("a", 1, Expect::Absent) };
    let mut batch = Batch::new(&state);
    assert!(batch.propose(&state, guarded(namespace)).is_ok());
    batch.propose(&state, delete("ns", namespace)).unwrap();
    assert_eq!(batch.propose(&state, guarded(namespace)), Err(Refused::Guard(key("ns"))));
    assert_eq!(batch.len(), 2);
}

/// What a random client does to one of a few objects.
#[derive(Debug, Clone)]
enum Step {
    Create(u8),
    Update(u8),
    Stale(u8),
    Delete(u8),
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..4u8;
    let step = prop_oneof![
        name.clone().prop_map(Step::Create),
        name.clone().prop_map(Step::Update),
        name.clone().prop_map(Step::Stale),
        name.prop_map(Step::Delete),
        Just(Step::Commit),
    ];
    prop::collection::vec(step, 0..80)
}

/// Objects by name with their version and revision, at every revision.
type Model = BTreeMap<u64, BTreeMap<String, (u64, u64)>>;

proptest! {
    /// Revisions are linear; every revision's picture, and every watch from every start, is what the model says; what is
    /// forgotten is refused, never incomplete.
    #[test]
    fn the_state_is_its_model(steps in steps(), events in 1..20usize) {
        let limits = HistoryLimits { events, bytes: 1 << 20 };
        let mut state = State::restore(Loaded::default());
        let mut batch = Batch::new(&state);
        let mut now: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut model: Model = BTreeMap::from([(1, now.clone())]);
        let mut all = Vec::new();
        let mut counter = 0;
        for step in steps.into_iter().chain([Step::Commit]) {
            counter += 1;
            let (proposal, name) = match step {
                Step::Commit => {
                    let commit = std::mem::replace(&mut batch, Batch::new(&state)).finish(&state, limits);
                    prop_assert_eq!(commit.revision, *model.keys().last().unwrap());
                    state.publish(commit);
                    batch = Batch::new(&state);
                    continue;
                }
                Step::Create(n) => (put(&n.to_string(), counter, Expect::Absent), n.to_string()),
                Step::Update(n) => {
                    let revision = now.get(&n.to_string()).map_or(1, |(_, revision)| *revision);
                    (put(&n.to_string(), counter, Expect::Revision(revision)), n.to_string())
                }
                Step::Stale(n) => {
                    prop_assert!(batch.propose(&state, put(&n.to_string(), counter, Expect::Revision(0))).is_err());
                    continue;
                }
                Step::Delete(n) => {
                    let revision = now.get(&n.to_string()).map_or(1, |(_, revision)| *revision);
                    (delete(&n.to_string(), revision), n.to_string())
                }
            };
            let wants_absent = proposal.expect == Expect::Absent;
            match batch.propose(&state, proposal) {
                Ok(event) => {
                    prop_assert_eq!(event.revision(), model.keys().last().unwrap() + 1);
                    match event.kind {
                        EventKind::Added => prop_assert!(now.insert(name, (counter, event.revision())).is_none()),
                        EventKind::Modified => prop_assert!(now.insert(name, (counter, event.revision())).is_some()),
                        EventKind::Deleted => prop_assert!(now.remove(&name).is_some()),
                    }
                    model.insert(event.revision(), now.clone());
                    all.push((event.revision(), event.kind));
                }
                Err(_) => prop_assert_eq!(wants_absent, now.contains_key(&name)),
            }
        }
        let oldest = state.oldest("pods");
        for (revision, expected) in &model {
            match state.list(&everything(At::Revision(*revision)), |_, _, _| true) {
                Ok(page) => {
                    prop_assert!(*revision >= oldest);
                    let found: BTreeMap<_, _> =
                        page.entries.iter().map(|e| (version(e).0, (version(e).1, e.revision))).collect();
                    prop_assert_eq!(&found, expected);
                }
                Err(error) => prop_assert!(*revision < oldest, "{}", error),
            }
            match state.changes("pods", *revision, usize::MAX) {
                Ok((changes, seen)) => {
                    prop_assert!(*revision >= oldest);
                    prop_assert_eq!(seen, state.revision());
                    let found: Vec<_> = changes.iter().map(|event| (event.revision(), event.kind)).collect();
                    let expected: Vec<_> = all.iter().filter(|(at, _)| at > revision).copied().collect();
                    prop_assert_eq!(found, expected);
                }
                Err(error) => prop_assert!(*revision < oldest, "{}", error),
            }
        }
        prop_assert!(state.changes("pods", state.revision() + 1, 1).is_err());
    }

    /// Any page size gives the same objects, at any moment of the history.
    #[test]
    fn pages_add_up_to_the_list(names in prop::collection::btree_set("[a-e]{1,3}", 0..20), limit in 1..7usize) {
        let mut state = State::restore(Loaded::default());
        for name in &names {
            let mut batch = Batch::new(&state);
            batch.propose(&state, put(name, 1, Expect::Absent)).unwrap();
            state.publish(batch.finish(&state, HistoryLimits::default()));
        }
        let moment = state.revision();
        // What happens between two pages is not in the list.
        for (index, name) in names.iter().enumerate() {
            let revision = state.get(&key(name)).unwrap().revision;
            let mut batch = Batch::new(&state);
            match index % 2 {
                0 => batch.propose(&state, delete(name, revision)).unwrap(),
                _ => batch.propose(&state, put(name, 2, Expect::Revision(revision))).unwrap(),
            };
            state.publish(batch.finish(&state, HistoryLimits::default()));
        }
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let mut range = everything(At::Revision(moment));
            range.limit = Some(limit);
            range.after = after.as_ref().map(|(ns, name): &(Arc<str>, Arc<str>)| (&**ns, &**name));
            let page = state.list(&range, |_, _, _| true).unwrap();
            found.extend(page.entries.iter().map(|entry| version(entry)));
            prop_assert_eq!(page.remaining, names.len() - found.len());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<_> = names.iter().map(|name| (name.clone(), 1)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn objects_history_and_revisions_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("api.redb");
    let limits = HistoryLimits { events: 5, bytes: 1 << 20 };
    let store = Store::open(&path, limits).unwrap();
    let first = store.propose(put("a", 1, Expect::Absent)).await.unwrap().revision();
    assert_eq!(first, 2);
    for version in 2..9 {
        let current = store.get(&key("a")).unwrap().revision;
        store.propose(put("a", version, Expect::Revision(current))).await.unwrap();
    }
    let last = store.propose(put("b", 1, Expect::Absent)).await.unwrap().revision();
    let gone = store.propose(delete("b", last)).await.unwrap().revision();
    let before = store.watch("pods", last - 1).unwrap().take().unwrap();
    let oldest = read_oldest(&store);
    close(store).await;

    let store = open(&path, limits);
    assert_eq!(store.revision(), gone);
    assert_eq!(store.get(&key("b")), None);
    assert_eq!(version(&store.get(&key("a")).unwrap()), ("a".to_owned(), 8));
    // Watches go on where they were; what was forgotten stays so.
    let after = store.watch("pods", last - 1).unwrap().take().unwrap();
    let seen =
        |events: &[Arc<Event>]| events.iter().map(|e| (e.revision(), e.kind, e.entry.clone())).collect::<Vec<_>>();
    assert_eq!(seen(&before), seen(&after));
    assert_eq!(after[1].previous.as_ref().unwrap().attributes, attributes(1));
    assert_eq!(read_oldest(&store), oldest);
    assert!(oldest > 1);
    assert_eq!(store.watch("pods", oldest - 1).err(), Some(ReadError::TooOld { wanted: oldest - 1, oldest }));
    // A picture from before the start can't be painted any more, and that is said.
    assert!(store.list(&everything(At::Revision(last)), |_, _, _| true).is_err());
    assert_eq!(store.propose(put("c", 1, Expect::Absent)).await.unwrap().revision(), gone + 1);
}

fn read_oldest(store: &Store) -> u64 {
    writer::read(&store.shared.state).oldest("pods")
}

/// Drops the store; the writer's thread lets go of the file soon after.
async fn close(store: Store) {
    let shared = Arc::downgrade(&store.shared);
    drop(store);
    while shared.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}

/// The file may be closing still.
fn open(path: &std::path::Path, limits: HistoryLimits) -> Store {
    for _ in 0..1_000_000 {
        match Store::open(path, limits) {
            Ok(store) => return store,
            Err(LogError::Open { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the file stays locked");
}

#[tokio::test]
async fn an_export_brings_every_object_to_a_new_store_and_revisions_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory(HistoryLimits::default());
    for name in ["a", "b"] {
        store.propose(put(name, 1, Expect::Absent)).await.unwrap();
    }
    let revision = store.get(&key("a")).unwrap().revision;
    store.propose(delete("a", revision)).await.unwrap();
    let mut lines = Vec::new();
    store.export(&mut lines).unwrap();

    let path = directory.path().join("new.redb");
    Store::import(&path, &mut lines.as_slice()).unwrap();
    assert!(matches!(Store::import(&path, &mut lines.as_slice()), Err(ImportError::NotEmpty)));
    let new = open(&path, HistoryLimits::default());
    assert_eq!(new.revision(), store.revision());
    assert_eq!(new.get(&key("b")), store.get(&key("b")));
    assert_eq!(new.get(&key("a")), None);
    assert!(new.watch("pods", 2).is_err());
    assert!(new.watch("pods", new.revision()).is_ok());

    let cut = &lines[..lines.len() - 1 - lines.iter().rev().skip(1).position(|byte| *byte == b'\n').unwrap()];
    let other = directory.path().join("other.redb");
    assert!(matches!(Store::import(&other, &mut &*cut), Err(ImportError::Incomplete { found: 0, promised: 1 })));
}

/// A log that fails from a point on.
struct Failing(Arc<AtomicBool>);

impl Log for Failing {
    fn commit(&mut self, _commit: &Commit) -> Result<(), LogError> {
        if self.0.load(Ordering::Relaxed) { Err(LogError::Damaged { table: "objects" }) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_failed_commit_is_not_seen_and_ends_writing() {
    let broken = Arc::new(AtomicBool::new(false));
    let store = Store::start(Loaded::default(), Failing(broken.clone()), HistoryLimits::default());
    store.propose(put("a", 1, Expect::Absent)).await.unwrap();
    broken.store(true, Ordering::Relaxed);
    assert!(matches!(store.propose(put("b", 1, Expect::Absent)).await, Err(StoreError::Failed(_))));
    broken.store(false, Ordering::Relaxed);
    assert!(matches!(store.propose(put("c", 1, Expect::Absent)).await, Err(StoreError::Failed(_))));
    assert_eq!(store.revision(), 2);
    assert!(store.failure().is_some());
    assert_eq!(store.get(&key("b")), None);
    assert!(store.get(&key("a")).is_some());
}

/// Writers race for the same objects while watchers follow from wherever they are: everyone sees the one sequence.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_sees_every_change_once_and_in_order_under_concurrent_writers() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 60;
    let store = Store::in_memory(HistoryLimits::default());
    let end = 1 + WRITERS * EACH;
    let follow = |start: u64| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut cursor = store.watch("pods", start).unwrap();
            let mut seen = Vec::new();
            while seen.last().is_none_or(|revision| *revision < end) {
                seen.extend(cursor.next().await.unwrap().iter().map(|event| event.revision()));
            }
            (start, seen)
        })
    };
    let mut watchers: Vec<_> = (0..4).map(|_| follow(1)).collect();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            let (mut done, mut acknowledged) = (0, Vec::new());
            while done < EACH {
                let name = ((writer + done) % 3).to_string();
                let current = store.get(&key(&name));
                let expect = current.as_ref().map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
                let proposal = match current {
                    Some(entry) if done % 5 == 4 => delete(&name, entry.revision),
                    Some(_) | None => put(&name, done, expect),
                };
                match store.propose(proposal).await {
                    Ok(event) => {
                        // What is acknowledged can be read at once.
                        assert!(store.revision() >= event.revision());
                        acknowledged.push(event.revision());
                        done += 1;
                    }
                    Err(StoreError::Refused(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
            acknowledged
        }));
    }
    while store.revision() < end / 2 {
        tokio::task::yield_now().await;
    }
    watchers.extend((1..=4).map(|n| follow(n * end / 10)));
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (2..=end).collect::<Vec<_>>());
    for watcher in watchers {
        let (start, seen) = watcher.await.unwrap();
        assert_eq!(seen, (start + 1..=end).collect::<Vec<_>>());
    }
}
