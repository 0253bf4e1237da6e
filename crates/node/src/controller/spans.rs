//! Calls on the provider and writes to the API as spans, for who exports them.

use std::error::Error;

use minke_core::identity::PodKey;
use minke_core::runtime::error_chain;
use minke_core::spans::{ERROR, TARGET};
use tracing::Span;
use tracing::field::Empty;

use crate::book::ProviderCall;
use crate::pod::Write;

impl ProviderCall {
    /// In a word, as metrics and spans call it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Delete(_) => "delete",
            Self::Get => "get",
        }
    }
}

/// A call on the provider.
pub(super) fn call(node: &str, key: &PodKey, call: &ProviderCall) -> Span {
    tracing::trace_span!(
        target: TARGET,
        "provider",
        otel.name = %format_args!("provider.{}", call.word()),
        k8s.node.name = node,
        k8s.namespace.name = &*key.namespace,
        k8s.pod.name = &*key.name,
        k8s.pod.uid = key.uid.as_str(),
        outcome = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// A write to the API.
pub(super) fn write(node: &str, key: &PodKey, write: &Write) -> Span {
    let name = match write {
        Write::Patch(_) => "status.patch",
        Write::Remove | Write::Evict(_) => "pod.delete",
    };
    tracing::trace_span!(
        target: TARGET,
        "api",
        otel.name = name,
        otel.kind = "client",
        k8s.node.name = node,
        k8s.namespace.name = &*key.namespace,
        k8s.pod.name = &*key.name,
        k8s.pod.uid = key.uid.as_str(),
        outcome = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    )
}

/// How it went; with an error if it failed.
pub(super) fn went(span: &Span, outcome: &'static str, error: Option<&(dyn Error + 'static)>) {
    span.record("outcome", outcome);
    if let Some(error) = error.filter(|_| !span.is_disabled()) {
        span.record("otel.status_code", ERROR);
        span.record("otel.status_description", error_chain(error));
    }
}
