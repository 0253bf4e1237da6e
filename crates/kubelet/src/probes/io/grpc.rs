//! `grpc`: one call of `grpc.health.v1.Health/Check`, over HTTP/2 without TLS.
//!
//! The call is small enough to be written out: a message with one string goes, a message with one number comes, each
//! behind five bytes of flag and length; the outcome stands in the trailers.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Request, Response, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Answer;
use super::address::{Address, connect};
use super::http::http_words;

const PATH: &str = "/grpc.health.v1.Health/Check";
/// An answer is a few bytes.
const ANSWER_LIMIT: usize = 64 * 1024;
/// `UNIMPLEMENTED`.
const UNIMPLEMENTED: u32 = 12;

/// What became of the call.
enum Called {
    /// A message came.
    Answered(Vec<u8>),
    /// The server refused, with a code and a text.
    Status(u32, String),
    /// There is no answer; in words.
    Broken(String),
}

pub(super) async fn ask(address: &Address, service: &str, limit: Duration) -> Answer {
    let begun = tokio::time::Instant::now();
    let stream = match timeout(limit, connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(message)) => {
            return Answer::Failure(format!("error: failed to connect service at \"{address}\": {message}"));
        }
        Err(_) => {
            let message = format!(
                "timeout: failed to connect service \"{address}\" within {}s: context deadline exceeded",
                limit.as_secs()
            );
            return Answer::Failure(message);
        }
    };
    let left = limit.saturating_sub(begun.elapsed());
    match timeout(left, call(address, service, TokioIo::new(stream))).await {
        Err(_) => Answer::Failure(format!("timeout: health rpc did not complete within {}s", limit.as_secs())),
        Ok(Called::Answered(message)) => judge(&message),
        Ok(Called::Status(UNIMPLEMENTED, message)) => Answer::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Ok(Called::Status(code, message)) => Answer::Failure(format!(
            "error: health rpc probe failed: rpc error: code = {} desc = {message}",
            code_name(code)
        )),
        Ok(Called::Broken(message)) => Answer::Failure(format!("error: health rpc probe failed: {message}")),
    }
}

async fn call(address: &Address, service: &str, stream: TokioIo<tokio::net::TcpStream>) -> Called {
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = match handshake {
        Ok(pair) => pair,
        Err(error) => return Called::Broken(http_words(&error)),
    };
    let driven = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let agent = format!("kube-probe/{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let request = Request::post(format!("http://{address}{PATH}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, agent)
        .body(Full::new(Bytes::from(framed(&asked(service)))));
    let request = match request {
        Ok(request) => request,
        Err(error) => return Called::Broken(error.to_string()),
    };
    let called = match sender.send_request(request).await {
        Ok(response) => read(response).await,
        Err(error) => Called::Broken(http_words(&error)),
    };
    drop(driven);
    called
}

async fn read(response: Response<Incoming>) -> Called {
    let (head, mut stream) = response.into_parts();
    if head.status != hyper::StatusCode::OK {
        return Called::Broken(format!("unexpected HTTP status code received from server: {}", head.status));
    }
    let (mut body, mut trailers) = (Vec::new(), None);
    while let Some(frame) = stream.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Called::Broken(http_words(&error)),
        };
        match frame.into_data() {
            Ok(data) if body.len() + data.len() > ANSWER_LIMIT => {
                return Called::Broken("the answer is too long".to_owned());
            }
            Ok(data) => body.extend(data),
            Err(other) => trailers = other.into_trailers().ok().or(trailers),
        }
    }
    // A server that refuses at once says so in the headers.
    match status(trailers.as_ref().unwrap_or(&head.headers)) {
        Some((0, _)) => match unframed(&body) {
            Some(message) => Called::Answered(message.to_vec()),
            None => Called::Broken("the answer is no message".to_owned()),
        },
        Some((code, message)) => Called::Status(code, message),
        None => Called::Broken("the answer has no status".to_owned()),
    }
}

fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|m| m.to_str().ok()).unwrap_or_default();
    Some((code, message.to_owned()))
}

/// `HealthCheckRequest`: field 1 is the service.
fn asked(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
            length >>= 7;
        }
        message.push(u8::try_from(length).unwrap_or_default());
        message.extend(service.as_bytes());
    }
    message
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// The message of an answer that holds exactly one, uncompressed.
fn unframed(body: &[u8]) -> Option<&[u8]> {
    let (head, message) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes(head.get(1..5)?.try_into().ok()?);
    (head.first() == Some(&0) && usize::try_from(length).ok()? == message.len()).then_some(message)
}

/// `HealthCheckResponse`: field 1 is the status.
fn judge(message: &[u8]) -> Answer {
    let name = match serving_status(message) {
        Some(1) => return Answer::Success,
        Some(0) => "UNKNOWN".to_owned(),
        Some(2) => "NOT_SERVING".to_owned(),
        Some(3) => "SERVICE_UNKNOWN".to_owned(),
        Some(other) => other.to_string(),
        None => return Answer::Failure("error: health rpc probe failed: the answer is no health status".to_owned()),
    };
    Answer::Failure(format!("service unhealthy (responded with {name:?})"))
}

/// The value of field 1; 0 where it is absent. Other fields are skipped. `None`: this is no such message.
fn serving_status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = varint(&mut message)?,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            (_, _) => return None,
        }
    }
    Some(status)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The name of a status code, as upstream prints it.
fn code_name(code: u32) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests;
