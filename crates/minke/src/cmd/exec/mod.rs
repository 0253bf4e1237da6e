//! `minke exec`.
//!
//! The command lives as long as the connection: however this process ends, the agent ends the command. [`terminal`]
//! sees to it that the user's terminal is as it was.

pub(super) mod terminal;

use std::io::{IsTerminal, Write};

use bytes::BytesMut;
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodKey;
use minke_core::runtime::{ExecRequest, TerminalSize, error_chain};
use minke_kubelet::PodReport;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::terminal::Raw;
use super::stop::is_over;
use crate::client::{Client, Connection};
use crate::exit::{Exit, Failure, Outcome};
use crate::protocol::{Piece, PieceWriter, WINDOW};

/// The annotation by which a Pod names the container that is meant when none is named.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Read at once from standard input; a fraction of the window, so that it never stands still.
const CHUNK: usize = 32 << 10;
const SIGPIPE: u8 = 13;

/// Run a command in a container that runs
///
/// The command has the container's user, rights and limits. It ends when this command is ended.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A name, namespace/name, or the beginning of a uid
    #[arg(value_name = "POD")]
    pod: String,
    /// In this container; without it in the one of the annotation kubectl.kubernetes.io/default-container, or the first
    #[arg(short, long)]
    container: Option<String>,
    /// Pass standard input to the command
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give it a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Only print what the command prints
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command and ends with its exit code.
pub(crate) async fn run(args: &ExecArgs, client: &Client) -> Outcome {
    let (key, report) = target(&args.pod, client, "exec into a container in").await?;
    let container = container(args.container.as_deref(), args.quiet, &key, &report.pod)?;
    let size = if args.tty { terminal::size() } else { None };
    if args.tty && size.is_none() {
        eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let request = ExecRequest { command: args.command.clone(), stdin: args.stdin, tty: size };
    let mut connection = client.connect().await?;
    if let Err(refused) = connection.exec(&key.uid, &container, &request).await? {
        let text = format!(
            "unable to start a process in container {container} of pod {}: {}",
            key.full_name(),
            refused.message
        );
        let failure = Failure::system(text);
        return Err(match refused.exit_code {
            Some(code) => Failure { exit: Exit::Container(code), ..failure },
            None => failure.hint(format!("`minke ps` shows what runs, `minke logs {}` what it said", key.full_name())),
        });
    }
    let code = match carry(&mut connection, args.stdin, size).await? {
        End::Code(code) => code,
        End::Signal(signal) => return Ok(Exit::Interrupted(signal)),
        End::Lost(why) => return Err(Failure::system(format!("how the command ended is not known: {why}"))),
    };
    if code != 0 && !args.quiet {
        eprintln!("command terminated with exit code {code}");
    }
    Ok(if code == 0 { Exit::Reached } else { Exit::Container(code) })
}

/// The Pod that is meant, which must not be over for what is to be done to it.
pub(super) async fn target(wanted: &str, client: &Client, what: &str) -> Result<(PodKey, PodReport), Failure> {
    let reports = super::reports(client).await?;
    let keys = super::keys(&reports);
    let key = crate::select::select(wanted, &keys)?.clone();
    let Some(report) = reports.into_iter().find(|r| r.pod.metadata.uid.as_deref() == Some(key.uid.as_str())) else {
        return Err(Failure::system(format!("the agent lost pod {key} just now")));
    };
    if is_over(&report) {
        let phase = report.pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Unknown");
        return Err(Failure::system(format!("cannot {what} a completed pod; current phase is {phase}")));
    }
    Ok((key, report))
}

/// The container that is meant.
pub(super) fn container(wanted: Option<&str>, quiet: bool, key: &PodKey, pod: &Pod) -> Result<String, Failure> {
    let spec = pod.spec.as_ref();
    let main: Vec<&str> = spec.into_iter().flat_map(|s| &s.containers).map(|c| c.name.as_str()).collect();
    let init = spec.into_iter().flat_map(|s| s.init_containers.iter().flatten()).map(|c| c.name.as_str());
    let ephemeral = spec.into_iter().flat_map(|s| s.ephemeral_containers.iter().flatten()).map(|c| c.name.as_str());
    let all: Vec<&str> = main.iter().copied().chain(init).chain(ephemeral).collect();
    let annotated = pod.metadata.annotations.as_ref().and_then(|a| a.get(DEFAULT_CONTAINER)).map(String::as_str);
    let unknown = |name: &str| {
        Failure::usage(format!("container {name} is not valid for pod {}", key.full_name()))
            .hint(format!("it has {}", all.join(", ")))
    };
    match (wanted, annotated.filter(|name| all.contains(name))) {
        (Some(name), _) if all.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) => Err(unknown(name)),
        (None, Some(name)) => Ok(name.to_owned()),
        (None, None) => {
            let first = main.first().ok_or_else(|| unknown(""))?;
            if all.len() > 1 && !quiet {
                eprintln!("Defaulted container {first:?} out of: {}", all.join(", "));
            }
            Ok((*first).to_owned())
        }
    }
}

