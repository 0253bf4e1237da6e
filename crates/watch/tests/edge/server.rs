//! A Kubernetes API of Pods on loopback, with faults: enough for a client, honest about versions.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

type Body = BoxBody<Bytes, std::io::Error>;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Watches are silent: the connection stands, and nothing comes.
    HalfOpen,
    /// Watches answer with this code.
    Watch(u16),
    /// Lists answer with this code.
    List(u16),
    /// Reviews of what is allowed answer with this code.
    Reviews(u16),
}

#[derive(Default)]
struct State {
    version: u64,
    pods: BTreeMap<String, Value>,
    events: Vec<Value>,
    /// What containers wrote: of the one that runs, and of the one before it. By `pod/container`.
    written: BTreeMap<String, [String; 2]>,
    log: Vec<(u64, Value)>,
    watchers: Vec<mpsc::UnboundedSender<Result<Frame<Bytes>, std::io::Error>>>,
    faults: Vec<Fault>,
    denied: BTreeSet<String>,
    requests: BTreeMap<String, usize>,
}

/// See the module. Ends when dropped.
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    pub(crate) url: String,
    address: SocketAddr,
    tasks: JoinSet<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into()).await
    }

    /// At this address, which another may have had.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}");
        let state = Arc::new(Mutex::new(State { version: 100, ..State::default() }));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let state = Arc::clone(&state);
                        async move { Ok::<_, Infallible>(answer(&state, request).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { state, url, address, tasks }
    }

    /// Writes a Pod; a uid of its own if it has none.
    pub(crate) fn put(&self, name: &str, mut pod: Value) {
        let mut state = lock(&self.state);
        state.version += 1;
        let version = state.version;
        pod["metadata"]["namespace"] = json!("ns");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["resourceVersion"] = json!(version.to_string());
        let known = state.pods.get(name).is_some_and(|old| old["metadata"]["uid"] == pod["metadata"]["uid"]);
        state.pods.insert(name.to_owned(), pod.clone());
        state.tell(version, if known { "MODIFIED" } else { "ADDED" }, &pod);
    }

    /// Removes a Pod.
    pub(crate) fn remove(&self, name: &str) {
        let mut state = lock(&self.state);
        state.version += 1;
        let version = state.version;
        let mut pod = state.pods.remove(name).unwrap();
        pod["metadata"]["resourceVersion"] = json!(version.to_string());
        state.tell(version, "DELETED", &pod);
    }

    pub(crate) fn event(&self, uid: &str, reason: &str, message: &str) {
        let event =
            json!({"metadata": {"name": reason}, "involvedObject": {"uid": uid}, "reason": reason, "message": message});
        lock(&self.state).events.push(event);
    }

    /// What a container of this Pod has written, and what the one before it had.
    pub(crate) fn wrote(&self, pod: &str, container: &str, now: &str, before: &str) {
        lock(&self.state).written.insert(format!("{pod}/{container}"), [now.to_owned(), before.to_owned()]);
    }

    pub(crate) fn faults(&self, faults: &[Fault]) {
        lock(&self.state).faults = faults.to_vec();
    }

    /// Takes rights away.
    pub(crate) fn deny(&self, verbs: &[&str]) {
        lock(&self.state).denied = verbs.iter().map(|verb| (*verb).to_owned()).collect();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The newest version.
    pub(crate) fn version(&self) -> u64 {
        lock(&self.state).version
    }

    /// Goes on where another server ended, which remembers nothing of what happened.
    pub(crate) fn resume(&self, version: u64) {
        lock(&self.state).version = version;
    }

    /// How many watches somebody still reads.
    pub(crate) fn watchers(&self) -> usize {
        lock(&self.state).watchers.iter().filter(|watcher| !watcher.is_closed()).count()
    }

    /// Cuts every watch.
    pub(crate) fn cut(&self) {
        let mut state = lock(&self.state);
        for watcher in state.watchers.drain(..) {
            let _ = watcher.send(Err(std::io::Error::other("cut")));
        }
    }

    /// Forgets what happened: versions from before are too old.
    pub(crate) fn compact(&self) {
        lock(&self.state).log.clear();
    }

    /// How often something was asked: `list`, `watch`, `get`, `events`, `reviews`.
    pub(crate) fn count(&self, what: &str) -> usize {
        lock(&self.state).requests.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn stop(&mut self) {
        self.tasks.abort_all();
        lock(&self.state).watchers.clear();
    }
}

impl State {
    fn tell(&mut self, version: u64, kind: &str, pod: &Value) {
        let event = json!({"type": kind, "object": pod});
        self.log.push((version, event.clone()));
        if self.faults.contains(&Fault::HalfOpen) {
            return;
        }
        self.watchers.retain(|watcher| watcher.send(Ok(line(&event))).is_ok());
    }

    fn note(&mut self, what: &str) {
        *self.requests.entry(what.to_owned()).or_default() += 1;
    }
}

fn line(event: &Value) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("{event}\n")))
}

