//! The machine's shutdown, as systemd's logind announces it: it is held up until the node's Pods have ended.
//!
//! ```text
//! connect ─► take a lock ("delay") ─► PrepareForShutdown(true) ─► SIGTERM to ourselves ─► Pods end ─► the lock is dropped
//!                                     end ◄── SIGTERM of systemd, PrepareForShutdown(false) ◄── wait ◄──┘
//! ```
//! The process stays until the machine really goes down: a service manager that starts it again would make the node ready.
//!
//! What systemd does a moment later anyway, told early enough: services of the network are still there then. The way is upstream's
//! (`pkg/kubelet/nodeshutdown`), without its file that makes logind more patient: whoever runs the machine is told what to write.
//!
//! The connection speaks as much D-Bus as that takes ([`wire`]).

mod wire;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minke_core::runtime::error_chain;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use wire::{Call, Kind, Malformed, Message};

/// A bus on this machine answers at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// Until it is tried again, when logind or its bus has gone.
const AGAIN: Duration = Duration::from_secs(30);
const BUS: &str = "org.freedesktop.DBus";
const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/login1";
const MATCH: &str = "type='signal',sender='org.freedesktop.login1',interface='org.freedesktop.login1.Manager',\
    member='PrepareForShutdown',path='/org/freedesktop/login1'";

