//! The verbs against upstream's behaviour, row by row: `writing`, `deleting`, `reading`, `watching`, and what the server does by
//! itself (`alone`).

mod alone;
mod certificates;
mod deleting;
mod reading;
mod watching;
mod writing;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::error::Reason;
use crate::store::HistoryLimits;

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-01-02T12:00:00.5Z".parse().unwrap()
    }
}

async fn engine() -> Engine {
    let engine = Engine::new(Store::in_memory(HistoryLimits::default()), Arc::new(Noon));
    engine.prepare().await.unwrap();
    engine
}

fn kind(plural: &str) -> &'static Kind {
    crate::kinds::BUILTIN.iter().find(|kind| kind.plural == plural).unwrap()
}

fn at<'a>(plural: &str, name: &'a str) -> Place<'a> {
    let kind = kind(plural);
    Place { kind, namespace: if kind.namespaced { "default" } else { "" }, name }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "b"}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}})
}

async fn create(engine: &Engine, plural: &str, object: Value) -> Result<Value, ApiError> {
    let kind = kind(plural);
    let namespace = if kind.namespaced { "default" } else { "" };
    engine.create(kind, namespace, object, &WriteOptions::default()).await.map(|entry| entry.parse().unwrap())
}

async fn put(engine: &Engine, plural: &str, object: Value) -> Result<Value, ApiError> {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let written = engine.update(at(plural, &name), Part::Main, object, &WriteOptions::default()).await;
    written.map(|entry| entry.parse().unwrap())
}

async fn merge(engine: &Engine, place: Place<'_>, part: Part, patch: Value) -> Result<Value, ApiError> {
    let written = engine.patch(place, part, PatchKind::Merge, &patch, &WriteOptions::default()).await;
    written.map(|patched| patched.entry.parse().unwrap())
}

fn read(engine: &Engine, plural: &str, name: &str) -> Value {
    engine.get(at(plural, name), None).unwrap().parse().unwrap()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn delete(engine: &Engine, plural: &str, name: &str, options: Value) -> Result<Deleted, ApiError> {
    engine.delete(at(plural, name), &DeleteOptions::parse(&options)?).await
}

fn names(list: &List) -> Vec<String> {
    let name = |entry: &Arc<Entry>| entry.parse().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    list.entries.iter().map(name).collect()
}

/// A Pod on a node.
async fn bound(engine: &Engine, name: &str) {
    create(engine, "pods", pod(name)).await.unwrap();
    engine.bind(at("pods", name), &json!({"target": {"name": "n"}}), &WriteOptions::default()).await.unwrap();
}
