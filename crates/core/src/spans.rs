//! How work on Pods is told as spans of a trace.
//!
//! Adapters open spans with the crate `tracing`, at the level `TRACE` and under [`TARGET`], so that they cost nothing
//! unless somebody wants them; the binary exports them (`minke node --otlp-endpoint`). Their fields have OpenTelemetry's names. Those
//! that begin with `otel.` mean what they mean to the crate tracing-opentelemetry, so a program that embeds an adapter may export its
//! spans with that.
//!
//! | field | what |
//! |---|---|
//! | `otel.name` | the span's name, of a few that there are |
//! | `otel.kind` | `client`: a request to a server; absent: work of our own |
//! | `k8s.namespace.name`, `k8s.pod.name`, `k8s.pod.uid` | the Pod |
//! | `outcome` | how it went, of a few words; absent: it was cancelled |
//! | `otel.status_code` | [`ERROR`] when it failed |
//! | `otel.status_description` | why, for people |

/// The target of all spans that are meant for export.
pub const TARGET: &str = "minke_spans";

/// What `otel.status_code` says of a span that failed.
pub const ERROR: &str = "ERROR";
