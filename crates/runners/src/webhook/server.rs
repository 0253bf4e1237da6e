//! The listener.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use minke_core::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::journal::Journal;
use super::payload::{Delivery, JobNews, parse};
use super::seen::SeenDeliveries;
use super::signature::verify;
use crate::controller::Metrics;
use crate::forge::Secret;

/// The longest delivery; one of a job has some ten kilobytes.
const LONGEST: usize = 1 << 20;
/// The longest delivery id: theirs are 36 characters.
const LONGEST_ID: usize = 100;
/// A connection lasts no longer, whatever comes over it.
const CONNECTION: Duration = Duration::from_secs(30);
/// So many at a time; others wait to be accepted.
const CONNECTIONS: usize = 256;
/// A listener that fails (no file descriptors) is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// What the receiver has to know.
#[derive(Debug)]
pub struct ReceiverSettings {
    /// The webhook's secret. There is no receiver without one.
    pub secret: Secret,
    /// Where news go. When it is full, the forge is told to come again.
    pub news: mpsc::Sender<JobNews>,
    /// Where they are written before the forge is told that they are taken; without one, the next poll makes up for a crash.
    pub journal: Option<(Journal, Arc<dyn Clock>)>,
    /// Where answers are counted.
    pub metrics: Option<Metrics>,
}

/// What becomes of a delivery.
#[derive(Debug)]
enum Judged {
    /// It is answered.
    Answer(StatusCode, String),
    /// It is taken, if there is room for it.
    Take { news: JobNews, id: String },
}

/// Takes deliveries.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiverSettings,
    seen: Mutex<SeenDeliveries>,
}

impl Receiver {
    /// One that does not listen yet.
    #[must_use]
    pub fn new(settings: ReceiverSettings) -> Self {
        Self { settings, seen: Mutex::default() }
    }

