//! An HTTP server on loopback that notes what it is asked and answers as told. An array is answered line by line.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

type Answer = dyn Fn(&Asked) -> (u16, Value) + Send + Sync;

/// Ends when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, answer): (_, Arc<Answer>) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let (noted, mut tasks) = (asked.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, answer) = (noted.clone(), answer.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| respond(request, asked.clone(), answer.clone()));
                    let io = TokioIo::new(stream);
                    drop(hyper::server::conn::http1::Builder::new().serve_connection(io, service).await);
                });
            }
        });
        Self { url, asked, _tasks: tasks }
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn respond(
    request: Request<Incoming>,
    noted: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<Answer>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let content_type = parts.headers.get("content-type").map(|v| v.to_str().unwrap().to_owned());
    let asked = Asked {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: content_type.unwrap_or_default(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (code, value) = answer(&asked);
    noted.lock().unwrap().push(asked);
    let text = match value {
        Value::Array(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
        other => other.to_string(),
    };
    Ok(Response::builder().status(code).header("content-type", "application/json").body(text.into()).unwrap())
}
