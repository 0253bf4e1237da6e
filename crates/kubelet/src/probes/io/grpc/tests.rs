//! Against a health server over HTTP/2 on loopback, written with the same library's server half; and the messages.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::service::service_fn;
use tokio::net::TcpListener;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// What the server does with a call.
#[derive(Debug, Clone)]
enum Does {
    Answers(Vec<u8>),
    Refuses(&'static str, &'static str),
    NotFound,
    Hangs,
}

type Body = StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

fn response(does: &Does) -> Response<Body> {
    let trailers = |code: &str, message: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", code.parse().unwrap());
        headers.insert("grpc-message", message.parse().unwrap());
        headers
    };
    let frames = match does {
        Does::Answers(message) => {
            vec![Ok(Frame::data(Bytes::from(framed(message)))), Ok(Frame::trailers(trailers("0", "")))]
        }
        Does::Refuses(..) | Does::NotFound | Does::Hangs => vec![],
    };
    let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)));
    match does {
        Does::Refuses(code, message) => *response.headers_mut() = trailers(code, message),
        Does::NotFound => *response.status_mut() = hyper::StatusCode::NOT_FOUND,
        Does::Answers(_) | Does::Hangs => {}
    }
    response
}

async fn server(does: Does) -> (Address, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = Address { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let does = does.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let does = does.clone();
                async move {
                    assert_eq!(request.uri().path(), PATH);
                    assert_eq!(request.headers()[header::CONTENT_TYPE], "application/grpc");
                    assert!(request.headers()[header::USER_AGENT].to_str().unwrap().starts_with("kube-probe/"));
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(unframed(&body).unwrap(), asked("a.service"));
                    if matches!(does, Does::Hangs) {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(response(&does))
                }
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    (address, AbortOnDropHandle::new(task))
}

async fn asked_of(does: Does) -> Answer {
    let (address, _server) = server(does).await;
    ask(&address, "a.service", LIMIT).await
}

#[tokio::test]
async fn a_server_that_serves_is_healthy_and_no_other() {
    assert_eq!(asked_of(Does::Answers(vec![0x08, 1])).await, Answer::Success);
    for (message, name) in [
        (vec![], "UNKNOWN"),
        (vec![0x08, 0], "UNKNOWN"),
        (vec![0x08, 2], "NOT_SERVING"),
        (vec![0x08, 3], "SERVICE_UNKNOWN"),
        (vec![0x08, 9], "9"),
    ] {
        let expected = format!("service unhealthy (responded with \"{name}\")");
        assert_eq!(asked_of(Does::Answers(message)).await, Answer::Failure(expected));
    }
}

#[tokio::test]
async fn refusals_in_upstreams_words() {
    let unimplemented =
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service";
    assert_eq!(asked_of(Does::Refuses("12", "unknown service")).await, Answer::Failure(unimplemented.to_owned()));
    let not_found = "error: health rpc probe failed: rpc error: code = NotFound desc = no such";
    assert_eq!(asked_of(Does::Refuses("5", "no such")).await, Answer::Failure(not_found.to_owned()));
    let Answer::Failure(message) = asked_of(Does::NotFound).await else { panic!("a failure") };
    assert!(message.contains("unexpected HTTP status code received from server: 404"), "{message}");
    assert!(matches!(asked_of(Does::Answers(vec![0x0f])).await, Answer::Failure(_)), "no message at all");
}

#[tokio::test]
async fn nobody_there_is_a_failure() {
    let (address, server) = server(Does::Hangs).await;
    drop(server);
    // The listener goes with its task, which ends a little later.
    let refused =
        format!("error: failed to connect service at \"{address}\": dial tcp {address}: connect: connection refused");
    while !matches!(ask(&address, "a.service", Duration::from_secs(1)).await, Answer::Failure(m) if m == refused) {}
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_a_failure() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = Address { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let expected = "timeout: health rpc did not complete within 3s";
    assert_eq!(ask(&address, "", Duration::from_secs(3)).await, Answer::Failure(expected.to_owned()));
}

#[test]
fn messages() {
    assert_eq!(asked(""), Vec::<u8>::new());
    assert_eq!(asked("ab"), [0x0a, 2, b'a', b'b']);
    let long = "x".repeat(300);
    assert_eq!(asked(&long)[..3], [0x0a, 0xac, 2]);
    assert_eq!(framed(&[7, 8]), [0, 0, 0, 0, 2, 7, 8]);
    for body in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 2, 7], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 9]] {
        assert_eq!(unframed(body), None, "{body:?}");
    }
    assert_eq!(serving_status(&[0x12, 2, 9, 9, 0x08, 1]), Some(1), "other fields are skipped");
    assert_eq!(serving_status(&[0x08]), None);
    assert_eq!(serving_status(&[0x12, 0xff, 1]), None);
    assert_eq!(serving_status(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), None);
}
