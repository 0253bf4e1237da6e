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
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::payload::{Delivery, JobNews, parse};
use super::seen::SeenDeliveries;
use super::signature::verify;
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

    /// Listens until it is dropped, which ends its connections. What was answered with 202 is in the queue.
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
        let (status, text) = self.take(request).await;
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
        self.judge(kind.as_deref(), id.as_deref(), signature.as_deref(), &body.to_bytes())
    }

    /// Everything but the connection: nothing is believed before the signature holds.
    fn judge(
        &self,
        kind: Option<&str>,
        id: Option<&str>,
        signature: Option<&str>,
        body: &[u8],
    ) -> (StatusCode, String) {
        if let Err(bad) = verify(&self.settings.secret, signature, body) {
            return (StatusCode::UNAUTHORIZED, format!("{bad}\n"));
        }
        let (Some(kind), Some(id)) = (kind, id.filter(|id| id.len() <= LONGEST_ID)) else {
            return (StatusCode::BAD_REQUEST, "X-GitHub-Event and X-GitHub-Delivery are needed\n".to_owned());
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(id) {
            return (StatusCode::OK, "had that one\n".to_owned());
        }
        let news = match parse(kind, body) {
            Ok(Delivery::Job(news)) => news,
            Ok(Delivery::Ping) => return (StatusCode::OK, "pong\n".to_owned()),
            Ok(Delivery::Ignored) => return (StatusCode::OK, "not needed here\n".to_owned()),
            Err(bad) => return (StatusCode::BAD_REQUEST, format!("{bad}\n")),
        };
        // It is remembered only when it is taken: one that is refused comes again under its id.
        match self.settings.news.try_send(news) {
            Ok(()) => {
                seen.add(id);
                (StatusCode::ACCEPTED, "taken\n".to_owned())
            }
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "too much at a time; deliver it again\n".to_owned()),
        }
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
        (Receiver::new(ReceiverSettings { secret: Secret::new("s"), news }), heard)
    }

    fn judged(receiver: &Receiver, kind: &str, id: &str, body: &[u8]) -> u16 {
        receiver.judge(Some(kind), Some(id), Some(&sign("s", body)), body).0.as_u16()
    }

    #[test]
    fn nothing_is_believed_without_a_signature() {
        let (receiver, mut heard) = receiver(1);
        let body = delivery("queued", None);
        let forged = sign("other", &body);
        for signature in [None, Some("sha256=00"), Some(forged.as_str())] {
            let (status, _) = receiver.judge(Some("workflow_job"), Some("1"), signature, &body);
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn a_delivery_counts_once_and_one_that_was_refused_may_come_again() {
        let (receiver, mut heard) = receiver(1);
        let body = delivery("queued", None);
        assert_eq!(judged(&receiver, "workflow_job", "1", &body), 202);
        assert_eq!(judged(&receiver, "workflow_job", "1", &body), 200);
        assert_eq!(judged(&receiver, "workflow_job", "2", &body), 503, "full");
        heard.try_recv().unwrap();
        assert!(heard.try_recv().is_err());
        assert_eq!(judged(&receiver, "workflow_job", "2", &body), 202);
    }

    #[test]
    fn what_is_signed_and_makes_no_sense_is_told() {
        let (receiver, _heard) = receiver(1);
        assert_eq!(judged(&receiver, "ping", "1", b"{}"), 200);
        assert_eq!(judged(&receiver, "push", "2", b"{}"), 200);
        assert_eq!(judged(&receiver, "workflow_job", "3", b"{}"), 400);
        assert_eq!(judged(&receiver, "workflow_job", &"x".repeat(101), &delivery("queued", None)), 400);
        let (status, _) = receiver.judge(None, Some("4"), Some(&sign("s", b"")), b"");
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
