//! Health and metrics over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200: the process answers |
//! | `/readyz` | 200 on the replica that acts, 503 on the others: deliveries go to the one that acts |
//! | `/metrics` | OpenMetrics text, to who knows the token; without a token, on loopback alone |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::controller::Metrics;
use crate::forge::Secret;

const CONNECTION: Duration = Duration::from_secs(30);
const CONNECTIONS: usize = 64;

/// What is observed.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The metrics.
    pub metrics: Metrics,
    /// Whether this replica acts.
    pub leads: watch::Receiver<bool>,
    /// Who knows it may read the metrics.
    pub token: Option<Secret>,
}

impl Observed {
    fn answer(&self, method: &Method, path: &str, authorization: Option<&str>, local: SocketAddr) -> (u16, String) {
        if method != Method::GET {
            return (405, "only GET\n".to_owned());
        }
        match path {
            "/healthz" => (200, "ok\n".to_owned()),
            "/readyz" if *self.leads.borrow() => (200, "ok\n".to_owned()),
            "/readyz" => (503, "another replica acts\n".to_owned()),
            "/metrics" => match &self.token {
                None if local.ip().is_loopback() => (200, self.metrics.text()),
                None => (403, "metrics are served without a token on loopback only\n".to_owned()),
                Some(token) if same(token, authorization) => (200, self.metrics.text()),
                Some(_) => (401, "the token is missing or wrong\n".to_owned()),
            },
            _ => (404, "there are /healthz, /readyz and /metrics\n".to_owned()),
        }
    }

    /// Serves until it is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let (own, room) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS)));
        let mut connections = JoinSet::new();
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(local) = stream.local_addr() else { continue };
            let own = Arc::clone(&own);
            connections.spawn(async move {
                let service = service_fn(|request: Request<_>| {
                    let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
                    let (status, text) = own.answer(request.method(), request.uri().path(), given, local);
                    let response = Response::builder()
                        .status(status)
                        .header("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
                        .body(Full::new(Bytes::from(text)))
                        .unwrap_or_default();
                    async { Ok::<_, Infallible>(response) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = timeout(CONNECTION, connection.serve_connection(TokioIo::new(stream), service)).await;
                drop(place);
            });
        }
    }
}

/// Compared by their digests: how long it takes says nothing of the token.
fn same(token: &Secret, authorization: Option<&str>) -> bool {
    let given = authorization.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    !token.reveal().is_empty() && Sha256::digest(given) == Sha256::digest(token.reveal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(token: Option<&str>) -> (Observed, watch::Sender<bool>) {
        let (sender, leads) = watch::channel(false);
        (Observed { metrics: Metrics::default(), leads, token: token.map(Secret::new) }, sender)
    }

    fn status(observed: &Observed, path: &str, authorization: Option<&str>, local: &str) -> u16 {
        observed.answer(&Method::GET, path, authorization, local.parse().unwrap()).0
    }

    #[test]
    fn metrics_are_for_who_knows_the_token_or_is_on_this_machine() {
        let (open, leads) = observed(None);
        assert_eq!(status(&open, "/metrics", None, "127.0.0.1:1"), 200);
        assert_eq!(status(&open, "/metrics", None, "10.0.0.1:1"), 403);
        let (closed, _leads) = observed(Some("t"));
        for (given, expected) in [(None, 401), (Some("Bearer x"), 401), (Some("t"), 401), (Some("Bearer t"), 200)] {
            assert_eq!(status(&closed, "/metrics", given, "127.0.0.1:1"), expected, "{given:?}");
        }
        let (empty, _leads) = observed(Some(""));
        assert_eq!(status(&empty, "/metrics", Some("Bearer "), "127.0.0.1:1"), 401);
        assert_eq!(status(&open, "/healthz", None, "10.0.0.1:1"), 200);
        assert_eq!(status(&open, "/readyz", None, "10.0.0.1:1"), 503);
        leads.send_replace(true);
        assert_eq!(status(&open, "/readyz", None, "10.0.0.1:1"), 200);
        assert_eq!(status(&open, "/x", None, "10.0.0.1:1"), 404);
        assert_eq!(open.answer(&Method::POST, "/healthz", None, "127.0.0.1:1".parse().unwrap()).0, 405);
    }
}
