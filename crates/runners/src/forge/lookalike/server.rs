//! The server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use minke_core::clock::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::deliver::deliver;
use super::faults::{Fault, Faults, Kind};
use super::state::{News, NotRemoved, State};
use crate::forge::Secret;
use crate::ids::RunnerId;

const LONGEST: usize = 1 << 20;
const PAGE: usize = 30;
/// A page has no more.
const LARGEST_PAGE: usize = 100;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// How many requests an hour, and how long each takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests an hour; GitHub gives 5,000 to a token.
    pub hourly: u64,
    /// Each answer takes so long.
    pub latency: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { hourly: 5000, latency: Duration::ZERO }
    }
}

/// What a look-alike is to be.
#[derive(Debug, Clone)]
pub struct LookalikeSettings {
    /// Where it listens; a loopback address: it has no TLS.
    pub listen: SocketAddr,
    /// The token that it accepts.
    pub token: Secret,
    /// Its limits.
    pub limits: Limits,
    /// Where deliveries go, and their secret.
    pub webhook: Option<(String, Secret)>,
}

/// A look-alike can't be.
#[derive(Debug, thiserror::Error)]
pub enum LookalikeError {
    /// It has no TLS, and takes tokens.
    #[error("{0} is no loopback address, and the look-alike of GitHub speaks without TLS")]
    NotLoopback(SocketAddr),
    /// It can't listen.
    #[error("can't listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug, Default)]
struct Spent {
    since: Option<Timestamp>,
    requests: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    spent: Mutex<Spent>,
    settings: LookalikeSettings,
    clock: Arc<dyn Clock>,
    news: mpsc::UnboundedSender<News>,
}

/// A running look-alike; it ends when it is dropped.
#[derive(Debug)]
pub struct Lookalike {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: [AbortHandle; 2],
}

impl Drop for Lookalike {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lookalike {
    /// Listens and serves.
    ///
    /// # Errors
    ///
    /// It must not listen there, or can't.
    pub async fn start(settings: LookalikeSettings, clock: Arc<dyn Clock>) -> Result<Self, LookalikeError> {
        let address = settings.listen;
        if !address.ip().is_loopback() {
            return Err(LookalikeError::NotLoopback(address));
        }
        let listen = |source| LookalikeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (news, heard) = mpsc::unbounded_channel();
        let webhook = settings.webhook.clone();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            faults: Mutex::default(),
            spent: Mutex::default(),
            settings,
            clock,
            news,
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        let sender = tokio::spawn(async move {
            match webhook {
                Some((to, secret)) => deliver(to, secret, heard).await,
                None => drop(heard),
            }
        });
        Ok(Self { shared, address, tasks: [server.abort_handle(), sender.abort_handle()] })
    }

    /// Its address, as a `RunnerSet` names a server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes or looks at its state, and sends what webhooks tell of it.
    pub fn with<T>(&self, change: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        self.shared.with(change)
    }

    /// Something is to go wrong.
    pub fn fault(&self, fault: Fault) {
        lock(&self.shared.faults).add(fault);
    }

