//! A GitHub on loopback: the calls that the client makes, with answers that a test scripts.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// What was asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) authorization: String,
    pub(super) if_none_match: Option<String>,
    pub(super) body: Value,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    hangs: bool,
}

pub(super) fn reply(status: u16, body: &Value) -> Reply {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    Reply { status, headers: Vec::new(), body, hangs: false }
}

impl Reply {
    pub(super) fn header(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    /// No answer ever.
    pub(super) fn hangs(mut self) -> Self {
        self.hangs = true;
        self
    }
}

#[derive(Debug, Default)]
struct State {
    /// Answers by `METHOD /path`, one after the other; the last is given again and again.
    script: BTreeMap<String, VecDeque<Reply>>,
    asked: Vec<Asked>,
}

/// The server. It ends with the test.
#[derive(Debug)]
pub(super) struct Fake {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let served = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                connections.spawn(async move {
                    let service = service_fn(|request| answer(request, &state));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { url, state, task: task.abort_handle() }
    }

    /// The next answer to this.
    pub(super) fn answers(&self, line: &str, reply: Reply) -> &Self {
        self.state.lock().unwrap().script.entry(line.to_owned()).or_default().push_back(reply);
        self
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    state: &Mutex<State>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let line = format!("{} {}", request.method(), request.uri());
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (authorization, if_none_match) = (header("authorization").unwrap_or_default(), header("if-none-match"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let reply = {
        let mut state = state.lock().unwrap();
        state.asked.push(Asked { line: line.clone(), authorization, if_none_match, body });
        match state.script.get_mut(&line) {
            Some(script) if script.len() > 1 => script.pop_front().unwrap(),
            Some(script) => script[0].clone(),
            None => reply(404, &json!({"message": "Not Found"})),
        }
    };
    if reply.hangs {
        std::future::pending::<()>().await;
    }
    let mut response = hyper::Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(reply.body))).unwrap())
}
