//! `/metrics` and `/metrics/probes`: what the node tells of itself, in two parts; and what this server counts.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Families of these belong to `/metrics/probes`.
const PROBES: &str = "prober_";
const END: &str = "# EOF";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    path: &'static str,
    server_type: &'static str,
    long_running: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Session {
    path: &'static str,
}

/// What this server counts. Labels are the routes' names: few, and nobody's input.
#[derive(Debug)]
pub(crate) struct Counted {
    registry: Registry,
    requests: Family<Request, Counter>,
    sessions: Family<Session, Gauge<i64, AtomicI64>>,
}

impl Default for Counted {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (requests, sessions) = (Family::default(), Family::default());
        registry.register("kubelet_http_requests", "HTTP requests received since the server started", requests.clone());
        let help = "Streams of commands, attached programs and forwarded ports that are open";
        registry.register("minke_node_stream_sessions", help, sessions.clone());
        Self { registry, requests, sessions }
    }
}

impl Counted {
    pub(crate) fn request(&self, method: &'static str, path: &'static str, long_running: bool) {
        let long_running = if long_running { "true" } else { "false" };
        let labels = Request { method, path, server_type: "readwrite", long_running };
        self.requests.get_or_create(&labels).inc();
    }

    /// A stream is open until what is returned is dropped.
    pub(crate) fn session(&self, path: &'static str) -> OpenSession {
        let gauge = self.sessions.get_or_create(&Session { path }).clone();
        gauge.inc();
        OpenSession(gauge)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// Everything but the probes: the node's and ours.
    pub(crate) fn main(&self, node: &str) -> String {
        format!("{}{}{END}\n", families(node, false), families(&self.text(), false))
    }
}

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct OpenSession(Gauge<i64, AtomicI64>);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The probes' families alone.
pub(crate) fn probes(node: &str) -> String {
    format!("{}{END}\n", families(node, true))
}

/// The lines of the families that are the probes', or are not.
fn families(text: &str, probes: bool) -> String {
    let mut kept = String::new();
    for line in text.lines().filter(|line| *line != END) {
        let name = line.strip_prefix("# ").and_then(|line| line.split(' ').nth(1)).unwrap_or(line);
        if name.starts_with(PROBES) == probes {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "# HELP kubelet_running_pods Pods\n# TYPE kubelet_running_pods gauge\nkubelet_running_pods 3\n# \
                        HELP prober_probe Probes\n# TYPE prober_probe counter\nprober_probe_total{result=\"failed\"} 1\n# EOF\n";

    #[test]
    fn probes_are_told_apart() {
        let probes = probes(NODE);
        assert!(probes.starts_with("# HELP prober_probe Probes\n") && probes.ends_with("} 1\n# EOF\n"), "{probes}");
        assert!(!probes.contains("kubelet_running_pods"));
        let counted = Counted::default();
        counted.request("GET", "pods", false);
        let main = counted.main(NODE);
        assert!(main.contains("kubelet_running_pods 3\n") && !main.contains("prober_"), "{main}");
        assert!(main.contains("kubelet_http_requests_total{method=\"GET\",path=\"pods\""), "{main}");
        assert_eq!(main.matches("# EOF").count(), 1);
    }

    #[test]
    fn sessions_are_open_until_they_are_not() {
        let counted = Counted::default();
        let (first, second) = (counted.session("exec"), counted.session("exec"));
        assert!(counted.main("").contains("minke_node_stream_sessions{path=\"exec\"} 2"));
        drop((first, second));
        assert!(counted.main("").contains("minke_node_stream_sessions{path=\"exec\"} 0"));
    }
}