    /// How many requests were counted this hour.
    #[must_use]
    pub fn spent(&self) -> u64 {
        lock(&self.shared.spent).requests
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| shared.answer(request));
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An answer: its status, its body, more headers.
struct Answer(u16, Value, Vec<(&'static str, String)>);

fn answer(status: u16, body: Value) -> Answer {
    Answer(status, body, Vec::new())
}

fn error(status: u16, message: &str) -> Answer {
    answer(status, json!({"message": message}))
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let value = change(&mut state, now);
        for news in state.take_news() {
            // Nobody listens when there is no webhook.
            let _ = self.news.send(news);
        }
        value
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (authorization, tag) = (header("authorization").unwrap_or_default(), header("if-none-match"));
        let body = Limited::new(request.into_body(), LONGEST).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = uri.path().to_owned();
        let query = uri.query().unwrap_or_default().to_owned();
        let runner = path.starts_with("/_runner/");
        if !runner && !self.settings.limits.latency.is_zero() {
            sleep(self.settings.limits.latency).await;
        }
        let fault = lock(&self.faults).next(method.as_str(), &path);
        let Answer(status, body, mut headers) = match fault {
            Some(Kind::Hang) => std::future::pending().await,
            Some(Kind::Answer(status, message)) => error(status, &message),
            Some(Kind::RetryAfter(seconds)) => Answer(
                403,
                json!({"message": "You have exceeded a secondary rate limit"}),
                vec![("retry-after", seconds.to_string())],
            ),
            Some(Kind::LostAnswer) => {
                self.serve(&method, &path, &query, &body, &authorization);
                error(502, "Bad gateway")
            }
            Some(Kind::Delay(by)) => {
                sleep(by).await;
                self.serve(&method, &path, &query, &body, &authorization)
            }
            None => self.serve(&method, &path, &query, &body, &authorization),
        };
        let mut text = if body.is_null() { String::new() } else { body.to_string() };
        let mut status = status;
        if method == Method::GET && status == 200 && !runner {
            let fresh = format!("\"{}\"", hex::encode(&<sha2::Sha256 as sha2::Digest>::digest(&text)[..8]));
            if tag.as_deref() == Some(&fresh) {
                // What has not changed costs nothing.
                let mut spent = lock(&self.spent);
                spent.requests = spent.requests.saturating_sub(1);
                (status, text) = (304, String::new());
            }
            headers.push(("etag", fresh));
        }
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(Full::new(Bytes::from(text))).unwrap_or_default())
    }

    fn serve(&self, method: &Method, path: &str, query: &str, body: &Value, authorization: &str) -> Answer {
        let path = path.strip_prefix("/api/v3").unwrap_or(path);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if let ["_runner", call] = parts.as_slice() {
            return self.runner(call, body);
        }
        if authorization != format!("Bearer {}", self.settings.token.reveal()) {
            return error(401, "Bad credentials");
        }
        let (left, reset) = match self.spend() {
            Ok(left) => left,
            Err(reset) => {
                let limits = vec![
                    ("x-ratelimit-remaining", "0".to_owned()),
                    ("x-ratelimit-reset", reset.as_second().to_string()),
                ];
                return Answer(403, json!({"message": "API rate limit exceeded"}), limits);
            }
        };
        let mut answer = self.call(method, &parts, query, body);
        answer.2.push(("x-ratelimit-limit", self.settings.limits.hourly.to_string()));
        answer.2.push(("x-ratelimit-remaining", left.to_string()));
        answer.2.push(("x-ratelimit-reset", reset.as_second().to_string()));
        answer
    }

    /// Counts a request: how many are left until when, or that none is.
    fn spend(&self) -> Result<(u64, Timestamp), Timestamp> {
        let now = self.clock.now();
        let mut spent = lock(&self.spent);
        let since = spent.since.filter(|since| now.duration_since(*since) < HOUR);
        if since.is_none() {
            *spent = Spent { since: Some(now), requests: 0 };
        }
        let reset = since.unwrap_or(now) + HOUR;
        if spent.requests >= self.settings.limits.hourly {
            return Err(reset);
        }
        spent.requests += 1;
        Ok((self.settings.limits.hourly - spent.requests, reset))
    }

    fn call(&self, method: &Method, parts: &[&str], query: &str, body: &Value) -> Answer {
        let (scope, rest) = match parts {
            ["repos", _, _, rest @ ..] => (format!("{}/{}", parts[1], parts[2]), rest),
            ["orgs" | "enterprises", name, rest @ ..] => ((*name).to_owned(), rest),
            _ => return error(404, "Not Found"),
        };
        match (method, rest) {
            (&Method::POST, ["actions", "runners", "registration-token"]) => {
                let expires = self.clock.now() + HOUR;
                answer(201, json!({"token": "AABF", "expires_at": expires.to_string()}))
            }
            (&Method::POST, ["actions", "runners", "generate-jitconfig"]) => self.register(body),
            (&Method::GET, ["actions", "runners"]) => {
                let runners = self.with(|state, _| state.runners());
                let items = runners.iter().map(|runner| {
                    let status = if runner.online { "online" } else { "offline" };
                    json!({"id": runner.id, "name": runner.name, "os": "linux", "status": status, "busy": runner.busy,
                        "labels": []})
                });
                page("runners", items.collect(), query)
            }
            (&Method::DELETE, ["actions", "runners", id]) => {
                let Ok(id) = id.parse() else { return error(404, "Not Found") };
                match self.with(|state, _| state.remove(RunnerId(id))) {
                    Ok(()) => answer(204, Value::Null),
                    Err(NotRemoved::Unknown) => error(404, "Not Found"),
                    Err(NotRemoved::Busy) => error(422, "Runner is currently running a job and cannot be deleted."),
                }
            }
            (&Method::GET, ["actions", "runner-groups", group]) if parts[0] == "orgs" => {
                let Ok(id) = group.parse::<u64>() else { return error(404, "Not Found") };
                let selected = self.with(|state, _| state.selected(id).is_some());
                let visibility = if selected { "selected" } else { "all" };
                answer(
                    200,
                    json!({"id": id, "name": format!("group {id}"), "default": id == 1, "visibility": visibility,
                        "allows_public_repositories": false}),
                )
            }
            (&Method::GET, ["actions", "runner-groups", group, "repositories"]) if parts[0] == "orgs" => {
                let Ok(id) = group.parse::<u64>() else { return error(404, "Not Found") };
                let open = self.with(|state, _| state.selected(id).cloned()).unwrap_or_default();
                let item = |name: &String| json!({"full_name": name, "private": true});
                page("repositories", open.iter().map(item).collect(), query)
            }
            // A run of one job each, with the job's number.
            (&Method::GET, ["actions", "runs"]) => {
                let wanted = if query.contains("status=queued") { "queued" } else { "in_progress" };
                let jobs = self.with(|state, _| state.listed(&scope));
                let own = jobs.iter().filter(|job| word(job.status) == wanted);
                page("workflow_runs", own.map(|job| json!({"id": job.id})).collect(), query)
            }
            (&Method::GET, ["actions", "runs", run, "jobs"]) => {
                let jobs = self.with(|state, _| state.listed(&scope));
                let own = jobs.iter().filter(|job| job.id.to_string() == *run).map(|job| {
                    let runner = match job.status {
                        crate::demand::Status::Running { runner } => runner,
                        crate::demand::Status::Queued | crate::demand::Status::Over { .. } => None,
                    };
                    json!({"id": job.id, "status": word(job.status), "labels": job.labels, "runner_id": runner})
                });
                page("jobs", own.collect(), query)
            }
            _ => error(404, "Not Found"),
        }
    }

    fn register(&self, body: &Value) -> Answer {
        let labels: Option<Vec<String>> = body["labels"]
            .as_array()
            .map(|labels| labels.iter().filter_map(|label| label.as_str().map(str::to_owned)).collect());
        let (Some(name), Some(labels)) = (body["name"].as_str(), labels.filter(|labels| !labels.is_empty())) else {
            return error(422, "Invalid request: name, labels and runner_group_id are needed");
        };
        let group = body["runner_group_id"].as_u64().unwrap_or(1);
        match self.with(|state, _| state.register_in(group, name, &labels)) {
            Some((id, configuration)) => {
                answer(201, json!({"runner": {"id": id, "name": name}, "encoded_jit_config": configuration}))
            }
            None => error(409, "Already exists"),
        }
    }

    /// What the fake runner says: `connect` with its configuration, then `job` until there is one, then `done`.
    fn runner(&self, call: &str, body: &Value) -> Answer {
        let id = body["runner"].as_u64().map(RunnerId);
        match (call, id) {
            ("connect", _) => {
                let configuration = body["configuration"].as_str().unwrap_or_default();
                match self.with(|state, _| state.connect(configuration)) {
                    Some(id) => answer(200, json!({"runner": id})),
                    None => error(401, "the configuration was used, or its registration is gone"),
                }
            }
            ("job", Some(id)) => match self.with(|state, now| (state.knows(id), state.take_job(id, now))) {
                (false, _) => error(410, "the registration is gone"),
                (true, None) => answer(202, Value::Null),
                (true, Some(job)) => answer(200, json!({"job": job.id})),
            },
            ("done", Some(id)) => {
                self.with(|state, _| state.finish(id));
                answer(200, Value::Null)
            }
            _ => error(404, "Not Found"),
        }
    }
}

fn word(status: crate::demand::Status) -> &'static str {
    match status {
        crate::demand::Status::Queued => "queued",
        crate::demand::Status::Running { .. } => "in_progress",
        crate::demand::Status::Over { .. } => "completed",
    }
}

/// One page of a list, as `per_page` and `page` ask.
fn page(name: &str, items: Vec<Value>, query: &str) -> Answer {
    let number = |wanted: &str, default: usize| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == wanted).and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
    };
    let (size, page) = (number("per_page", PAGE).clamp(1, LARGEST_PAGE), number("page", 1).max(1));
    let total = items.len();
    let items: Vec<Value> = items.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect();
    answer(200, json!({"total_count": total, name: items}))
}

#[cfg(test)]
mod tests;
