//! Those who joined a container: they get what it writes besides its log, and may have its input.
//!
//! ```text
//! output ──► log
//!    └─────► sinks ──► pipe of the agent        a sink that is behind: its output is not read until it is not,
//!                                               and who takes nothing for ten seconds is let go
//! agent ──► the container's own input or terminal, which it was handed
//! ```
//! The connection is the visit's life. A container that ends lets each sink take what is still to come and closes it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::container::{Caller, Container, Output, Phase};
use super::protocol::{AttachCall, Refusal, RefusalKind};
use super::server::Server;
use crate::log::Stream;

/// A program waits so long for somebody who joined it and takes nothing of what it writes. Its log has everything.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of an answer that nobody asked for.
const LET_GO: u64 = u64::MAX;

/// Monotonic time: the shim has no async runtime, and no test of it pauses the clock.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(time).unwrap_or_default()
}

/// Where what a container writes goes besides its log.
#[derive(Debug)]
pub(super) struct Sink {
    client: u64,
    stream: Stream,
    fd: OwnedFd,
    pending: Vec<u8>,
    /// When it took something last, while there is more for it.
    behind: Option<Duration>,
    /// When its input is over, so is the container's.
    once: bool,
}

impl Sink {
    /// Without anything to write only its reader's going is of interest, which is always told.
    pub(super) fn interest(&self) -> PollFlags {
        if self.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT }
    }

    /// Writes what is pending. `false` when nobody reads it any more.
    fn write(&mut self, now: Duration) -> bool {
        while !self.pending.is_empty() {
            match rustix::io::write(&self.fd, &self.pending) {
                Ok(n) => {
                    drop(self.pending.drain(..n));
                    self.behind = Some(now);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.behind.get_or_insert(now);
                    return true;
                }
                Err(_) => return false,
            }
        }
        self.pending = Vec::new();
        self.behind = None;
        true
    }

    /// For how long it is still waited for; `None`: nothing is waited for.
    fn patience(&self, now: Duration) -> Option<Duration> {
        self.behind.map(|since| (since + PATIENCE).saturating_sub(now))
    }

    fn is_abandoned(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_ok_and(|n| n > 0) && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Container {
    /// Whether somebody who joined has not read what this output wrote last.
    pub(super) fn is_behind(&self, output: &Output) -> bool {
        self.sinks.iter().any(|sink| sink.stream == output.stream && !sink.pending.is_empty())
    }

    /// Hands what an output wrote to everybody who joined.
    pub(super) fn tee(&mut self, stream: Stream, bytes: &[u8]) {
        self.sinks.retain_mut(|sink| {
            if sink.stream != stream {
                return true;
            }
            sink.pending.extend_from_slice(bytes);
            sink.write(now())
        });
    }

    /// A sink can be written to, or its reader is gone.
    pub(super) fn flush(&mut self, at: usize) {
        let ended = matches!(self.phase, Phase::Ended(_));
        let Some(sink) = self.sinks.get_mut(at) else { return };
        let over = if sink.pending.is_empty() { sink.is_abandoned() } else { !sink.write(now()) };
        if over || ended && sink.pending.is_empty() {
            self.sinks.remove(at);
        }
    }

    /// It has ended and everything is handed out: those who have it all are let go.
    pub(super) fn dismiss(&mut self) {
        self.sinks.retain(|sink| !sink.pending.is_empty());
    }
}

impl Server {
    /// Somebody joins a container.
    pub(super) fn attach(&mut self, caller: Caller, call: &AttachCall, files: Vec<OwnedFd>) -> Result<(), Refusal> {
        let id = &call.container;
        let container = self
            .containers
            .get_mut(id)
            .ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("no container {id}")))?;
        match &container.phase {
            Phase::Running { .. } => {}
            Phase::Creating { .. } | Phase::Created { .. } | Phase::Starting { .. } | Phase::Ended(_) => {
                return Err(Refusal::new(RefusalKind::State, format!("container {id} is not running")));
            }
        }
        let failed = |what: &str| Refusal::new(RefusalKind::Failed, format!("can't {what}"));
        let mut files = files.into_iter();
        let handover = files.next().ok_or_else(|| failed("join without a socket"))?;
        let terminal = container.tty.then(|| container.outputs.first()).flatten();
        let input = match terminal {
            // For its size as well, whoever may write.
            Some(output) => Some(output.fd.as_fd()),
            None if call.stdin => container.stdin.as_ref().map(AsFd::as_fd),
            None => None,
        };
        hand_over(&handover, input).map_err(|e| failed(&format!("hand over the container's input: {e}")))?;
        let streams = [Stream::Stdout, Stream::Stderr];
        for (fd, stream) in files.zip(streams) {
            rustix::io::ioctl_fionbio(&fd, true).map_err(|e| failed(&format!("write to who joins: {e}")))?;
            let once = call.stdin && call.once;
            container.sinks.push(Sink { client: caller.client, stream, fd, pending: Vec::new(), behind: None, once });
        }
        Ok(())
    }

    /// Hands over the Pod's network namespace.
    pub(super) fn network(&self, files: &[OwnedFd]) -> Result<(), Refusal> {
        let failed = |e: std::io::Error| {
            Refusal::new(RefusalKind::Failed, format!("can't hand over the pod's network namespace: {e}"))
        };
        let [socket] = files else { return Err(failed(std::io::ErrorKind::InvalidInput.into())) };
        let holder = self.pause.unwrap_or_else(rustix::process::getpid).as_raw_nonzero();
        let namespace = std::fs::File::open(format!("/proc/{holder}/ns/net")).map_err(failed)?;
        hand_over(socket, Some(namespace.as_fd())).map_err(|e| failed(e.into()))
    }

    /// The input of whoever joined on this connection is over.
    pub(super) fn end_input(&mut self, client: u64) {
        for container in self.containers.values_mut() {
            if container.sinks.iter().any(|sink| sink.client == client && sink.once) {
                container.stdin = None;
            }
        }
    }

    /// How long those who joined and take nothing are still waited for, the first of them.
    pub(super) fn patience(&self) -> Option<Duration> {
        let now = now();
        self.containers.values().flat_map(|c| &c.sinks).filter_map(|sink| sink.patience(now)).min()
    }

    /// Lets those go for whom a program has waited long enough, and tells them.
    pub(super) fn let_slow_go(&mut self) {
        let now = now();
        let sinks = self.containers.values().flat_map(|c| &c.sinks);
        let slow: Vec<u64> = sinks.filter(|s| s.patience(now) == Some(Duration::ZERO)).map(|s| s.client).collect();
        for client in slow {
            let words = format!(
                "what the program writes was not read for {} s, and it waits no longer; its log has everything",
                PATIENCE.as_secs()
            );
            self.answer(Caller { client, number: LET_GO }, Err(Refusal::new(RefusalKind::State, words)));
            self.peers.remove(&client);
        }
    }

    /// Connections that are gone have left.
    pub(super) fn leave_abandoned(&mut self) {
        let peers = &self.peers;
        for container in self.containers.values_mut() {
            let gone = |sink: &Sink| !peers.contains_key(&sink.client);
            if container.sinks.iter().any(|sink| gone(sink) && sink.once) {
                container.stdin = None;
            }
            container.sinks.retain(|sink| !gone(sink));
        }
    }
}

