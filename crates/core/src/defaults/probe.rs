//! Defaults of probes.

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};

use super::pod::fill;

pub(super) fn default_probe(probe: &mut Probe) {
    // Zero is the same as absent to a server.
    let fill_count = |count: &mut Option<i32>, value| {
        if count.is_none_or(|count| count == 0) {
            *count = Some(value);
        }
    };
    fill_count(&mut probe.timeout_seconds, 1);
    fill_count(&mut probe.period_seconds, 10);
    fill_count(&mut probe.success_threshold, 1);
    fill_count(&mut probe.failure_threshold, 3);
    if let Some(http) = &mut probe.http_get {
        default_http_get(http);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

pub(super) fn default_http_get(http: &mut HTTPGetAction) {
    fill(&mut http.path, "/");
    fill(&mut http.scheme, "HTTP");
}