fn whole(code: u16, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed();
    let status = StatusCode::from_u16(code).unwrap();
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        403 => "Forbidden",
        410 => "Expired",
        _ => "Other",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                        "message": format!("answered {code}"), "details": {"retryAfterSeconds": 1}});
    whole(code, &status)
}

async fn answer(state: &Mutex<State>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if request.method() == Method::POST && path.ends_with("/selfsubjectaccessreviews") {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let verb = review["spec"]["resourceAttributes"]["verb"].as_str().unwrap_or_default().to_owned();
        let mut state = lock(state);
        state.note("reviews");
        let fault = state.faults.iter().find_map(|f| if let Fault::Reviews(code) = f { Some(*code) } else { None });
        if let Some(code) = fault {
            return refusal(code);
        }
        review["status"] = json!({"allowed": !state.denied.contains(&verb), "reason": "by the test"});
        return whole(201, &review);
    }
    let mut state = lock(state);
    let denied = |state: &State, verb: &str| state.denied.contains(verb);
    match path.trim_start_matches("/api/v1/namespaces/ns/").split('/').collect::<Vec<_>>()[..] {
        ["events"] => {
            state.note("events");
            let of = |event: &&Value| query.contains(event["involvedObject"]["uid"].as_str().unwrap());
            let items: Vec<Value> = state.events.iter().filter(of).cloned().collect();
            whole(200, &json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}))
        }
        ["pods"] if query.contains("watch=true") => {
            state.note("watch");
            let fault = state.faults.iter().find_map(|f| if let Fault::Watch(code) = f { Some(*code) } else { None });
            if let Some(code) = fault {
                return refusal(code);
            }
            if denied(&state, "watch") {
                return refusal(403);
            }
            let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap_or("0");
            let from: u64 = from.parse().unwrap();
            let (sender, receiver) = mpsc::unbounded_channel();
            let first = state.log.first().map_or(state.version + 1, |(version, _)| *version);
            if from + 1 < first {
                let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}});
                sender.send(Ok(line(&gone))).unwrap();
            } else {
                if !state.faults.contains(&Fault::HalfOpen) {
                    for (_, event) in state.log.iter().filter(|(version, _)| *version > from) {
                        sender.send(Ok(line(event))).unwrap();
                    }
                }
                state.watchers.push(sender);
            }
            let frames = futures_util::stream::unfold(receiver, |mut r| async { r.recv().await.map(|item| (item, r)) });
            let body = BodyExt::boxed(StreamBody::new(frames.boxed_sync()));
            Response::builder().header("content-type", "application/json").body(body).unwrap()
        }
        ["pods"] => {
            state.note("list");
            let fault = state.faults.iter().find_map(|f| if let Fault::List(code) = f { Some(*code) } else { None });
            if let Some(code) = fault {
                return refusal(code);
            }
            if denied(&state, "list") {
                return refusal(403);
            }
            let items: Vec<Value> = state.pods.values().cloned().collect();
            let metadata = json!({"resourceVersion": state.version.to_string()});
            whole(200, &json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}))
        }
        ["pods", name] => {
            state.note("get");
            if denied(&state, "get") {
                return refusal(403);
            }
            match state.pods.get(name) {
                Some(pod) => whole(200, pod),
                None => refusal(404),
            }
        }
        ["pods", name, "log"] => {
            state.note("log");
            let container = query.split('&').find_map(|part| part.strip_prefix("container=")).unwrap_or_default();
            let previous = query.contains("previous=true");
            let text = state.written.get(&format!("{name}/{container}")).map(|written| &written[usize::from(previous)]);
            match text.filter(|text| !previous || !text.is_empty()) {
                Some(text) => {
                    let lines: Vec<&str> = text.lines().collect();
                    let tail = query.split('&').find_map(|part| part.strip_prefix("tailLines=")?.parse::<usize>().ok());
                    let first = lines.len().saturating_sub(tail.unwrap_or(usize::MAX));
                    let text: String = lines[first..].iter().map(|line| format!("{line}\n")).collect();
                    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
                    Response::builder().header("content-type", "text/plain").body(body).unwrap()
                }
                None => refusal(400),
            }
        }
        _ => refusal(404),
    }
}
trait BoxedSync: futures_util::Stream + Sized + Send + 'static {
    /// A boxed body must be `Sync`; a stream that is only polled is wrapped in a lock that nobody contends.
    fn boxed_sync(self) -> SyncStream<Self::Item> {
        SyncStream(Mutex::new(self.boxed()))
    }
}

impl<S: futures_util::Stream + Send + 'static> BoxedSync for S {}

struct SyncStream<T>(Mutex<futures_util::stream::BoxStream<'static, T>>);

impl<T> futures_util::Stream for SyncStream<T> {
    type Item = T;
    fn poll_next(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<T>> {
        let stream = self.get_mut().0.get_mut().unwrap_or_else(PoisonError::into_inner);
        stream.poll_next_unpin(context)
    }
}
