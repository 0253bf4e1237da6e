use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minke_core::spans::{ERROR, TARGET};
use serde::Deserialize;
use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tracing::trace_span;
use tracing_subscriber::layer::SubscriberExt;

use super::super::layer::SpanLayer;
use super::super::otlp::Kind;
use super::*;

fn span(name: &str) -> Ended {
    Ended {
        trace: [1; 16],
        id: [2; 8],
        parent: None,
        name: name.to_owned(),
        kind: Kind::Internal,
        begun: Timestamp::UNIX_EPOCH,
        took: Duration::from_millis(1),
        attributes: Vec::new(),
        error: None,
    }
}

/// What a collector will say, and what it was asked.
#[derive(Debug, Default)]
struct Script {
    /// `None`: it never answers.
    answers: VecDeque<Option<Answer>>,
    /// How many spans each request had.
    requests: Vec<usize>,
}

/// A collector with a script; when that is over it takes all.
#[derive(Debug, Default, Clone)]
struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    fn answering(answers: impl IntoIterator<Item = Option<Answer>>) -> Self {
        Self(Arc::new(Mutex::new(Script { answers: answers.into_iter().collect(), requests: Vec::new() })))
    }

    fn requests(&self) -> Vec<usize> {
        self.0.lock().unwrap().requests.clone()
    }
}

