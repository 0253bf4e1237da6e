//! From a node's summary to a measured object. Pure.

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// What a summary says of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reading {
    /// All of it.
    Measured(Value),
    /// It is known, and how fast it goes is known after the next look.
    Soon,
    /// Nothing: it does not run there.
    Nothing,
}

/// What rates are an average over. Nodes do not say; theirs is this long, or shorter for what has just begun.
const WINDOW: &str = "10s";

/// The measured form of a node or a Pod.
pub(super) fn read(kind: &Kind, object: &Value, summary: &Value) -> Reading {
    let metadata = &object["metadata"];
    let (mut told, time) = match kind.namespaced {
        false => match usage(&summary["node"]) {
            Some((usage, time)) => (json!({"usage": usage}), time),
            None => return unknown(&summary["node"]),
        },
        true => {
            let is = |pod: &&Value| pod["podRef"]["uid"] == metadata["uid"];
            let Some(pod) = summary["pods"].as_array().into_iter().flatten().find(is) else { return Reading::Nothing };
            let containers = pod["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let measured: Option<Vec<(Value, Value)>> = containers
                .iter()
                .map(|container| {
                    let (usage, time) = usage(container)?;
                    Some((json!({"name": container["name"], "usage": usage}), time))
                })
                .collect();
            // A sum without one of its parts would be a wrong one.
            let Some(measured) = measured else { return Reading::Soon };
            let Some(time) = measured.first().map(|(_, time)| time.clone()) else { return Reading::Nothing };
            let containers: Vec<Value> = measured.into_iter().map(|(container, _)| container).collect();
            (json!({"containers": containers}), time)
        }
    };
    let mut own = Map::new();
    for field in ["name", "namespace", "labels"] {
        if let Some(value) = metadata.get(field) {
            own.insert(field.to_owned(), value.clone());
        }
    }
    own.insert("creationTimestamp".to_owned(), time.clone());
    told["metadata"] = Value::Object(own);
    told["timestamp"] = time;
    told["window"] = WINDOW.into();
    Reading::Measured(told)
}

fn unknown(consumer: &Value) -> Reading {
    if consumer["cpu"].is_object() { Reading::Soon } else { Reading::Nothing }
}

/// Processor time a second and memory as quantities, and when that was.
fn usage(consumer: &Value) -> Option<(Value, Value)> {
    let rate = consumer["cpu"]["usageNanoCores"].as_u64()?;
    let memory = consumer["memory"]["workingSetBytes"].as_u64()?;
    let memory = if memory % 1024 == 0 { format!("{}Ki", memory / 1024) } else { memory.to_string() };
    Some((json!({"cpu": format!("{rate}n"), "memory": memory}), consumer["cpu"]["time"].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::measured;

    fn consumer(name: &str, rate: Value, memory: u64) -> Value {
        let mut cpu = json!({"time": "2026-11-22T07:00:00Z", "usageCoreNanoSeconds": 7});
        if !rate.is_null() {
            cpu["usageNanoCores"] = rate;
        }
        json!({"name": name, "cpu": cpu, "memory": {"workingSetBytes": memory}})
    }

    fn pod(containers: &[Value]) -> (Value, Value) {
        let object = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}});
        let told = json!({"podRef": {"name": "p", "namespace": "ns", "uid": "u"}, "containers": containers});
        (object, json!({"pods": [{"podRef": {"name": "p", "namespace": "ns", "uid": "older"}}, told]}))
    }

    #[test]
    fn a_pods_containers_are_told_one_by_one() {
        let kind = measured("metrics.k8s.io", "v1beta1", "pods").unwrap();
        let (object, summary) = pod(&[consumer("a", json!(12_345), 2048), consumer("b", json!(0), 1000)]);
        let expected = json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}, "creationTimestamp": "2026-11-22T07:00:00Z"},
            "timestamp": "2026-11-22T07:00:00Z", "window": "10s",
            "containers": [
                {"name": "a", "usage": {"cpu": "12345n", "memory": "2Ki"}},
                {"name": "b", "usage": {"cpu": "0n", "memory": "1000"}},
            ],
        });
        assert_eq!(read(kind, &object, &summary), Reading::Measured(expected));
        // Of a Pod of the same name that was there before, nothing is said.
        let another = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "newer"}});
        assert_eq!(read(kind, &another, &summary), Reading::Nothing);
    }

    #[test]
    fn what_is_not_known_yet_is_not_told_as_nothing() {
        let kind = measured("metrics.k8s.io", "v1beta1", "pods").unwrap();
        let (object, summary) = pod(&[consumer("a", json!(1), 0), consumer("b", Value::Null, 0)]);
        assert_eq!(read(kind, &object, &summary), Reading::Soon);
        let (object, summary) = pod(&[]);
        assert_eq!(read(kind, &object, &summary), Reading::Nothing, "none of its containers runs");
        let kind = measured("metrics.k8s.io", "v1beta1", "nodes").unwrap();
        let node = json!({"metadata": {"name": "n", "uid": "u"}});
        let summary = |node: Value| json!({"node": node, "pods": []});
        assert_eq!(read(kind, &node, &summary(consumer("", Value::Null, 4))), Reading::Soon);
        assert_eq!(read(kind, &node, &summary(json!({"nodeName": "n"}))), Reading::Nothing);
        let Reading::Measured(told) = read(kind, &node, &summary(consumer("", json!(5), 4096))) else { panic!() };
        assert_eq!(told["usage"], json!({"cpu": "5n", "memory": "4Ki"}));
    }
}
