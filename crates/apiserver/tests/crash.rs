//! `kill -9` in the middle of commits: nothing that was acknowledged is lost, no revision is given twice, watches go on.
//!
//! Each round starts this program again as a server's worth of writers on one store, kills it at a moment of its choosing, and
//! looks at what is left. There are 200 rounds, in lanes side by side: each on a store of its own, because a round mostly waits
//! for the disk. `MINKE_CRASH_ROUNDS=1000` is what a release is tested with.

#![cfg(test)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use minke_apiserver::store::{
    At, Attributes, Change, Draft, Event, EventKind, Expect, HistoryLimits, Key, Proposal, Range, Store, StoreError,
};
use serde_json::json;

const DIRECTORY: &str = "MINKE_CRASH_DIRECTORY";
const ROUNDS: &str = "MINKE_CRASH_ROUNDS";
const WRITERS: usize = 6;
/// Stores that are written to and killed at the same time.
const LANES: usize = 4;
/// Small, so that history is forgotten in most rounds too.
const LIMITS: HistoryLimits = HistoryLimits { events: 400, bytes: 1 << 20 };

/// An acknowledged change.
#[derive(Debug, Clone, PartialEq)]
struct Acknowledged {
    revision: u64,
    name: String,
    /// The counter that was written, `None` for a deletion.
    value: Option<u64>,
}

fn key(name: &str) -> Key {
    Key::new("configmaps", "default", name)
}

fn propose(name: &str, expect: Expect, value: Option<u64>) -> Proposal {
    let change = match value {
        Some(value) => {
            let object = json!({"metadata": {"name": name}, "data": {"value": value, "padding": "x".repeat(700)}});
            Change::Put(Draft::of(&object), Arc::new(Attributes::default()))
        }
        None => Change::Delete(None),
    };
    Proposal { key: key(name), expect, guard: None, change }
}

/// The child: writes until it is killed, and says what was acknowledged.
#[test]
fn child_that_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = Store::open(&Path::new(&directory).join("api.redb"), LIMITS).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for value in 0.. {
                    let name = format!("{}", (writer as u64 + value) % 5);
                    let current = store.get(&key(&name));
                    let expect = current.as_ref().map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
                    let value = (current.is_none() || value % 7 != 3).then_some(value);
                    match store.propose(propose(&name, expect, value)).await {
                        Ok(event) => {
                            let value = value.map_or("-".to_owned(), |value| value.to_string());
                            let line = format!("ACK {} {name} {value}\n", event.revision());
                            // One write a line: a line is there whole or not at all.
                            std::io::stdout().write_all(line.as_bytes()).unwrap();
                            std::io::stdout().flush().unwrap();
                        }
                        Err(StoreError::Refused(_)) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

/// Runs the child until it has acknowledged `lines` changes, kills it, and returns what it said until the end.
fn round(directory: &Path, lines: usize) -> Vec<Acknowledged> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_is_killed", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let mut take = |line: String| {
        let mut words = line.split_once("ACK ").map(|(_, rest)| rest).into_iter().flat_map(str::split_whitespace);
        if let (Some(revision), Some(name), Some(value)) = (words.next(), words.next(), words.next()) {
            let value = (value != "-").then(|| value.parse().unwrap());
            acknowledged.push(Acknowledged { revision: revision.parse().unwrap(), name: name.to_owned(), value });
        }
        acknowledged.len()
    };
    for line in output.by_ref() {
        if take(line.unwrap()) >= lines {
            break;
        }
    }
    child.kill().unwrap();
    for line in output {
        take(line.unwrap());
    }
    child.wait().unwrap();
    acknowledged
}

fn value(event: &Event) -> Option<u64> {
    match event.kind {
        EventKind::Added | EventKind::Modified => event.entry.parse().unwrap()["data"]["value"].as_u64(),
        EventKind::Deleted => None,
    }
}

#[test]
fn kill_during_commits_loses_nothing_that_was_acknowledged() {
    if std::env::var_os(DIRECTORY).is_some() {
        return;
    }
    let rounds: usize = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200);
    std::thread::scope(|scope| {
        for number in 0..LANES {
            scope.spawn(move || lane(number, rounds.div_ceil(LANES)));
        }
    });
}

/// Rounds on one store, one after the other.
fn lane(which: usize, rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("api.redb");
    let mut newest = 1;
    let mut history: BTreeMap<u64, (String, Option<u64>)> = BTreeMap::new();
    let mut forgotten = false;
    for number in 0..rounds {
        // From the very first commits to many: an odd step, so that rounds end at different moments of a batch.
        let acknowledged = round(directory.path(), 1 + (which * 29 + number * 13) % 97);
        assert!(!acknowledged.is_empty(), "round {number}: the child did nothing");
        let store = Store::open(&path, LIMITS).unwrap();
        let highest = acknowledged.iter().map(|ack| ack.revision).max().unwrap();
        assert!(acknowledged.iter().all(|ack| ack.revision > newest), "round {number}: a revision was given twice");
        assert!(store.revision() >= highest, "round {number}: {} < {highest}", store.revision());

        // A watch from the end of the last round sees every change since, in order, the acknowledged ones among them.
        let mut cursor = store.watch("configmaps", newest).unwrap();
        let mut seen = BTreeMap::new();
        loop {
            let events = cursor.take().unwrap();
            if events.is_empty() {
                break;
            }
            for event in events {
                assert_eq!(event.revision(), newest + 1 + seen.len() as u64, "round {number}: a gap in the history");
                seen.insert(event.revision(), (event.key.name.to_string(), value(&event)));
            }
        }
        assert_eq!(newest + seen.len() as u64, store.revision());
        for ack in &acknowledged {
            assert_eq!(
                seen.get(&ack.revision),
                Some(&(ack.name.clone(), ack.value)),
                "round {number}: {ack:?} is lost"
            );
        }
        history.extend(seen);

        // The objects are what all changes together make.
        let mut expected = BTreeMap::new();
        for (name, value) in history.values() {
            match value {
                Some(value) => expected.insert(name.clone(), *value),
                None => expected.remove(name),
            };
        }
        let range = Range { resource: "configmaps", namespace: None, after: None, limit: None, at: At::Newest };
        let page = store.list(&range, |_, _, _| true).unwrap();
        let found: BTreeMap<_, _> = page
            .entries
            .iter()
            .map(|entry| entry.parse().unwrap())
            .map(|o| (o["metadata"]["name"].as_str().unwrap().to_owned(), o["data"]["value"].as_u64().unwrap()))
            .collect();
        assert_eq!(found, expected, "round {number}");
        newest = store.revision();
        forgotten |= store.watch("configmaps", 1).is_err();
        drop((cursor, store));
        // The writer's thread closes the file; the next child must find it free.
        while redb::Database::open(&path).is_err() {
            std::thread::yield_now();
        }
    }
    assert!(forgotten || rounds < 40, "history was never forgotten: the limits are too wide for this test");
}
