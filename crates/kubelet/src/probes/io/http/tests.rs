//! Rows of upstream's HTTP probe tests, against a server on loopback that answers with prepared bytes.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// A server that answers the nth request (counted from 0) with what `answer` makes of its head, and closes.
struct Server {
    port: u16,
    heads: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    _task: Connection,
}

impl Server {
    async fn new(answer: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
        let seen = heads.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
                // A greeting of TLS has no such end, and is answered as plain servers do.
                while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.first() != Some(&0x16) {
                    match stream.read(&mut buffer).await {
                        Ok(n) if n > 0 => head.extend(&buffer[..n]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let number = seen.lock().unwrap().len();
                let text = answer(number, &head);
                seen.lock().unwrap().push(head);
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { port, heads, _task: AbortOnDropHandle::new(task) }
    }

    /// One that always answers so.
    async fn saying(status: &'static str, headers: &'static str, body: &'static str) -> Self {
        Self::new(move |_, _| response(status, headers, body)).await
    }

    fn get(&self, action: Value) -> Get {
        let mut action: HTTPGetAction = serde_json::from_value(action).unwrap();
        if action.port == IntOrString::Int(0) {
            action.port = IntOrString::Int(i32::from(self.port));
        }
        Get::new(&action, &Container::default(), &["127.0.0.1".parse().unwrap()], "probe").unwrap()
    }

    async fn ask(&self, action: Value) -> Answer {
        ask(&self.get(action), LIMIT).await
    }

    fn head(&self, number: usize) -> String {
        self.heads.lock().unwrap()[number].clone()
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn plain() -> Value {
    json!({"port": 0, "path": "/healthz"})
}

#[tokio::test]
async fn statuses_from_200_to_299_are_success_and_from_400_failure() {
    for (status, expected) in [
        ("200 OK", Answer::Success),
        ("204 No Content", Answer::Success),
        ("299 Odd", Answer::Success),
        ("400 Bad Request", Answer::Failure("HTTP probe failed with statuscode: 400".to_owned())),
        ("404 Not Found", Answer::Failure("HTTP probe failed with statuscode: 404".to_owned())),
        ("503 Busy", Answer::Failure("HTTP probe failed with statuscode: 503".to_owned())),
    ] {
        let body = if status.starts_with("204") { "" } else { "text" };
        let server = Server::saying(status, "", body).await;
        assert_eq!(server.ask(plain()).await, expected, "{status}");
    }
}

#[tokio::test]
async fn what_is_sent_by_itself() {
    let server = Server::saying("200 OK", "", "").await;
    assert_eq!(server.ask(json!({"port": 0, "path": "/a/b?c=d&e"})).await, Answer::Success);
    let head = server.head(0).to_lowercase();
    assert!(head.starts_with("get /a/b?c=d&e http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", server.port)), "{head}");
    assert!(head.contains("\r\nuser-agent: kube-probe/") && head.contains("\r\naccept: */*\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
}

#[tokio::test]
async fn own_headers_replace_those() {
    let server = Server::saying("200 OK", "", "").await;
    let headers = json!([{"name": "Host", "value": "example.com"}, {"name": "User-Agent", "value": "me"},
        {"name": "Accept", "value": ""}, {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"}]);
    assert_eq!(server.ask(json!({"port": 0, "path": "no-slash", "httpHeaders": headers})).await, Answer::Success);
    let head = server.head(0).to_lowercase();
    assert!(head.starts_with("get /no-slash "), "{head}");
    assert!(head.contains("\r\nhost: example.com\r\n") && head.contains("\r\nuser-agent: me\r\n"), "{head}");
    assert!(head.contains("x-a: 1\r\n") && head.contains("x-a: 2\r\n") && !head.contains("accept"), "{head}");
}

#[tokio::test]
async fn headers_that_can_not_be_sent_are_refused_without_their_values() {
    let action = |name: &str, value: &str| -> HTTPGetAction {
        serde_json::from_value(json!({"port": 1, "httpHeaders": [{"name": name, "value": value}]})).unwrap()
    };
    let ips = ["127.0.0.1".parse().unwrap()];
    for (name, value) in [("X", "a\r\nY: secret"), ("bad name", "secret")] {
        let error = Get::new(&action(name, value), &Container::default(), &ips, "probe").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn redirects_on_the_same_host_are_followed() {
    let server = Server::new(|number, _| match number {
        0 => response("302 Found", "Location: /second\r\n", ""),
        1 => response("307 Again", "Location: third?x=1\r\n", ""),
        _ => response("200 OK", "", ""),
    })
    .await;
    let headers = json!([{"name": "Host", "value": "example.com"}, {"name": "X-A", "value": "1"}]);
    assert_eq!(server.ask(json!({"port": 0, "path": "/first", "httpHeaders": headers})).await, Answer::Success);
    let last = server.head(2).to_lowercase();
    assert!(last.starts_with("get /third?x=1 "), "{last}");
    assert!(last.contains("host: example.com") && last.contains("x-a: 1"), "headers go along: {last}");
}

#[tokio::test]
async fn a_redirect_to_a_failure_is_a_failure() {
    let server = Server::new(|number, _| match number {
        0 => response("301 Moved", "Location: /second\r\n", ""),
        _ => response("500 Oops", "", ""),
    })
    .await;
    assert_eq!(server.ask(plain()).await, Answer::Failure("HTTP probe failed with statuscode: 500".to_owned()));
}

#[tokio::test]
async fn a_redirect_to_another_host_is_success_with_a_warning() {
    let server = Server::saying("302 Found", "Location: http://example.invalid/\r\n", "over there").await;
    let expected = "Probe terminated redirects, Response body: over there";
    assert_eq!(server.ask(plain()).await, Answer::Warning(expected.to_owned()));
    assert_eq!(server.heads.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn too_many_redirects_are_a_failure() {
    let server = Server::saying("302 Found", "Location: /again\r\n", "").await;
    let Answer::Failure(message) = server.ask(plain()).await else { panic!("a failure") };
    assert!(message.ends_with("stopped after 10 redirects"), "{message}");
    assert_eq!(server.heads.lock().unwrap().len(), 11);
}

#[tokio::test]
async fn other_redirection_statuses_are_success_with_a_warning() {
    let server = Server::saying("304 Not Modified", "", "").await;
    assert!(matches!(server.ask(plain()).await, Answer::Warning(_)));
}

#[tokio::test]
async fn only_the_beginning_of_a_body_is_read() {
    let server = Server::new(|_, _| {
        let body = "x".repeat(50_000);
        format!("HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\nContent-Length: 1000000000\r\n\r\n{body}")
    })
    .await;
    let Answer::Warning(message) = server.ask(plain()).await else { panic!("a warning") };
    assert_eq!(message.matches('x').count(), BODY_LIMIT, "{}", message.len());
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_an_error_and_no_answer() {
    let server = Server::new(|_, _| "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_owned()).await;
    assert!(matches!(server.ask(plain()).await, Answer::Error { state: "failure", .. }));
}

#[tokio::test]
async fn no_answer_is_a_failure_in_upstreams_words() {
    let server = Server::new(|_, _| String::new()).await;
    let url = format!("http://127.0.0.1:{}/healthz", server.port);
    assert_eq!(server.ask(plain()).await, Answer::Failure(format!("Get \"{url}\": EOF")));

    let (get, port) = (server.get(plain()), server.port);
    drop(server);
    while ask(&get, LIMIT).await == Answer::Failure(format!("Get \"{url}\": EOF")) {}
    let expected = format!("Get \"{url}\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(ask(&get, LIMIT).await, Answer::Failure(expected));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_a_failure() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let action: HTTPGetAction = serde_json::from_value(json!({"port": port, "path": "/"})).unwrap();
    let get = Get::new(&action, &Container::default(), &["127.0.0.1".parse().unwrap()], "probe").unwrap();
    let expected = format!(
        "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(ask(&get, Duration::from_secs(1)).await, Answer::Failure(expected));
}

#[tokio::test]
async fn what_is_not_http_is_a_failure() {
    let server = Server::new(|_, _| "SSH-2.0-OpenSSH\r\n".to_owned()).await;
    assert!(matches!(server.ask(plain()).await, Answer::Failure(_)));
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_told_apart() {
    let server = Server::saying("400 Bad Request", "", "").await;
    let get = server.get(json!({"port": 0, "path": "/x", "scheme": "HTTPS",
        "httpHeaders": [{"name": "Authorization", "value": "secret"}]}));
    let answer = fetch(&get, Some(LIMIT)).await;
    assert!(
        matches!(&answer, Err(Refusal::PlainAnswer(m)) if m.ends_with("server gave HTTP response to HTTPS client")),
        "{answer:?}"
    );
    let answered = fetch(&get.plain(), Some(LIMIT)).await.unwrap();
    assert_eq!(answered.status, 400);
    let last = server.heads.lock().unwrap().len() - 1;
    let head = server.head(last);
    assert!(head.starts_with("GET /x ") && !head.contains("secret"), "{head}");
}

#[test]
fn an_ipv6_address_is_asked_in_brackets() {
    let action: HTTPGetAction = serde_json::from_value(json!({"port": 80, "path": "/"})).unwrap();
    let get = Get::new(&action, &Container::default(), &["fd00::1".parse().unwrap()], "probe").unwrap();
    assert_eq!((get.text.as_str(), get.host.to_str().unwrap()), ("http://[fd00::1]:80/", "[fd00::1]:80"));
    assert_eq!(get.address(), Address { host: "fd00::1".to_owned(), port: 80 });
}

/// A certificate of `another.host` that nobody has signed, and its key: for this test and nothing else.
const CERTIFICATE: &str = "MIIBhjCCASugAwIBAgIUIeD+/i6ruwI3uHWJAsu2J/YMFKYwCgYIKoZIzj0EAwIwFzEVMBMGA1UEAwwMYW5vdGhlci5ob3N0MCAX\
    DTI2MTEyMjAwMTM1OVoYDzIxMjYxMDI5MDAxMzU5WjAXMRUwEwYDVQQDDAxhbm90aGVyLmhvc3QwWTATBgcqhkjOPQIBBggqhkjO\
    PQMBBwNCAARDgr4LLrzYDo3ZsmQQS0Nidf+queW+irNjkAW7tAlzffY4jzHjrF6IDFWUdVFEGp4wXnU0sZK55PXllltMmyEYo1Mw\
    UTAdBgNVHQ4EFgQUjeDLHlIRKVTi8z7+VSIGeDtbZY0wHwYDVR0jBBgwFoAUjeDLHlIRKVTi8z7+VSIGeDtbZY0wDwYDVR0TAQH/\
    BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAtc82YGIbfVD8XIRY4YIAedk8lDiYxddA+ES027s3afgCIQCaZzPCyaY7rQ268IPM\
    UPfrCqs3y5LDUkXSEg89JL2F3A==";
const KEY: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgu8hUc3+vCO/dWXRNMocbKmEQNl2BqyzDRb87devxInihRANCAARD\
    gr4LLrzYDo3ZsmQQS0Nidf+queW+irNjkAW7tAlzffY4jzHjrF6IDFWUdVFEGp4wXnU0sZK55PXllltMmyEY";

#[tokio::test]
async fn whoever_answers_over_tls_is_believed() {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    let certificate = CertificateDer::from(BASE64_STANDARD.decode(CERTIFICATE).unwrap());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(BASE64_STANDARD.decode(KEY).unwrap()));
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _server = AbortOnDropHandle::new(tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(response("200 OK", "", "hello").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }));
    let action: HTTPGetAction = serde_json::from_value(json!({"port": port, "path": "/", "scheme": "HTTPS"})).unwrap();
    let get = Get::new(&action, &Container::default(), &["127.0.0.1".parse().unwrap()], "probe").unwrap();
    assert_eq!(ask(&get, LIMIT).await, Answer::Success);
}