/// Sends one byte, with the descriptor where there is one.
fn hand_over(socket: &OwnedFd, fd: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(rustix::io::Errno::INVAL);
    }
    sendmsg(socket, &[IoSlice::new(b"+")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sink(fd: OwnedFd) -> Sink {
        Sink { client: 1, stream: Stream::Stdout, fd, pending: vec![b'x'; 1 << 20], behind: None, once: false }
    }

    #[test]
    fn who_takes_nothing_is_waited_for_until_patience_ends() {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let mut sink = sink(theirs);
        assert_eq!(sink.patience(SECOND), None);
        assert!(sink.write(SECOND), "somebody may read it");
        assert_eq!(sink.patience(SECOND * 4), Some(SECOND * 7));
        assert!(sink.write(SECOND * 5), "nothing was taken");
        assert_eq!(sink.patience(SECOND * 11), Some(Duration::ZERO));
        assert_eq!(sink.patience(SECOND * 50), Some(Duration::ZERO));

        // Who takes anything at all is there.
        let mut buffer = vec![0; 1 << 20];
        rustix::io::read(&ours, &mut buffer[..]).unwrap();
        assert!(sink.write(SECOND * 11));
        assert_eq!(sink.patience(SECOND * 11), Some(PATIENCE));
        while !sink.pending.is_empty() {
            let _ = rustix::io::read(&ours, &mut buffer[..]);
            assert!(sink.write(SECOND * 12));
        }
        assert_eq!(sink.patience(SECOND * 99), None, "who has everything may take his time");
    }

    #[test]
    fn who_is_gone_is_not_waited_for() {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        drop(ours);
        assert!(!sink(theirs).write(SECOND));
    }
}
