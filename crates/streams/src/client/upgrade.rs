//! From a request to an upgraded connection.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::ClientError;
use crate::negotiate::{SPDY, STREAM_PROTOCOL};

/// Most that is read of a refusal.
const MOST: usize = 4 << 10;
/// A server on this machine that has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request for an upgrade on a connection. The upgraded connection, and the headers of the answer.
///
/// # Errors
/// The connection broke, or the server answers something else than 101.
pub async fn upgrade<IO>(io: IO, request: Request<()>) -> Result<(HeaderMap, TokioIo<Upgraded>), ClientError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(ClientError::Http)?;
    tokio::spawn(async move {
        // Its errors are those of the request.
        let _ = connection.with_upgrades().await;
    });
    let response = sender.send_request(request.map(|()| Empty::<Bytes>::new())).await.map_err(ClientError::Http)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await;
        let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).trim().to_owned());
        let message = text.unwrap_or_else(|_| "a long answer".to_owned());
        return Err(ClientError::Refused { status, message });
    }
    let headers = response.headers().clone();
    let upgraded = hyper::upgrade::on(response).await.map_err(ClientError::Http)?;
    Ok((headers, TokioIo::new(upgraded)))
}

/// Dials an `http` address and asks it for SPDY with this protocol. For servers on this machine: there is no TLS.
///
/// # Errors
/// The address is none, nobody is there, or the server refuses.
pub async fn dial(address: &str, protocol: &'static str) -> Result<TokioIo<Upgraded>, ClientError> {
    let asking = async {
        let wrong = || ClientError::Address(address.to_owned());
        let url = url::Url::parse(address).ok().filter(|url| url.scheme() == "http").ok_or_else(wrong)?;
        let host = url.host_str().ok_or_else(wrong)?;
        let port = url.port_or_known_default().ok_or_else(wrong)?;
        let authority = format!("{host}:{port}");
        let socket = TcpStream::connect(&authority)
            .await
            .map_err(|source| ClientError::Connect { address: authority.clone(), source })?;
        // Keys and answers are small and should not wait for each other.
        let _ = socket.set_nodelay(true);
        let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &authority)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, SPDY)
            .header(STREAM_PROTOCOL, protocol)
            .body(())
            .map_err(|_| wrong())?;
        upgrade(socket, request).await
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(upgraded) => Ok(upgraded?.1),
        Err(_) => {
            Err(ClientError::Connect { address: address.to_owned(), source: std::io::ErrorKind::TimedOut.into() })
        }
    }
}
