//! `/metrics/resource`: what the node and its Pods use, under upstream's names, in Prometheus' text format. Pure.
//!
//! Written by hand: each value has a time of its own, which a registry of counters does not know.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::provider::PodStats;

use super::source::NodeUsage;
use super::summary::container_started;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

struct Family {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    lines: Vec<(String, f64)>,
}

fn family(name: &'static str, kind: &'static str, help: &'static str) -> Family {
    Family { name, help, kind, lines: Vec::new() }
}

/// A label's value: quotes, backslashes and line ends would end it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text. `stats`: `None` when they could not be had, which is told as well.
pub(crate) fn text(
    usage: NodeUsage,
    pods: &HashMap<PodUid, Arc<Pod>>,
    stats: Option<&[PodStats]>,
    at: Timestamp,
) -> String {
    let mut node_cpu =
        family("node_cpu_usage_seconds_total", "counter", "Processor time used by the node, in core-seconds");
    let mut node_memory = family("node_memory_working_set_bytes", "gauge", "Working set of the node, in bytes");
    let mut pod_cpu =
        family("pod_cpu_usage_seconds_total", "counter", "Processor time used by the pod, in core-seconds");
    let mut pod_memory = family("pod_memory_working_set_bytes", "gauge", "Working set of the pod, in bytes");
    let mut cpu =
        family("container_cpu_usage_seconds_total", "counter", "Processor time used by the container, in core-seconds");
    let mut memory = family("container_memory_working_set_bytes", "gauge", "Working set of the container, in bytes");
    let mut start =
        family("container_start_time_seconds", "gauge", "Start of the container, in seconds since the unix epoch");
    node_cpu.lines.extend(usage.cpu_nanos.map(|nanos| (String::new(), seconds(nanos))));
    node_memory.lines.extend(usage.memory.map(|memory| (String::new(), number(memory.working_set))));
    for stats in stats.unwrap_or_default() {
        let (namespace, name) = (escaped(&stats.key.namespace), escaped(&stats.key.name));
        if let Some(usage) = &stats.pod {
            let labels = format!("{{namespace=\"{namespace}\",pod=\"{name}\"}}");
            pod_cpu.lines.push((labels.clone(), seconds(usage.cpu_nanos)));
            pod_memory.lines.push((labels, number(usage.memory_working_set_bytes)));
        }
        for (container, usage) in &stats.containers {
            let labels = format!("{{container=\"{}\",namespace=\"{namespace}\",pod=\"{name}\"}}", escaped(container));
            cpu.lines.push((labels.clone(), seconds(usage.cpu_nanos)));
            memory.lines.push((labels.clone(), number(usage.memory_working_set_bytes)));
            let started = pods.get(&stats.key.uid).and_then(|pod| container_started(pod, container));
            start.lines.extend(started.map(|at| (labels, at.as_duration().as_secs_f64())));
        }
    }
    let mut text = String::new();
    let at = at.as_millisecond();
    for family in [cpu, memory, start, node_cpu, node_memory, pod_cpu, pod_memory] {
        let Family { name, help, kind, lines } = family;
        if lines.is_empty() {
            continue;
        }
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(text, "{name}{labels} {value} {at}");
        }
    }
    let error = u8::from(stats.is_none());
    let help = "1 if there was an error while getting container metrics, 0 otherwise";
    let name = "resource_scrape_error";
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {error}");
    text
}

#[expect(clippy::cast_precision_loss, reason = "the format's numbers are floats; 2^53 ns are 104 days of a core")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "the format's numbers are floats")]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use minke_core::identity::PodKey;
    use minke_core::runtime::CgroupUsage;

    use super::super::source::NodeMemory;
    use super::*;

    #[test]
    fn the_text_is_upstreams() {
        let key = PodKey { namespace: "ns".into(), name: "p".into(), uid: PodUid::new("u").unwrap() };
        let usage = CgroupUsage { cpu_nanos: 1_500_000_000, memory_working_set_bytes: 4096, ..CgroupUsage::default() };
        let stats = [PodStats { key, pod: Some(usage), containers: vec![("a\"b\\".to_owned(), usage)] }];
        let memory = NodeMemory { working_set: 7, ..NodeMemory::default() };
        let node = NodeUsage { cpu_nanos: Some(250_000_000), memory: Some(memory), ..NodeUsage::default() };
        let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        let text = text(node, &HashMap::new(), Some(&stats), at);
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            r#"container_cpu_usage_seconds_total{container="a\"b\\",namespace="ns",pod="p"} 1.5 1700000000123"#,
            r#"container_memory_working_set_bytes{container="a\"b\\",namespace="ns",pod="p"} 4096 1700000000123"#,
            "node_cpu_usage_seconds_total 0.25 1700000000123",
            "node_memory_working_set_bytes 7 1700000000123",
            r#"pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 1.5 1700000000123"#,
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("container_start_time_seconds"), "nobody knows when it started");
    }

    #[test]
    fn numbers_that_could_not_be_had_are_an_error_and_not_zero() {
        let text = text(NodeUsage::default(), &HashMap::new(), None, Timestamp::UNIX_EPOCH);
        assert!(text.ends_with("resource_scrape_error 1\n") && !text.contains("cpu"), "{text}");
    }
}
