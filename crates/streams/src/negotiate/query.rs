//! What the query of a request asks for.

use url::form_urlencoded;

use super::{PortForwardProtocol, Refusal};

/// Channels have numbers of one byte, and each port takes two.
const MOST_PORTS: usize = 127;

/// Streams of a remote command that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecStreams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error; never with a terminal, which has one output.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

impl ExecStreams {
    /// As the kubelet is asked: `input`, `output`, `error`, `tty`, each true only as `1`.
    ///
    /// # Errors
    /// 400, in upstream's words, if nothing is wanted.
    pub fn of_kubelet_query(query: &str) -> Result<Self, Refusal> {
        let has = |name: &str| values(query, name).next().is_some_and(|value| value == "1");
        Self { stdin: has("input"), stdout: has("output"), stderr: has("error"), tty: has("tty") }.checked()
    }

    /// As the API is asked: `stdin`, `stdout`, `stderr`, `tty`, each a boolean.
    ///
    /// # Errors
    /// As [`ExecStreams::of_kubelet_query`].
    pub fn of_api_query(query: &str) -> Result<Self, Refusal> {
        let is = |name: &str| {
            let value = values(query, name).next();
            value.is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "f" | "0"))
        };
        Self { stdin: is("stdin"), stdout: is("stdout"), stderr: is("stderr"), tty: is("tty") }.checked()
    }

    fn checked(self) -> Result<Self, Refusal> {
        let streams = Self { stderr: self.stderr && !self.tty, ..self };
        if streams.stdin || streams.stdout || streams.stderr {
            Ok(streams)
        } else {
            Err(Refusal::bad("you must specify at least 1 of stdin, stdout, stderr"))
        }
    }
}

/// The command of an exec: each `command`, in order.
#[must_use]
pub fn command(query: &str) -> Vec<String> {
    values(query, "command").collect()
}

/// The ports of a port-forward over WebSocket channels: each `port`, which may be a list. The other protocols name a port
/// with each connection and have none here.
///
/// # Errors
/// 400, in upstream's words, without a port or with one that is none.
pub fn ports(protocol: PortForwardProtocol, query: &str) -> Result<Vec<u16>, Refusal> {
    match protocol {
        PortForwardProtocol::Spdy | PortForwardProtocol::Tunnel => return Ok(Vec::new()),
        PortForwardProtocol::WebSocket { .. } => {}
    }
    let mut ports = Vec::new();
    for value in values(query, "port") {
        for text in value.split(',') {
            if text.is_empty() {
                return Err(Refusal::bad("query parameter \"port\" cannot be empty"));
            }
            ports.push(port(text).map_err(Refusal::bad)?);
        }
    }
    match ports.len() {
        0 => Err(Refusal::bad("query parameter \"port\" is required")),
        1..=MOST_PORTS => Ok(ports),
        n => Err(Refusal::bad(format!("{n} ports are more than the {MOST_PORTS} that one connection can carry"))),
    }
}

/// A port, with upstream's words for one that is none.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) => Err(format!("port \"{text}\" must be > 0")),
        Ok(port) => Ok(port),
        Err(_) => Err(format!("unable to parse \"{text}\" as a port")),
    }
}

fn values(query: &str, name: &str) -> impl Iterator<Item = String> {
    form_urlencoded::parse(query.as_bytes()).filter(move |(key, _)| key == name).map(|(_, value)| value.into_owned())
}
