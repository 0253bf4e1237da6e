//! Any text as a request for streams: its method and headers a line each, then its query. Never a panic; a protocol that is agreed on
//! was offered, and as many ports as have channels.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use minke_streams::negotiate::{ExecStreams, PortForwardProtocol, command, exec, port_forward, ports};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (head, query) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let method = Method::from_bytes(lines.next().unwrap_or_default().as_bytes()).unwrap_or(Method::GET);
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')).take(100) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    let _ = exec(&method, &headers);
    if let Ok(upgrade) = port_forward(&method, &headers) {
        let _ = ports(upgrade.protocol, query);
    }
    if let Ok(found) = ports(PortForwardProtocol::WebSocket { base64: false }, query) {
        assert!(!found.is_empty() && found.len() <= 127 && !found.contains(&0), "{found:?}");
    }
    for streams in [ExecStreams::of_kubelet_query(query), ExecStreams::of_api_query(query)].into_iter().flatten() {
        assert!(streams.stdin || streams.stdout || streams.stderr);
        assert!(!(streams.tty && streams.stderr));
    }
    assert!(command(query).len() <= query.len() + 1);
}
