use http::header::HeaderName;
use proptest::prelude::*;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

const SPDY_UPGRADE: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
const WEBSOCKET: [(&str, &str); 4] =
    [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"), KEY];

fn with(base: &[(&'static str, &'static str)], more: &[(&'static str, &'static str)]) -> HeaderMap {
    headers(&[base, more].concat())
}

#[test]
fn spdy_takes_the_clients_first_choice() {
    let offer = [
        ("x-stream-protocol-version", "v9.channel.k8s.io, v4.channel.k8s.io"),
        ("x-stream-protocol-version", "v3.channel.k8s.io"),
    ];
    let upgrade = exec(&Method::POST, &with(&SPDY_UPGRADE, &offer)).unwrap();
    assert_eq!(upgrade.protocol, ExecProtocol::Spdy(Version::V4));
    assert_eq!(upgrade.answer["x-stream-protocol-version"], "v4.channel.k8s.io");
    assert_eq!(
        (&upgrade.answer["connection"], &upgrade.answer["upgrade"]),
        (&"Upgrade".parse().unwrap(), &"SPDY/3.1".parse().unwrap())
    );
    // The method does not matter.
    assert!(exec(&Method::GET, &with(&SPDY_UPGRADE, &offer)).is_ok());
}

#[test]
fn spdy_is_refused_as_upstream_refuses_it() {
    let of = |headers: &HeaderMap| exec(&Method::POST, headers).unwrap_err();
    let nothing = of(&headers(&SPDY_UPGRADE));
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST);
    assert_eq!(nothing.message, "unable to upgrade: X-Stream-Protocol-Version is required");
    let unknown = of(&with(&SPDY_UPGRADE, &[("x-stream-protocol-version", "v9")]));
    assert_eq!(unknown.status, StatusCode::FORBIDDEN);
    assert!(unknown.message.contains("client supports [v9], server accepts [v4.channel.k8s.io"), "{unknown}");
    assert_eq!(unknown.headers.get_all("x-accepted-stream-protocol-versions").iter().count(), 4);
    let plain = of(&headers(&[("x-stream-protocol-version", "v4.channel.k8s.io")]));
    assert_eq!(plain.status, StatusCode::BAD_REQUEST);
    assert!(plain.message.contains("missing upgrade headers"), "{plain}");
}

