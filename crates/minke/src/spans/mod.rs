//! Traces by OpenTelemetry, for who asks for them (`--otlp-endpoint`): spans of the work on Pods, sent to a collector by OTLP over HTTP.
//!
//! ```text
//! work in any task ─► SpanLayer: a span that ended ─► bounded queue ─► one task: batches ─► POST …/v1/traces
//!                                                        │ full: dropped, and counted
//! ```
//! Who works never waits for who exports. What is sent and what an answer means is decided in [`otlp`], when something is sent
//! again in [`retry`]; both perform nothing. Which spans there are says [`minke_core::spans`].

mod counts;
mod endpoint;
mod export;
mod layer;
mod otlp;
mod retry;

use std::sync::{Arc, OnceLock};

use clap::Args;
use tokio::sync::mpsc;

use crate::exit::Failure;
use counts::Counts;
use endpoint::Endpoint;
pub(crate) use export::Exporting;
use export::Sink;
pub(crate) use layer::SpanLayer;
use otlp::Ended;

/// Spans that wait to be sent, as OpenTelemetry's own processors keep.
const QUEUE: usize = 2048;

/// OpenTelemetry's own name of the address.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What this process has counted. One a process, as the subscriber is whose spans they are.
static COUNTS: OnceLock<Arc<Counts>> = OnceLock::new();

/// Metrics of the export in the OpenMetrics text format, without an end mark; nothing where nothing is exported.
pub(crate) fn metrics() -> String {
    COUNTS.get().map(|counts| counts.text()).unwrap_or_default()
}

/// Where traces go.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OtlpArgs {
    /// Send traces of the work on Pods to this OpenTelemetry collector, by OTLP over HTTP: http://localhost:4318
    // The environment's value may hold a password, and help shows values.
    #[arg(long, value_name = "URL", env = ENDPOINT, hide_env_values = true)]
    otlp_endpoint: Option<String>,
}

impl OtlpArgs {
    /// Where to, if anywhere. An empty address is none, as OpenTelemetry has it.
    ///
    /// # Errors
    /// It is no address of HTTP.
    pub(crate) fn endpoint(&self) -> Result<Option<Endpoint>, Failure> {
        let told = self.otlp_endpoint.as_deref().filter(|text| !text.is_empty());
        told.map(str::parse::<Endpoint>).transpose().map_err(|error| {
            Failure::usage(format!("--otlp-endpoint: {error}"))
                .hint("write for example http://localhost:4318; /v1/traces is added")
        })
    }

    /// The same, for a process that has this one's environment.
    pub(crate) fn as_arguments(&self) -> Option<String> {
        let inherited = std::env::var(ENDPOINT).ok();
        self.otlp_endpoint.as_deref().and_then(|url| argument(url, inherited.as_deref()))
    }
}

/// What the environment says is not said again: it may hold a password, and everybody can read arguments.
fn argument(url: &str, inherited: Option<&str>) -> Option<String> {
    (inherited != Some(url)).then(|| format!("--otlp-endpoint={url}"))
}

/// Spans on their way, before anybody sends them.
#[derive(Debug)]
pub(crate) struct Spans {
    endpoint: Endpoint,
    layer: SpanLayer,
    queue: mpsc::Receiver<Ended>,
    counts: Arc<Counts>,
}

impl Spans {
    /// To a collector.
    pub(crate) fn to(endpoint: Endpoint) -> Self {
        let counts = COUNTS.get_or_init(Arc::default).clone();
        let (sender, queue) = mpsc::channel(QUEUE);
        let layer = SpanLayer::new(sender, counts.clone());
        Self { endpoint, layer, queue, counts }
    }

    /// Takes spans from the subscriber.
    pub(crate) fn layer(&self) -> SpanLayer {
        self.layer.clone()
    }

    /// Begins to send them, from a task of its own.
    ///
    /// # Errors
    /// The HTTP client can't be made.
    pub(crate) fn export(self) -> Result<Exporting, Failure> {
        let sink = Sink::new(self.endpoint, self.counts).map_err(|error| {
            Failure::because("traces can't be sent", &error).hint("leave --otlp-endpoint out to go on without")
        })?;
        Ok(Exporting::begin(self.queue, sink))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(url: &str) -> OtlpArgs {
        OtlpArgs { otlp_endpoint: Some(url.to_owned()) }
    }

    #[test]
    fn an_empty_address_is_none_and_a_wrong_one_is_told_with_an_example() {
        assert!(OtlpArgs::default().endpoint().unwrap().is_none());
        assert!(args("").endpoint().unwrap().is_none());
        assert!(args("http://c:4318").endpoint().unwrap().is_some());
        let failure = args("c:4318").endpoint().unwrap_err();
        assert!(failure.message.contains("--otlp-endpoint"), "{failure}");
        assert!(failure.hint.unwrap().contains("http://localhost:4318"));
    }

    #[test]
    fn a_password_of_the_environment_is_no_argument_of_another_process() {
        let url = "https://me:secret@otel.example";
        assert_eq!(argument(url, Some(url)), None);
        let other = format!("--otlp-endpoint={url}");
        assert_eq!(argument(url, None).as_deref(), Some(other.as_str()));
        assert_eq!(argument(url, Some("http://c:1")), Some(other), "the flag counts");
    }
}
