//! What nodes and Pods use, as upstream's metrics-server has it (`metrics.k8s.io/v1beta1`): for `kubectl top`.
//!
//! ```text
//! who is asked about (engine) ─► their nodes' summaries ─► measured objects (pure)
//!                                  ▲ once more, a moment later, where a rate is not known yet
//! ```
//! Nothing is stored, and nobody samples in the background: nodes count, and tell rates between two looks. What has no numbers is
//! absent from a list and not found by name, as upstream.

mod measured;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::pods::{NodeClient, document};
use super::query::Query;
use crate::engine::{Engine, ListOptions, Place};
use crate::error::ApiError;
use crate::kinds::{Kind, find};
use measured::{Reading, read};

const SUMMARY: &str = "/stats/summary?only_cpu_and_memory=true";
/// A node that is slower has no numbers this time; the others' are not kept waiting.
const ANSWER: Duration = Duration::from_secs(5);
/// Nodes asked at a time.
const AT_ONCE: usize = 16;
/// Between two looks at the counters: nodes tell no rates over less than a second.
const AGAIN: Duration = Duration::from_millis(1_100);

/// The measured objects of a kind that the query's selectors leave.
///
/// # Errors
/// 422 for bad selectors; 500 for a server that reaches no nodes.
pub(super) async fn list(
    engine: &Engine,
    nodes: Option<&NodeClient>,
    kind: &'static Kind,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Value, ApiError> {
    let of = stored(kind)?;
    let options = ListOptions { selection: query.list(of)?.selection, ..ListOptions::default() };
    let listed = engine.list(of, namespace, &options)?;
    let objects = listed.entries.iter().map(|entry| entry.parse()).collect::<Result<Vec<_>, _>>();
    let items = measure(engine, nodes, kind, objects.map_err(ApiError::internal)?).await?;
    Ok(json!({"kind": kind.list_kind(), "apiVersion": kind.api_version(), "metadata": {}, "items": items}))
}

/// One measured object.
///
/// # Errors
/// 404 for what is not there or has no numbers; 500 for a server that reaches no nodes.
pub(super) async fn one(engine: &Engine, nodes: Option<&NodeClient>, place: Place<'_>) -> Result<Value, ApiError> {
    let kind = place.kind;
    let not_found = || ApiError::not_found(kind.group, kind.plural, place.name);
    let entry = engine.get(Place { kind: stored(kind)?, ..place }, None).map_err(|_| not_found())?;
    let object = entry.parse().map_err(ApiError::internal)?;
    let mut found = measure(engine, nodes, kind, vec![object]).await?.pop().ok_or_else(not_found)?;
    found["kind"] = kind.kind.into();
    found["apiVersion"] = kind.api_version().into();
    Ok(found)
}

/// The kind of the objects that are measured.
fn stored(kind: &Kind) -> Result<&'static Kind, ApiError> {
    find("", "v1", kind.plural).ok_or_else(ApiError::no_resource)
}

/// Objects by the node that measures them.
type Concerned = BTreeMap<String, Vec<Value>>;

/// Groups nodes under themselves, Pods under the node that they are bound to.
fn concerned(kind: &Kind, objects: Vec<Value>) -> Concerned {
    let mut concerned = Concerned::new();
    for object in objects {
        let node = if kind.namespaced { &object["spec"]["nodeName"] } else { &object["metadata"]["name"] };
        if let Some(node) = node.as_str().filter(|node| !node.is_empty()).map(str::to_owned) {
            concerned.entry(node).or_default().push(object);
        }
    }
    concerned
}

async fn measure(
    engine: &Engine,
    nodes: Option<&NodeClient>,
    kind: &'static Kind,
    objects: Vec<Value>,
) -> Result<Vec<Value>, ApiError> {
    let nodes = nodes.ok_or_else(|| ApiError::internal("this server is not set up to reach nodes"))?;
    let asked = concerned(kind, objects).into_iter().map(|(name, objects)| async move {
        let node = engine.get(Place { kind: find("", "v1", "nodes")?, namespace: "", name: &name }, None).ok()?;
        let node = node.parse().ok()?;
        Some(on_node(nodes, kind, &node, &objects).await)
    });
    let found: Vec<Option<Vec<Value>>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    Ok(found.into_iter().flatten().flatten().collect())
}

/// What one node says of these objects.
async fn on_node(nodes: &NodeClient, kind: &'static Kind, node: &Value, objects: &[Value]) -> Vec<Value> {
    let mut readings = look(nodes, kind, node, objects).await;
    if readings.iter().any(|reading| matches!(reading, Reading::Soon)) {
        sleep(AGAIN).await;
        readings = look(nodes, kind, node, objects).await;
    }
    let measured = readings.into_iter().filter_map(|reading| match reading {
        Reading::Measured(object) => Some(object),
        Reading::Soon | Reading::Nothing => None,
    });
    measured.collect()
}

async fn look(nodes: &NodeClient, kind: &'static Kind, node: &Value, objects: &[Value]) -> Vec<Reading> {
    match timeout(ANSWER, document(nodes, node, SUMMARY)).await {
        Ok(Ok(summary)) => objects.iter().map(|object| read(kind, object, &summary)).collect(),
        Ok(Err(error)) => {
            tracing::debug!(node = %node["metadata"]["name"], %error, "a node does not say what it uses");
            Vec::new()
        }
        Err(_) => {
            tracing::debug!(node = %node["metadata"]["name"], "a node takes too long to say what it uses");
            Vec::new()
        }
    }
}
