//! Spans of this process as they end, into the queue. Never waits.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use minke_core::clock::{Clock, SystemClock};
use minke_core::spans::{ERROR, TARGET};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{Filtered, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::counts::{Counts, Fate};
use super::otlp::{Ended, Kind, Value};

/// Listens to the subscriber.
#[derive(Debug, Clone)]
pub(crate) struct SpanLayer {
    queue: mpsc::Sender<Ended>,
    counts: Arc<Counts>,
}

impl SpanLayer {
    pub(super) fn new(queue: mpsc::Sender<Ended>, counts: Arc<Counts>) -> Self {
        Self { queue, counts }
    }

    /// To be added to a subscriber: it sees the spans that are meant for export, and makes no others come about.
    pub(crate) fn filtered<S>(self) -> Filtered<Self, Targets, S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.with_filter(Targets::new().with_target(TARGET, Level::TRACE).with_default(LevelFilter::OFF))
    }
}

/// A span that has not ended.
struct Open {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    begun: Timestamp,
    since: Instant,
    said: Said,
}

/// What its fields said so far.
#[derive(Default)]
struct Said {
    name: Option<String>,
    kind: Kind,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
    why: Option<String>,
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("otel.name", Value::Text(name)) => self.name = Some(name),
            ("otel.kind", Value::Text(kind)) if kind == "client" => self.kind = Kind::Client,
            ("otel.status_code", Value::Text(code)) => self.failed = code == ERROR,
            ("otel.status_description", Value::Text(why)) => self.why = Some(why),
            (name, value) => self.attributes.push((name, value)),
        }
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Number(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // The protocol has no unsigned numbers.
        self.put(field, i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Integer));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Truth(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }
}

/// Ids that nobody else has; `None`: the kernel has no randomness, and a span without an id can't be told.
fn ids() -> Option<([u8; 16], [u8; 8])> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).ok()?;
    let (trace, id) = bytes.split_at(16);
    Some((trace.try_into().ok()?, id.try_into().ok()?))
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let (Some(span), Some((own, id))) = (ctx.span(id), ids()) else { return };
        let parent = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Open>().map(|open| (open.trace, open.id))
        });
        let mut said = Said::default();
        attributes.record(&mut said);
        let (begun, since) = (SystemClock.now(), Instant::now());
        let trace = parent.map_or(own, |(trace, _)| trace);
        span.extensions_mut().insert(Open { trace, id, parent: parent.map(|(_, id)| id), begun, since, said });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.said);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        let Open { trace, id, parent, begun, since, said } = open;
        let Said { name, kind, attributes, failed, why } = said;
        let ended = Ended {
            trace,
            id,
            parent,
            name: name.unwrap_or_else(|| span.name().to_owned()),
            kind,
            begun,
            took: since.elapsed(),
            attributes,
            error: failed.then(|| why.unwrap_or_default()),
        };
        if self.queue.try_send(ended).is_err() {
            self.counts.add(Fate::QueueFull, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing::field::Empty;
    use tracing::{Instrument, info_span, trace_span};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// What comes into a queue of this length from the work.
    fn seen(length: usize, work: impl FnOnce()) -> (Vec<Ended>, Arc<Counts>) {
        let (sender, mut queue) = mpsc::channel(length);
        let counts = Arc::<Counts>::default();
        let layer = SpanLayer::new(sender, counts.clone());
        let subscriber = tracing_subscriber::registry().with(layer.filtered());
        tracing::subscriber::with_default(subscriber, work);
        let mut spans = Vec::new();
        while let Ok(span) = queue.try_recv() {
            spans.push(span);
        }
        (spans, counts)
    }

    #[test]
    fn a_span_says_what_its_fields_said_and_why_it_failed() {
        let (spans, _) = seen(8, || {
            let name = format_args!("provider.{}", "create");
            let span = trace_span!(target: TARGET, "call", otel.name = %name, otel.kind = "client", k8s.pod.name = "web",
                tries = 3_u64, outcome = Empty, otel.status_code = Empty, otel.status_description = Empty);
            span.record("outcome", "error");
            span.record("otel.status_code", ERROR);
            span.record("otel.status_description", "no such image");
        });
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((span.name.as_str(), span.kind), ("provider.create", Kind::Client));
        assert_eq!(span.error.as_deref(), Some("no such image"));
        let text = |text: &str| Value::Text(text.to_owned());
        let expected = [("k8s.pod.name", text("web")), ("tries", Value::Integer(3)), ("outcome", text("error"))];
        assert_eq!(span.attributes, expected);
        assert!(span.parent.is_none() && span.trace != [0; 16] && span.id != [0; 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_span_lasts_as_long_as_its_work_and_its_children_are_of_its_trace() {
        let (sender, mut queue) = mpsc::channel(8);
        let subscriber = tracing_subscriber::registry().with(SpanLayer::new(sender, Arc::default()).filtered());
        let guard = tracing::subscriber::set_default(subscriber);
        async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let child = trace_span!(target: TARGET, "child");
            tokio::time::sleep(Duration::from_secs(1)).instrument(child).await;
        }
        .instrument(trace_span!(target: TARGET, "parent"))
        .await;
        drop(guard);
        let (child, parent) = (queue.try_recv().unwrap(), queue.try_recv().unwrap());
        assert_eq!((child.name.as_str(), parent.name.as_str()), ("child", "parent"));
        assert_eq!((child.trace, child.parent), (parent.trace, Some(parent.id)));
        assert_eq!((child.took, parent.took), (Duration::from_secs(1), Duration::from_secs(3)));
    }

    #[test]
    fn only_what_is_meant_for_export_comes_about() {
        let (spans, _) = seen(8, || {
            let other = info_span!("of a library");
            assert!(other.is_disabled());
            let _entered = other.entered();
            assert!(!trace_span!(target: TARGET, "ours").is_disabled());
        });
        assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["ours"]);
    }

    #[test]
    fn a_full_queue_keeps_nobody_waiting_and_drops_are_counted() {
        let (spans, counts) = seen(2, || {
            for _ in 0..5 {
                drop(trace_span!(target: TARGET, "span"));
            }
        });
        assert_eq!((spans.len(), counts.of(Fate::QueueFull)), (2, 3));
    }
}