/// How it ended.
pub(super) enum End {
    /// With this code.
    Code(u8),
    /// This process got a signal, or its reader went.
    Signal(u8),
    /// The agent can't say how, and why not.
    Lost(String),
}

/// Carries the streams until the command has ended or this process is told to. A terminal that is typed on passes on what is
/// typed as it is, until then.
pub(super) async fn carry(connection: &mut Connection, stdin: bool, tty: Option<TerminalSize>) -> Result<End, Failure> {
    let raw = (stdin && tty.is_some()).then(Raw::enter).transpose();
    let _raw = raw.map_err(|e| Failure::system(format!("can't use the terminal: {e}")))?;
    let watch = |kind| signal(kind).map_err(|e| Failure::system(format!("can't watch for signals: {e}")));
    let mut resized = watch(SignalKind::window_change())?;
    let (mut hangup, mut terminate) = (watch(SignalKind::hangup())?, watch(SignalKind::terminate())?);
    let (mut interrupt, mut quit) = (watch(SignalKind::interrupt())?, watch(SignalKind::quit())?);
    let (mut reader, mut writer) = connection.pieces();
    let lost = |e| Failure::system(format!("the agent is gone, and the command with it: {}", error_chain(&e)));
    let mut input = if stdin { Some(read_stdin()) } else { None };
    let mut on_its_way = 0;
    loop {
        let window_open = on_its_way + CHUNK <= WINDOW;
        tokio::select! {
            piece = reader.receive() => match piece.map_err(lost)? {
                Piece::Stdout(data) => {
                    if let Some(end) = print(std::io::stdout(), &data)? {
                        return Ok(end);
                    }
                }
                Piece::Stderr(data) => {
                    if let Some(end) = print(std::io::stderr(), &data)? {
                        return Ok(end);
                    }
                }
                Piece::Taken(count) => on_its_way = on_its_way.saturating_sub(count as usize),
                Piece::Ended(code) => return Ok(End::Code(code)),
                Piece::Lost(why) => return Ok(End::Lost(why)),
                Piece::Stdin(_) | Piece::StdinClosed | Piece::Resize(_) => {
                    return Err(Failure::system("the agent sends what only a command can; it may be another version"));
                }
            },
            data = next(&mut input), if window_open => {
                on_its_way += data.as_ref().map_or(0, BytesMut::len);
                if data.is_none() {
                    input = None;
                }
                send(&mut writer, data.map_or(Piece::StdinClosed, Piece::Stdin)).await.map_err(lost)?;
            }
            _ = resized.recv(), if tty.is_some() => {
                if let Some(size) = terminal::size() {
                    send(&mut writer, Piece::Resize(size)).await.map_err(lost)?;
                }
            }
            _ = hangup.recv() => return Ok(End::Signal(1)),
            _ = interrupt.recv() => return Ok(End::Signal(2)),
            _ = quit.recv() => return Ok(End::Signal(3)),
            _ = terminate.recv() => return Ok(End::Signal(15)),
        }
    }
}

async fn send(writer: &mut PieceWriter<'_>, piece: Piece) -> Result<(), crate::protocol::ChannelError> {
    match writer.send(&piece).await {
        // It has ended, and how is still to be read.
        Err(crate::protocol::ChannelError::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        sent => sent,
    }
}

/// What comes next from standard input: `None` at its end; never if it is not read.
async fn next(input: &mut Option<mpsc::Receiver<BytesMut>>) -> Option<BytesMut> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads standard input on a thread of its own, which ends with the process: nothing else can wait for every kind of
/// file.
fn read_stdin() -> mpsc::Receiver<BytesMut> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer[..]) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let stdin = rustix::stdio::stdin();
                    let mut wanted = [rustix::event::PollFd::new(&stdin, rustix::event::PollFlags::IN)];
                    let _ = rustix::event::poll(&mut wanted, None);
                }
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    if sender.blocking_send(BytesMut::from(&buffer[..n])).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// Prints at once. A reader that has gone wants no more.
fn print(mut to: impl Write + IsTerminal, data: &[u8]) -> Result<Option<End>, Failure> {
    match to.write_all(data).and_then(|()| to.flush()) {
        Ok(()) => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(Some(End::Signal(SIGPIPE))),
        Err(e) => Err(Failure::system(format!("can't write what the command says: {e}"))),
    }
}

#[cfg(test)]
mod tests;