    /// Listens until it is dropped, which ends its connections. What was answered with 202 is in the queue, and on disk if there
    /// is a journal.
    pub async fn serve(self, listener: TcpListener) {
        let receiver = Arc::new(self);
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let receiver = Arc::clone(&receiver);
            connections.spawn(async move {
                let service = service_fn(|request| receiver.answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                // An error, or the end of its time: nobody is left to be told.
                let _ = timeout(CONNECTION, connection.serve_connection(TokioIo::new(stream), service)).await;
                drop(place);
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let posted = *request.method() == Method::POST;
        let (status, text) = self.take(request).await;
        if let Some(metrics) = self.settings.metrics.as_ref().filter(|_| posted) {
            metrics.delivery(outcome(status));
        }
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        Ok(response)
    }

    async fn take(&self, request: Request<Incoming>) -> (StatusCode, String) {
        match *request.method() {
            Method::POST => {}
            Method::GET => return (StatusCode::OK, "webhook receiver is running\n".to_owned()),
            _ => return (StatusCode::METHOD_NOT_ALLOWED, "deliveries are posted\n".to_owned()),
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (kind, id) = (header("x-github-event"), header("x-github-delivery"));
        let signature = header("x-hub-signature-256");
        let Ok(body) = Limited::new(request.into_body(), LONGEST).collect().await else {
            return (StatusCode::PAYLOAD_TOO_LARGE, format!("a delivery has {LONGEST} bytes at most\n"));
        };
        let judged = self.judge(kind.as_deref(), id.as_deref(), signature.as_deref(), &body.to_bytes());
        self.settle(judged).await
    }

    async fn settle(&self, judged: Judged) -> (StatusCode, String) {
        let (news, id) = match judged {
            Judged::Answer(status, text) => return (status, text),
            Judged::Take { news, id } => (news, id),
        };
        let Ok(place) = self.settings.news.try_reserve() else {
            return (StatusCode::SERVICE_UNAVAILABLE, "too much at a time; deliver it again\n".to_owned());
        };
        if let Some((journal, clock)) = &self.settings.journal
            && !journal.append(&news, clock.now()).await
        {
            return (StatusCode::SERVICE_UNAVAILABLE, "it can't be written down; deliver it again\n".to_owned());
        }
        // It is remembered only when it is taken: one that is refused comes again under its id.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).add(&id);
        place.send(news);
        (StatusCode::ACCEPTED, "taken\n".to_owned())
    }

    /// Everything but the connection: nothing is believed before the signature holds.
    fn judge(&self, kind: Option<&str>, id: Option<&str>, signature: Option<&str>, body: &[u8]) -> Judged {
        let answer = |status, text: &str| Judged::Answer(status, format!("{text}\n"));
        if let Err(bad) = verify(&self.settings.secret, signature, body) {
            return answer(StatusCode::UNAUTHORIZED, &bad.to_string());
        }
        let (Some(kind), Some(id)) = (kind, id.filter(|id| id.len() <= LONGEST_ID)) else {
            return answer(StatusCode::BAD_REQUEST, "X-GitHub-Event and X-GitHub-Delivery are needed");
        };
        if self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(id) {
            return answer(StatusCode::OK, "had that one");
        }
        match parse(kind, body) {
            Ok(Delivery::Job(news)) => Judged::Take { news, id: id.to_owned() },
            Ok(Delivery::Ping) => answer(StatusCode::OK, "pong"),
            Ok(Delivery::Ignored) => answer(StatusCode::OK, "not needed here"),
            Err(bad) => answer(StatusCode::BAD_REQUEST, &bad.to_string()),
        }
    }
}

/// An answer as a label.
fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        202 => "taken",
        200 => "not needed",
        401 => "not signed",
        503 => "full",
        _ => "malformed",
    }
}

#[cfg(test)]
mod tests {
    use super::super::payload::tests::delivery;
    use super::super::signature::tests::sign;
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    fn receiver(room: usize) -> (Receiver, mpsc::Receiver<JobNews>) {
        let (news, heard) = mpsc::channel(room);
        (Receiver::new(ReceiverSettings { secret: Secret::new("s"), news, journal: None, metrics: None }), heard)
    }

    async fn judged(receiver: &Receiver, kind: &str, id: &str, body: &[u8]) -> u16 {
        receiver.settle(receiver.judge(Some(kind), Some(id), Some(&sign("s", body)), body)).await.0.as_u16()
    }

    #[tokio::test]
    async fn nothing_is_believed_without_a_signature() {
        let (receiver, mut heard) = receiver(1);
        let body = delivery("queued", None);
        let forged = sign("other", &body);
        for signature in [None, Some("sha256=00"), Some(forged.as_str())] {
            let (status, _) = receiver.settle(receiver.judge(Some("workflow_job"), Some("1"), signature, &body)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_delivery_counts_once_and_one_that_was_refused_may_come_again() {
        let (receiver, mut heard) = receiver(1);
        let body = delivery("queued", None);
        assert_eq!(judged(&receiver, "workflow_job", "1", &body).await, 202);
        assert_eq!(judged(&receiver, "workflow_job", "1", &body).await, 200);
        assert_eq!(judged(&receiver, "workflow_job", "2", &body).await, 503, "full");
        heard.try_recv().unwrap();
        assert!(heard.try_recv().is_err());
        assert_eq!(judged(&receiver, "workflow_job", "2", &body).await, 202);
    }

    #[tokio::test]
    async fn what_is_signed_and_makes_no_sense_is_told() {
        let (receiver, _heard) = receiver(1);
        assert_eq!(judged(&receiver, "ping", "1", b"{}").await, 200);
        assert_eq!(judged(&receiver, "push", "2", b"{}").await, 200);
        assert_eq!(judged(&receiver, "workflow_job", "3", b"{}").await, 400);
        assert_eq!(judged(&receiver, "workflow_job", &"x".repeat(101), &delivery("queued", None)).await, 400);
        let (status, _) = receiver.settle(receiver.judge(None, Some("4"), Some(&sign("s", b"")), b"")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }

    async fn exchange(address: std::net::SocketAddr, head: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses a body does not read it to its end.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn over_http() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (receiver, mut heard) = receiver(4);
        let server = tokio::spawn(receiver.serve(listener));
        let body = delivery("in_progress", Some(7));
        let head = format!(
            "POST / HTTP/1.1\r\nx-github-event: workflow_job\r\nx-github-delivery: 1\r\nx-hub-signature-256: {}",
            sign("s", &body)
        );
        assert_eq!(exchange(address, &head, &body).await, "HTTP/1.1 202 Accepted");
        assert_eq!(heard.recv().await.unwrap().labels, ["linux"]);
        assert_eq!(exchange(address, "GET / HTTP/1.1", b"").await, "HTTP/1.1 200 OK");
        assert_eq!(exchange(address, "PUT / HTTP/1.1", b"").await, "HTTP/1.1 405 Method Not Allowed");
        let too_long = vec![b'x'; LONGEST + 1];
        assert_eq!(exchange(address, "POST / HTTP/1.1", &too_long).await, "HTTP/1.1 413 Payload Too Large");
        server.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (receiver, _heard) = receiver(1);
        let server = tokio::spawn(receiver.serve(listener));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
        server.abort();
    }
}