/// Why nobody announces the machine's shutdown.
#[derive(Debug, thiserror::Error)]
enum LogindError {
    /// No bus.
    #[error("the system bus at {path} can't be reached")]
    Connect {
        /// Its socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the system bus is gone")]
    Broken(#[from] io::Error),
    /// The bus does not want us.
    #[error("the system bus refuses this program: {0}")]
    Unknown(String),
    /// A call was refused.
    #[error("{call} is refused: {why}")]
    Refused {
        /// Its name.
        call: String,
        /// The refusal's name and words.
        why: String,
    },
    /// Something else than D-Bus.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No answer.
    #[error("the system bus does not answer")]
    Silent,
}

/// Holds the machine's shutdown up for the Pods of a node. Dropping it lets go of the shutdown.
#[derive(Debug)]
pub(crate) struct HeldUp {
    announced: watch::Receiver<bool>,
    pods_ended: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl HeldUp {
    /// From now on, where there is a system bus: when a shutdown is announced, this process gets a SIGTERM. `wanted` is how long Pods may
    /// take.
    pub(crate) fn begin(wanted: Duration) -> Self {
        let (announce, announced) = watch::channel(false);
        let pods_ended = CancellationToken::new();
        let task = tokio::spawn(hold_up(wanted, announce, pods_ended.clone()));
        Self { announced, pods_ended, task: AbortOnDropHandle::new(task) }
    }

    /// The Pods have ended, or go on without this node: the machine may go down. If it was about to, this waits for its end, which is told
    /// by another SIGTERM, or until it goes on after all.
    pub(crate) async fn let_go(self) {
        if !*self.announced.borrow() {
            return;
        }
        let terminate = signal(SignalKind::terminate());
        self.pods_ended.cancel();
        tracing::info!("the pods have ended: the machine may go down");
        match terminate {
            Ok(mut terminate) => tokio::select! {
                _ = terminate.recv() => {}
                _ = self.task => {}
            },
            Err(error) => tracing::warn!(%error, "can't watch for signals"),
        }
    }
}

/// Tries for ever to hold a shutdown up; ends after one, or without a bus.
async fn hold_up(wanted: Duration, announce: watch::Sender<bool>, pods_ended: CancellationToken) {
    let path = socket(std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok().as_deref());
    if !path.exists() {
        tracing::info!("no system bus: the machine's shutdown is heard of by SIGTERM alone");
        return;
    }
    let announced = || {
        tracing::info!("the machine goes down: it waits for this node's pods");
        announce.send_replace(true);
        if let Err(error) = kill_process(getpid(), Signal::TERM) {
            tracing::error!(%error, "the node can't end itself");
        }
    };
    loop {
        let held = match Connection::open(&path).await {
            Ok(bus) => hold(bus, wanted, announced, &pods_ended).await,
            Err(error) => Err(error),
        };
        match held {
            Ok(()) => return,
            Err(_) if *announce.borrow() => return,
            Err(error) => tracing::warn!(
                error = error_chain(&error),
                "the machine's shutdown is not held up for pods; tried again in {} s",
                AGAIN.as_secs()
            ),
        }
        sleep(AGAIN).await;
    }
}

/// One shutdown, from its announcement until it is taken back, which is seldom.
async fn hold(
    mut bus: Connection,
    wanted: Duration,
    announced: impl FnOnce(),
    pods_ended: &CancellationToken,
) -> Result<(), LogindError> {
    let lock = take_lock(&mut bus, wanted).await?;
    while bus.prepares_for_shutdown().await? != Some(true) {}
    announced();
    pods_ended.cancelled().await;
    drop(lock);
    while bus.prepares_for_shutdown().await? != Some(false) {}
    Ok(())
}

/// Where the bus listens.
fn socket(address: Option<&str>) -> PathBuf {
    let named = address.and_then(|address| address.split([';', ',']).find_map(|part| part.strip_prefix("unix:path=")));
    PathBuf::from(named.unwrap_or("/run/dbus/system_bus_socket"))
}

/// Wants to hear of shutdowns, and takes a lock: it holds them up until it is dropped.
async fn take_lock(bus: &mut Connection, wanted: Duration) -> Result<OwnedFd, LogindError> {
    let manager =
        |member, arguments| Call { destination: LOGIND, path: MANAGER_PATH, interface: MANAGER, member, arguments };
    let dbus =
        |member, arguments| Call { destination: BUS, path: "/org/freedesktop/DBus", interface: BUS, member, arguments };
    bus.call(dbus("Hello", &[])).await?;
    bus.call(dbus("AddMatch", &[MATCH])).await?;
    let property = ["org.freedesktop.login1.Manager", "InhibitDelayMaxUSec"];
    let properties = Call { interface: "org.freedesktop.DBus.Properties", ..manager("Get", property.as_slice()) };
    let longest = bus.call(properties).await?.property().map(Duration::from_micros);
    if let Some(longest) = longest.filter(|longest| *longest < wanted) {
        tracing::warn!(
            "logind waits {} s for pods that may take {} s: put InhibitDelayMaxSec={} below [Login] in \
             /etc/systemd/logind.conf.d/minke.conf and restart systemd-logind",
            longest.as_secs(),
            wanted.as_secs(),
            wanted.as_secs()
        );
    }
    let why = ["shutdown", "minke", "The node's pods end before the machine does", "delay"];
    let answer = bus.call(manager("Inhibit", why.as_slice())).await?;
    let lock = answer.file().and_then(|index| bus.file(index));
    lock.ok_or_else(|| LogindError::Refused { call: "Inhibit".to_owned(), why: "no lock came along".to_owned() })
}

/// A connection to a bus.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    serial: u32,
    bytes: Vec<u8>,
    /// Came along with the last messages.
    files: VecDeque<OwnedFd>,
    /// Signals that came while an answer was waited for.
    signals: VecDeque<Message>,
}

impl Connection {
    async fn open(path: &Path) -> Result<Self, LogindError> {
        let connected = UnixStream::connect(path).await;
        let stream = connected.map_err(|source| LogindError::Connect { path: path.to_owned(), source })?;
        timeout(PATIENCE, Self::begin(stream)).await.unwrap_or(Err(LogindError::Silent))
    }

    /// Says who we are: our user, which the kernel vouches for.
    async fn begin(stream: UnixStream) -> Result<Self, LogindError> {
        let mut bus = Self { stream, serial: 0, bytes: Vec::new(), files: VecDeque::new(), signals: VecDeque::new() };
        let user = hex::encode(rustix::process::geteuid().as_raw().to_string());
        for (said, expected) in
            [(format!("\0AUTH EXTERNAL {user}\r\n"), "OK"), ("NEGOTIATE_UNIX_FD\r\n".to_owned(), "AGREE_UNIX_FD")]
        {
            bus.stream.write_all(said.as_bytes()).await?;
            let line = bus.line().await?;
            if !line.starts_with(expected) {
                return Err(LogindError::Unknown(line));
            }
        }
        bus.stream.write_all(b"BEGIN\r\n").await?;
        Ok(bus)
    }

    async fn line(&mut self) -> Result<String, LogindError> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
                self.bytes.drain(..end + 2);
                return Ok(line);
            }
            if self.bytes.len() > 1024 {
                return Err(LogindError::Unknown("a line without end".to_owned()));
            }
            self.more().await?;
        }
    }

    /// Reads what there is.
    async fn more(&mut self) -> Result<(), LogindError> {
        let (stream, files) = (&self.stream, &mut self.files);
        let mut buffer = [0; 4096];
        let received = stream.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut buffer)];
            let received = recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    files.extend(rights);
                }
            }
            Ok(received.bytes)
        });
        match received.await? {
            0 => Err(LogindError::Broken(io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.bytes.extend(&buffer[..count]);
                Ok(())
            }
        }
    }

    async fn message(&mut self) -> Result<Message, LogindError> {
        loop {
            if let Some((message, taken)) = Message::decode(&self.bytes)? {
                self.bytes.drain(..taken);
                return Ok(message);
            }
            self.more().await?;
        }
    }

    /// Waits for the next message; whether it says that the machine goes down, or that it goes on after all.
    async fn prepares_for_shutdown(&mut self) -> Result<Option<bool>, LogindError> {
        let message = match self.signals.pop_front() {
            Some(signal) => signal,
            None => self.message().await?,
        };
        let told =
            message.kind == Kind::Signal && message.interface == MANAGER && message.member == "PrepareForShutdown";
        Ok(message.truth().filter(|_| told))
    }

    /// Calls, and waits for the answer.
    async fn call(&mut self, call: Call<'_>) -> Result<Message, LogindError> {
        self.serial += 1;
        let serial = self.serial;
        self.files.clear();
        self.stream.write_all(&call.encode(serial)).await?;
        let answered = async {
            loop {
                let message = self.message().await?;
                match message.kind {
                    Kind::Return | Kind::Error if message.answers == Some(serial) => return Ok(message),
                    Kind::Signal => self.signals.push_back(message),
                    Kind::Return | Kind::Error | Kind::Call => {}
                }
            }
        };
        let answer = timeout(PATIENCE, answered).await.unwrap_or(Err(LogindError::Silent))?;
        if answer.kind == Kind::Error {
            let why = format!("{}: {}", answer.error, answer.text().unwrap_or_default());
            return Err(LogindError::Refused { call: call.member.to_owned(), why });
        }
        Ok(answer)
    }

    /// A file that came along with the answer to the last call.
    fn file(&mut self, index: usize) -> Option<OwnedFd> {
        self.files.remove(index)
    }
}
