//! What the server counts, under the names that kube-apiserver has for it.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use hyper::Method;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::route::Route;
use crate::custom::Kinds;
use crate::engine::Engine;

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of durations in seconds: upstream's, without those that say nothing on one machine.
const BUCKETS: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 2.0, 5.0, 30.0];

/// What was asked. Labels are few and bounded: of kinds that there are, or empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Asked {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
    dry_run: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    resource: String,
}

type Histograms = Family<Asked, Histogram, fn() -> Histogram>;

/// The counts of one server.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Histograms,
    inflight: Family<Kind, Gauge>,
    long_running: Family<Asked, Gauge>,
    objects: Family<Resource, Gauge>,
    revision: Gauge<i64, AtomicI64>,
}

/// Counts down when it goes.
#[derive(Debug)]
pub(super) struct Running(Gauge);

impl Running {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<Answered, Counter>::default();
        let durations: Histograms = Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let (inflight, long_running, objects) = (Family::default(), Family::default(), Family::default());
        let revision = Gauge::<i64, AtomicI64>::default();
        registry.register("apiserver_request", "Requests, by what was asked and answered", requests.clone());
        let help = "Time until an answer, in seconds, without watches";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        let help = "Requests that are being answered, without watches";
        registry.register("apiserver_current_inflight_requests", help, inflight.clone());
        registry.register("apiserver_longrunning_requests", "Watches and streams that are open", long_running.clone());
        registry.register("apiserver_storage_objects", "Objects that are stored, by resource", objects.clone());
        registry.register("minke_api_revision", "The newest revision", revision.clone());
        Self { registry, requests, durations, inflight, long_running, objects, revision }
    }
}

impl Asked {
    /// The labels of a request.
    pub(super) fn of(method: &Method, route: &Route, watches: bool, kinds: &Kinds) -> Self {
        let one = |list: &'static str, object: &'static str, named: bool| if named { object } else { list };
        let (resource, named, part) = match route {
            Route::Collection(resource) => (Some(resource), false, ""),
            Route::Object(resource, _, part) => (Some(resource), true, part.as_str()),
            _ => (None, false, ""),
        };
        let kind = resource.and_then(|resource| kinds.find(&resource.group, &resource.version, &resource.plural));
        let verb = match *method {
            Method::GET | Method::HEAD if watches => "WATCH",
            Method::GET | Method::HEAD => one("LIST", "GET", named || resource.is_none()),
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => one("DELETECOLLECTION", "DELETE", named),
            // Anybody can make up methods.
            _ => "other",
        };
        let known =
            ["status", "binding", "eviction", "finalize", "token", "ephemeralcontainers", "resize", "log", "exec"];
        let subresource = known.into_iter().find(|known| *known == part).unwrap_or_default();
        let scope = match resource {
            None => "",
            Some(_) if named => "resource",
            Some(resource) if resource.namespace.is_some() => "namespace",
            Some(_) => "cluster",
        };
        let text = |of: fn(&crate::kinds::Kind) -> &str| kind.map(|kind| of(kind).to_owned()).unwrap_or_default();
        Self {
            verb,
            group: text(|kind| kind.group),
            version: text(|kind| kind.version),
            resource: text(|kind| kind.plural),
            subresource,
            scope,
            component: "apiserver",
        }
    }

    fn is_long(&self) -> bool {
        self.verb == "WATCH"
    }
}

impl Metrics {
    /// Counts a request as under way, as long as the answer is kept; watches are counted by [`Metrics::watches`].
    pub(super) fn begins(&self, asked: &Asked) -> Option<Running> {
        let request_kind = if matches!(asked.verb, "GET" | "LIST") { "readOnly" } else { "mutating" };
        (!asked.is_long()).then(|| Running::new(self.inflight.get_or_create(&Kind { request_kind }).clone()))
    }

    /// Counts a watch, as long as the answer is kept.
    pub(super) fn watches(&self, asked: &Asked) -> Running {
        Running::new(self.long_running.get_or_create(asked).clone())
    }

    /// A request was answered.
    pub(super) fn answered(&self, asked: &Asked, code: u16, dry_run: bool, after: Duration) {
        if !asked.is_long() {
            self.durations.get_or_create(asked).observe(after.as_secs_f64());
        }
        let Asked { verb, group, version, resource, subresource, scope, component } = asked.clone();
        let dry_run = if dry_run { "All" } else { "" };
        let labels = Answered { verb, group, version, resource, subresource, scope, component, dry_run, code };
        self.requests.get_or_create(&labels).inc();
    }

    /// Everything, in the OpenMetrics text format.
    pub(super) fn text(&self, engine: &Engine) -> String {
        for kind in engine.kinds().stored() {
            let resource = kind.resource();
            let count = i64::try_from(engine.store().count(&resource)).unwrap_or(i64::MAX);
            self.objects.get_or_create(&Resource { resource }).set(count);
        }
        self.revision.set(i64::try_from(engine.store().revision()).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string can't fail, and no family of ours refuses to be written.
        if text::encode(&mut text, &self.registry).is_err() {
            tracing::error!("a metric can't be written; the text is cut short");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::route::route;
    use super::*;

    #[test]
    fn requests_are_labelled_as_upstream_labels_them() {
        let labels = |method: Method, path: &str, watches: bool| {
            let asked = Asked::of(&method, &route(path), watches, &Kinds::default());
            format!("{} {} {} {} {}", asked.verb, asked.group, asked.resource, asked.subresource, asked.scope)
        };
        for (method, path, watches, expected) in [
            (Method::GET, "/api/v1/pods", false, "LIST  pods  cluster"),
            (Method::GET, "/api/v1/pods", true, "WATCH  pods  cluster"),
            (Method::GET, "/api/v1/namespaces/ns/pods/p", false, "GET  pods  resource"),
            (Method::PATCH, "/api/v1/namespaces/ns/pods/p/status", false, "PATCH  pods status resource"),
            (Method::DELETE, "/api/v1/namespaces/ns/pods", false, "DELETECOLLECTION  pods  namespace"),
            (Method::POST, "/apis/node.k8s.io/v1/runtimeclasses", false, "POST node.k8s.io runtimeclasses  cluster"),
            (Method::GET, "/version", false, "GET    "),
            (Method::GET, "/api/v1/madeup/x/y", false, "GET    resource"),
            (Method::OPTIONS, "/api/v1/pods", false, "other  pods  cluster"),
        ] {
            assert_eq!(labels(method, path, watches), expected, "{path}");
        }
    }

    #[test]
    fn what_is_open_is_counted_until_it_goes() {
        let metrics = Metrics::default();
        let asked = Asked::of(&Method::GET, &route("/api/v1/pods"), true, &Kinds::default());
        let gauge = metrics.long_running.get_or_create(&asked).clone();
        let (one, two) = (metrics.watches(&asked), metrics.watches(&asked));
        assert_eq!(gauge.get(), 2);
        drop((one, two));
        assert_eq!(gauge.get(), 0);
        assert!(metrics.begins(&asked).is_none());
    }
}