#[test]
fn websocket_takes_the_clients_first_choice() {
    let offer = [("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io")];
    let upgrade = exec(&Method::GET, &with(&WEBSOCKET, &offer)).unwrap();
    assert_eq!(upgrade.protocol, ExecProtocol::WebSocket { version: Version::V5, base64: false });
    assert_eq!(upgrade.answer["sec-websocket-protocol"], "v5.channel.k8s.io");
    // The example of the protocol's own document.
    assert_eq!(upgrade.answer["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let offer = [("sec-websocket-protocol", "v4.base64.channel.k8s.io")];
    let upgrade = exec(&Method::GET, &with(&WEBSOCKET, &offer)).unwrap();
    assert_eq!(upgrade.protocol, ExecProtocol::WebSocket { version: Version::V4, base64: true });
}

#[test]
fn websocket_without_a_protocol_is_the_first_version() {
    let upgrade = exec(&Method::GET, &headers(&WEBSOCKET)).unwrap();
    assert_eq!(upgrade.protocol, ExecProtocol::WebSocket { version: Version::V1, base64: false });
    assert!(!upgrade.answer.contains_key("sec-websocket-protocol"));
}

#[test]
fn websocket_is_refused_as_upstream_refuses_it() {
    let of = |headers: &HeaderMap| exec(&Method::GET, headers).unwrap_err();
    let unknown = of(&with(&WEBSOCKET, &[("sec-websocket-protocol", "v9")]));
    assert_eq!(unknown.status, StatusCode::FORBIDDEN);
    let old = of(&headers(&[WEBSOCKET[0], WEBSOCKET[1], KEY, ("sec-websocket-version", "8")]));
    assert_eq!((old.status, &old.headers["sec-websocket-version"]), (StatusCode::BAD_REQUEST, &"13".parse().unwrap()));
    let keyless = of(&headers(&WEBSOCKET[..3]));
    assert_eq!(keyless.status, StatusCode::BAD_REQUEST);
    // A WebSocket handshake is a GET; a POST is taken for a broken request for SPDY.
    assert_eq!(exec(&Method::POST, &headers(&WEBSOCKET)).unwrap_err().status, StatusCode::BAD_REQUEST);
}

#[test]
fn port_forward_has_three_forms() {
    let spdy =
        port_forward(&Method::POST, &with(&SPDY_UPGRADE, &[("x-stream-protocol-version", "portforward.k8s.io")]));
    assert_eq!(spdy.unwrap().protocol, PortForwardProtocol::Spdy);
    let of = |protocol| port_forward(&Method::GET, &with(&WEBSOCKET, &[("sec-websocket-protocol", protocol)]));
    let tunnel = of("SPDY/3.1+portforward.k8s.io").unwrap();
    assert_eq!(tunnel.protocol, PortForwardProtocol::Tunnel);
    assert_eq!(tunnel.answer["sec-websocket-protocol"], "SPDY/3.1+portforward.k8s.io");
    assert_eq!(of("v4.channel.k8s.io").unwrap().protocol, PortForwardProtocol::WebSocket { base64: false });
    // As containerd: the name of SPDY's protocol is none of WebSocket's.
    assert_eq!(of("portforward.k8s.io").unwrap_err().status, StatusCode::FORBIDDEN);
}

#[test]
fn test_v4_options() {
    let of = |query| ports(PortForwardProtocol::WebSocket { base64: false }, query).map_err(|e| e.message);
    assert_eq!(ports(PortForwardProtocol::Spdy, "port=x").unwrap(), Vec::<u16>::new());
    assert_eq!(of(""), Err("query parameter \"port\" is required".to_owned()));
    assert_eq!(of("port="), Err("query parameter \"port\" cannot be empty".to_owned()));
    assert_eq!(of("port=abc"), Err("unable to parse \"abc\" as a port".to_owned()));
    assert_eq!(of("port=-1"), Err("unable to parse \"-1\" as a port".to_owned()));
    assert_eq!(of("port=0"), Err("port \"0\" must be > 0".to_owned()));
    assert_eq!(of("port=80"), Ok(vec![80]));
    assert_eq!(of("port=80,81"), Ok(vec![80, 81]));
    assert_eq!(of("port=80&port=81%2C82"), Ok(vec![80, 81, 82]));
    let many = vec!["80"; 200].join(",");
    assert!(of(&format!("port={many}")).unwrap_err().contains("200 ports"));
}

#[test]
fn streams_of_a_query() {
    let of = |query| ExecStreams::of_kubelet_query(query);
    let all = ExecStreams { stdin: true, stdout: true, stderr: true, tty: false };
    assert_eq!(of("input=1&output=1&error=1").unwrap(), all);
    assert_eq!(
        of("output=1&error=1&tty=1").unwrap(),
        ExecStreams { stdout: true, tty: true, ..ExecStreams::default() }
    );
    assert_eq!(of("output=true&tty=1").unwrap_err().message, "you must specify at least 1 of stdin, stdout, stderr");
    assert_eq!(ExecStreams::of_api_query("stdin=true&stdout=true&stderr=1&tty=false").unwrap(), all);
    assert_eq!(command("command=sh&x=1&command=-c&command=echo%20a+b"), ["sh", "-c", "echo a b"]);
}

proptest! {
    #[test]
    fn any_headers_are_an_answer_or_a_refusal(
        pairs in prop::collection::vec((0..6_usize, prop::collection::vec(32..255_u8, 0..30)), 0..8),
        get in any::<bool>(),
    ) {
        let names =
            ["connection", "upgrade", STREAM_PROTOCOL, "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version"];
        let mut headers = headers(&WEBSOCKET);
        for (name, value) in pairs {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.insert(HeaderName::from_static(names[name]), value);
            }
        }
        let method = if get { Method::GET } else { Method::POST };
        for status in [exec(&method, &headers).err(), port_forward(&method, &headers).err()].into_iter().flatten() {
            prop_assert!(status.status.is_client_error());
        }
    }
}
