//! `minke port-forward`.
//!
//! Each connection to a local port is a connection to the agent of its own, which carries it into the Pod.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use clap::Args;
use minke_core::identity::PodKey;
use minke_core::runtime::error_chain;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::exec::target;
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::protocol::{Piece, PieceReader, PieceWriter, WINDOW};

/// Read at once from a connection; a fraction of the window, so that it never stands still.
const CHUNK: usize = 32 << 10;

/// Forward local ports to a Pod
///
/// Connections reach the Pod's own loopback: what listens on 127.0.0.1 inside is reached as well. Goes on until it is
/// interrupted.
#[derive(Debug, Args)]
pub(crate) struct PortForwardArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(value_name = "POD")]
    pod: String,
    /// Ports: the Pod's, which is then the local one as well, or LOCAL:REMOTE; without LOCAL (`:80`) any that is free
    #[arg(value_name = "[LOCAL:]REMOTE", required = true)]
    ports: Vec<Ports>,
    /// Listen on these addresses
    #[arg(long, value_delimiter = ',', default_value = "localhost", value_name = "ADDRESS")]
    address: Vec<String>,
}

/// A local port (0: any) and the Pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    local: u16,
    remote: u16,
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is not a port"));
        let (local, remote) = match text.split_once(':') {
            Some(("", remote)) => (0, port(remote)?),
            Some((local, remote)) => (port(local)?, port(remote)?),
            None => (port(text)?, port(text)?),
        };
        if remote == 0 { Err("the Pod's port must be above 0".to_owned()) } else { Ok(Self { local, remote }) }
    }
}

/// The addresses to listen on. `localhost` is both of loopback's, and one of them is enough.
fn addresses(text: &str) -> Result<Vec<IpAddr>, Failure> {
    if text == "localhost" {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let address = text.parse().map_err(|_| Failure::usage(format!("{text:?} is not an IP address")))?;
    Ok(vec![address])
}

/// Listeners on all addresses; a machine without IPv6 has only half of `localhost`.
async fn listen(wanted: &[String], ports: Ports) -> Result<Vec<TcpListener>, Failure> {
    let mut listeners = Vec::new();
    let mut local = ports.local;
    for text in wanted {
        let addresses = addresses(text)?;
        let mut failed = None;
        let before = listeners.len();
        for address in addresses {
            let bound = match TcpListener::bind(SocketAddr::new(address, local)).await {
                Ok(listener) => listener.local_addr().map(|at| (listener, at)),
                Err(e) => Err(e),
            };
            match bound {
                Ok((listener, at)) => {
                    // A port that was any is the same on every address.
                    local = at.port();
                    println!("Forwarding from {at} -> {}", ports.remote);
                    listeners.push(listener);
                }
                Err(e) => failed = Some(format!("unable to listen on {}: {e}", SocketAddr::new(address, local))),
            }
        }
        if let Some(text) = failed.filter(|_| listeners.len() == before) {
            return Err(Failure::system(text));
        }
    }
    Ok(listeners)
}

/// Listens and forwards until a signal.
pub(crate) async fn run(args: &PortForwardArgs, client: &Client) -> Outcome {
    let (key, _) = target(&args.pod, client, "forward a port of").await?;
    let watch = |kind| signal(kind).map_err(|e| Failure::system(format!("can't watch for signals: {e}")));
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let mut listening = JoinSet::new();
    for ports in &args.ports {
        for listener in listen(&args.address, *ports).await? {
            listening.spawn(serve(listener, ports.remote, key.clone(), client.clone()));
        }
    }
    tokio::select! {
        _ = interrupt.recv() => Ok(Exit::Reached),
        _ = terminate.recv() => Ok(Exit::Reached),
        Some(ended) = listening.join_next() => match ended {
            Ok(failure) => Err(failure),
            Err(e) => Err(Failure::system(format!("a listener ended: {e}"))),
        },
    }
}

/// Forwards every connection, until none can be accepted any more or the Pod is gone.
async fn serve(listener: TcpListener, remote: u16, key: PodKey, client: Client) -> Failure {
    let local = listener.local_addr().map(|at| at.port()).unwrap_or_default();
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    println!("Handling connection for {local}");
                    let (key, client) = (key.clone(), client.clone());
                    work.spawn(async move { forward(socket, remote, &key, &client).await });
                }
                Err(e) => return Failure::system(format!("can't accept connections on port {local}: {e}")),
            },
            Some(done) = work.join_next() => match done {
                Ok(Ok(())) => {}
                Ok(Err(Broken::Connection(why))) => {
                    eprintln!("an error occurred forwarding {local} -> {remote}: {why}");
                }
                Ok(Err(Broken::Pod(failure))) => return failure,
                Err(e) => eprintln!("an error occurred forwarding {local} -> {remote}: {e}"),
            },
        }
    }
}