impl Post for Scripted {
    async fn post(&self, body: Vec<u8>) -> Answer {
        let body: Json = serde_json::from_slice(&body).unwrap();
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
        let answer = {
            let mut script = self.0.lock().unwrap();
            script.requests.push(spans);
            script.answers.pop_front().unwrap_or(Some(taken(0)))
        };
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

fn taken(rejected: u64) -> Answer {
    Answer::Taken { rejected, remark: None }
}

fn later() -> Option<Answer> {
    Some(Answer::Later { at_least: Duration::ZERO, why: "busy".to_owned() })
}

/// An exporter over a script, and what it needs.
struct World {
    collector: Scripted,
    counts: Arc<Counts>,
    queue: mpsc::Sender<Ended>,
    exporting: Exporting,
}

fn world(answers: impl IntoIterator<Item = Option<Answer>>) -> World {
    let (collector, counts) = (Scripted::answering(answers), Arc::<Counts>::default());
    let (queue, spans) = mpsc::channel(2048);
    let sink = Sink::over(collector.clone(), "a script".to_owned(), counts.clone());
    World { collector, counts, queue, exporting: Exporting::begin(spans, sink) }
}

impl World {
    fn add(&self, spans: usize) {
        for n in 0..spans {
            self.queue.try_send(span(&format!("s{n}"))).unwrap();
        }
    }

    /// Paused time goes on until as many are accounted for.
    async fn until(&self, fate: Fate, spans: u64) {
        while self.counts.of(fate) < spans {
            sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn spans_wait_for_others_and_a_full_batch_does_not() {
    let world = world([]);
    let begun = Instant::now();
    world.add(3);
    world.until(Fate::Sent, 3).await;
    assert!(begun.elapsed() >= LINGER);
    let begun = Instant::now();
    world.add(BATCH + 1);
    world.until(Fate::Sent, 3 + 512).await;
    assert!(begun.elapsed() < LINGER);
    world.until(Fate::Sent, 3 + 513).await;
    assert_eq!(world.collector.requests(), [3, BATCH, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_is_asked_again_and_then_given_up() {
    let world = world((0..8).map(|_| later()));
    world.add(2);
    world.until(Fate::Unreachable, 2).await;
    assert_eq!(world.collector.requests(), [2; 8]);
    world.add(1);
    world.until(Fate::Sent, 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_sent_again() {
    let world = world([Some(Answer::Refused("it answers 400".to_owned())), Some(taken(2))]);
    world.add(4);
    world.until(Fate::Refused, 4).await;
    world.add(5);
    world.until(Fate::Sent, 3).await;
    assert_eq!(world.counts.of(Fate::Refused), 6);
    assert_eq!(world.collector.requests(), [4, 5]);
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_what_is_there_at_once() {
    let world = world([]);
    world.add(BATCH + 3);
    let (begun, counts, collector) = (Instant::now(), world.counts.clone(), world.collector.clone());
    world.exporting.end().await;
    assert!(begun.elapsed() < LINGER);
    assert_eq!(counts.of(Fate::Sent), 515);
    assert_eq!(collector.requests().iter().sum::<usize>(), 515);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_seconds_for_a_collector_that_does_not_answer() {
    let world = world([None, None, None]);
    world.add(1);
    let begun = Instant::now();
    world.exporting.end().await;
    assert_eq!(begun.elapsed(), END);
}

/// The protocol's messages as JSON has them; a name that they don't know is a mistake.
mod protocol {
    #![allow(dead_code, reason = "reading them is the test")]

    use super::{Deserialize, Json};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Request {
        pub(super) resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct ResourceSpans {
        pub(super) resource: Resource,
        pub(super) scope_spans: Vec<ScopeSpans>,
        schema_url: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Resource {
        pub(super) attributes: Vec<Attribute>,
        dropped_attributes_count: Option<u32>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct ScopeSpans {
        scope: Scope,
        pub(super) spans: Vec<Span>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Scope {
        name: String,
        version: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Span {
        pub(super) trace_id: String,
        pub(super) span_id: String,
        pub(super) parent_span_id: Option<String>,
        pub(super) name: String,
        pub(super) kind: u8,
        pub(super) start_time_unix_nano: String,
        pub(super) end_time_unix_nano: String,
        pub(super) attributes: Vec<Attribute>,
        pub(super) status: Option<Status>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Attribute {
        pub(super) key: String,
        pub(super) value: AnyValue,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(clippy::enum_variant_names, reason = "the protocol's names")]
    pub(super) enum AnyValue {
        StringValue(String),
        BoolValue(bool),
        IntValue(String),
        DoubleValue(f64),
        ArrayValue(Json),
        KvlistValue(Json),
        BytesValue(String),
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct Status {
        pub(super) code: u8,
        pub(super) message: String,
    }
}

/// What a collector on loopback was asked.
#[derive(Debug)]
struct Asked {
    line: String,
    content_type: String,
    authorization: Option<String>,
    body: Bytes,
}

/// Takes one connection, and answers each request with 200 and `{}`.
async fn collector(listener: TcpListener, asked: mpsc::UnboundedSender<Asked>) {
    let (connection, _) = listener.accept().await.unwrap();
    let service = service_fn(move |request: Request<Incoming>| {
        let asked = asked.clone();
        async move {
            let header = |name: &str| request.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
            let line = format!("{} {}", request.method(), request.uri());
            let (content_type, authorization) = (header("content-type").unwrap(), header("authorization"));
            let body = request.into_body().collect().await.unwrap().to_bytes();
            asked.send(Asked { line, content_type, authorization, body }).unwrap();
            let mut answer = Response::new(Full::new(Bytes::from_static(b"{}")));
            *answer.status_mut() = StatusCode::OK;
            Ok::<_, Infallible>(answer)
        }
    });
    // The client goes when it has what it wants.
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service).await);
}

#[tokio::test]
async fn a_collector_gets_what_the_specification_says_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, mut requests) = mpsc::unbounded_channel();
    let server = AbortOnDropHandle::new(tokio::spawn(collector(listener, asked)));
    let counts = Arc::<Counts>::default();
    let (queue, mut spans) = mpsc::channel(16);
    let subscriber = tracing_subscriber::registry().with(SpanLayer::new(queue, counts.clone()).filtered());
    tracing::subscriber::with_default(subscriber, || {
        let parent = trace_span!(target: TARGET, "pod.sync", k8s.pod.name = "web");
        parent.in_scope(|| {
            drop(trace_span!(target: TARGET, "status.patch", otel.kind = "client", otel.status_code = ERROR,
                otel.status_description = "forbidden"));
        });
    });
    let endpoint = format!("http://me:secret@{address}/base").parse().unwrap();
    let batch: Vec<Ended> = std::iter::from_fn(|| spans.try_recv().ok()).collect();
    Sink::new(endpoint, counts.clone()).unwrap().deliver(&batch).await;
    assert_eq!(counts.of(Fate::Sent), 2);
    let asked = requests.recv().await.unwrap();
    drop(server);

    assert_eq!((asked.line.as_str(), asked.content_type.as_str()), ("POST /base/v1/traces", "application/json"));
    assert_eq!(asked.authorization.as_deref(), Some("Basic bWU6c2VjcmV0"));
    let request: protocol::Request = serde_json::from_slice(&asked.body).unwrap();
    let of = &request.resource_spans[0];
    let named = |name: &str| of.resource.attributes.iter().any(|attribute| attribute.key == name);
    assert!(["service.name", "service.version", "host.name", "process.pid"].iter().all(|name| named(name)));
    let [child, parent] = &of.scope_spans[0].spans[..] else { panic!("{request:?}") };
    let is_hex = |id: &str, bytes: usize| hex::decode(id).is_ok_and(|id| id.len() == bytes);
    for span in [child, parent] {
        assert!(is_hex(&span.trace_id, 16) && is_hex(&span.span_id, 8), "{span:?}");
        let times = [&span.start_time_unix_nano, &span.end_time_unix_nano].map(|time| time.parse::<u64>().unwrap());
        assert!(times[0] <= times[1] && times[0] > 1_700_000_000_000_000_000, "{span:?}");
    }
    assert_eq!((child.name.as_str(), child.kind), ("status.patch", 3));
    assert_eq!((parent.name.as_str(), parent.kind), ("pod.sync", 1));
    assert_eq!((&child.trace_id, child.parent_span_id.as_deref()), (&parent.trace_id, Some(parent.span_id.as_str())));
    assert!(parent.parent_span_id.is_none() && parent.status.is_none());
    let status = child.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "forbidden"));
    let attribute = &parent.attributes[0];
    assert!(matches!(&attribute.value, protocol::AnyValue::StringValue(name) if name == "web"));
}