/// Why a connection was not forwarded to its end.
enum Broken {
    /// It alone.
    Connection(String),
    /// There is no Pod to forward to any more.
    Pod(Failure),
}

async fn forward(socket: TcpStream, remote: u16, key: &PodKey, client: &Client) -> Result<(), Broken> {
    let mut connection = client.connect().await.map_err(|e| Broken::Pod(e.into()))?;
    match connection.connect_port(&key.uid, remote).await {
        Ok(Ok(())) => {}
        Ok(Err(refused)) => return Err(Broken::Connection(refused.message)),
        Err(error) => return Err(Broken::Pod(error.into())),
    }
    let (reader, writer) = connection.pieces();
    let (from, to) = socket.into_split();
    let on_its_way = Window::default();
    let outwards = send(from, writer, &on_its_way);
    let inwards = receive(reader, to, &on_its_way);
    let done = tokio::select! {
        broken = outwards => Err(broken),
        done = inwards => done,
    };
    done.map_err(Broken::Connection)
}

/// How much of what was sent the port has not taken yet.
#[derive(Default)]
struct Window {
    bytes: AtomicUsize,
    taken: Notify,
}

impl Window {
    async fn room(&self, length: usize) {
        loop {
            let taken = self.taken.notified();
            if self.bytes.load(Ordering::Relaxed) + length <= WINDOW {
                self.bytes.fetch_add(length, Ordering::Relaxed);
                return;
            }
            taken.await;
        }
    }

    fn took(&self, length: u32) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // Both sides are one task: nothing comes in between.
        let before = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(before.saturating_sub(length), Ordering::Relaxed);
        self.taken.notify_one();
    }
}

/// Sends what the local side says. Returns only when that breaks.
async fn send(mut from: tokio::net::tcp::OwnedReadHalf, mut writer: PieceWriter<'_>, window: &Window) -> String {
    let mut buffer = vec![0; CHUNK];
    loop {
        let piece = match from.read(&mut buffer).await {
            Ok(0) => Piece::StdinClosed,
            Ok(n) => {
                window.room(n).await;
                Piece::Stdin(BytesMut::from(&buffer[..n]))
            }
            Err(e) => return e.to_string(),
        };
        let last = matches!(piece, Piece::StdinClosed);
        if let Err(error) = writer.send(&piece).await {
            // Why it ended is still to be read, if anything.
            if !error.is_disconnect() {
                return error_chain(&error);
            }
            std::future::pending::<()>().await;
        }
        if last {
            std::future::pending::<()>().await;
        }
    }
}

/// Hands what the port says to the local side, to the end.
async fn receive(
    mut reader: PieceReader<'_>,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    window: &Window,
) -> Result<(), String> {
    loop {
        match reader.receive().await.map_err(|e| error_chain(&e))? {
            // A local side that has gone needs no words.
            Piece::Stdout(data) => {
                if to.write_all(&data).await.is_err() {
                    return Ok(());
                }
            }
            Piece::Taken(count) => window.took(count),
            Piece::Ended(_) => {
                let _ = to.shutdown().await;
                return Ok(());
            }
            Piece::Lost(why) => return Err(why),
            Piece::Stdin(_) | Piece::Stderr(_) | Piece::Resize(_) | Piece::StdinClosed => {
                return Err("the agent sends what only a command can; it may be another version".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn ports_are_read_as_kubectl_reads_them() {
        let of = |text: &str| text.parse::<Ports>();
        assert_eq!(of("80"), Ok(Ports { local: 80, remote: 80 }));
        assert_eq!(of("8080:80"), Ok(Ports { local: 8080, remote: 80 }));
        assert_eq!(of(":80"), Ok(Ports { local: 0, remote: 80 }));
        for wrong in ["", ":", "http", "80:", "0", "1:0", "70000", "1:2:3", "-1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn localhost_is_both_and_an_address_is_itself() {
        assert_eq!(addresses("localhost").unwrap().len(), 2);
        assert_eq!(addresses("0.0.0.0").unwrap(), [IpAddr::from(Ipv4Addr::UNSPECIFIED)]);
        assert!(addresses("example.org").is_err());
    }

    #[tokio::test]
    async fn the_window_opens_as_the_port_takes() {
        let window = Window::default();
        window.room(WINDOW).await;
        assert_eq!(window.room(1).now_or_never(), None);
        window.took(1);
        assert_eq!(window.room(1).now_or_never(), Some(()));
    }
}
