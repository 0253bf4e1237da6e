//! One container in its shim: a small state machine and what belongs to it.
//!
//! ```text
//! Creating ──helper's result──► Created ──start──► Starting ──exec──► Running ──ended──► Ended
//!    └─ failed: forgotten          └──────── ended before its start ────────────────────────┘
//! ```

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use jiff::Timestamp;
use minke_core::runtime::{ContainerId, Exit, ExitCode};
use rustix::process::{Pid, WaitStatus};

use super::attach::Sink;
use super::exit::write_json;
use super::protocol::{ExitRecord, ShimContainer, ShimState};
use crate::create::Process;
use crate::create::executor::START_FAILED;
use crate::log::{Splitter, Stream, Writer};

/// Who waits for an answer: connection and number of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) client: u64,
    pub(super) number: u64,
}

/// Bytes that another process writes until it closes its end.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) fd: OwnedFd,
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, bytes: Vec::new() }
    }

    /// Reads what is there. `true` once the other end is closed.
    pub(super) fn read(&mut self) -> bool {
        let mut chunk = [0; 2048];
        loop {
            match rustix::io::read(&self.fd, &mut chunk[..]) {
                Ok(0) => return true,
                Ok(n) => self.bytes.extend_from_slice(&chunk[..n]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where a container is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    /// The helper is at work.
    Creating { helper: Pid, result: Inbox, caller: Caller },
    /// Init waits for its start.
    Created { pid: Pid },
    /// Init was told to start; the report closes when its program runs.
    Starting { pid: Pid, caller: Caller },
    /// Its program runs.
    Running { pid: Pid, started_at: Timestamp },
    /// Its first process ended.
    Ended(ExitRecord),
}

/// A pipe or terminal that the container writes to.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) fd: OwnedFd,
    pub(super) stream: Stream,
    splitter: Splitter,
}

impl Output {
    pub(super) fn new(fd: OwnedFd, stream: Stream) -> Self {
        Self { fd, stream, splitter: Splitter::new(stream) }
    }
}

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: ContainerId,
    pub(super) phase: Phase,
    /// Durable directory.
    pub(super) state: PathBuf,
    pub(super) bundle: PathBuf,
    /// What its processes share, once it is created.
    pub(super) process: Option<Box<Process>>,
    /// Its cgroup's path.
    pub(super) cgroup: String,
    pub(super) log: Writer,
    pub(super) outputs: Vec<Output>,
    /// Those who joined it.
    pub(super) sinks: Vec<Sink>,
    /// Takes init's report of a failed start.
    pub(super) report: Option<Inbox>,
    /// The writing end of its standard input, held open where it wants one.
    pub(super) stdin: Option<OwnedFd>,
    /// Whether it has a terminal.
    pub(super) tty: bool,
    /// Where libcontainer sends the terminal.
    pub(super) console: Option<UnixListener>,
}

impl Container {
    pub(super) fn describe(&self) -> ShimContainer {
        let state = match &self.phase {
            Phase::Creating { .. } => ShimState::Creating,
            Phase::Created { .. } | Phase::Starting { .. } => ShimState::Created,
            Phase::Running { started_at, .. } => ShimState::Running { started_at: *started_at },
            Phase::Ended(record) => ShimState::Exited(record.clone()),
        };
        ShimContainer { id: self.id.clone(), state }
    }

    /// Its first process, while there is one.
    pub(super) fn pid(&self) -> Option<Pid> {
        match &self.phase {
            Phase::Created { pid } | Phase::Starting { pid, .. } | Phase::Running { pid, .. } => Some(*pid),
            Phase::Creating { .. } | Phase::Ended(_) => None,
        }
    }

    /// Moves what an output has into the log. `false` when it is at its end.
    pub(super) fn pump(&mut self, at: usize, buffer: &mut [u8], now: Timestamp) -> bool {
        let Some(output) = self.outputs.get_mut(at) else { return false };
        let mut records = Vec::new();
        match rustix::io::read(&output.fd, &mut *buffer) {
            Ok(n) if n > 0 => {
                let count = output.splitter.push(&buffer[..n], now, &mut records);
                self.log.write(&records, count, now);
                let stream = output.stream;
                self.tee(stream, &buffer[..n]);
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            // A terminal whose last user is gone reads as an input/output error.
            Ok(_) | Err(_) => {
                let count = output.splitter.finish(now, &mut records);
                self.log.write(&records, count, now);
                self.log.finish(now);
                false
            }
        }
    }

    /// Moves everything that is there now into the log; outputs at their end go.
    pub(super) fn drain(&mut self, buffer: &mut [u8], now: Timestamp) {
        let mut at = 0;
        while at < self.outputs.len() {
            let open = loop {
                if !readable(self.outputs[at].fd.as_fd()) {
                    break true;
                }
                if !self.pump(at, buffer, now) {
                    break false;
                }
            };
            if open {
                at += 1;
            } else {
                self.outputs.remove(at);
            }
        }
    }

    /// Tells init to run its program.
    pub(super) fn release(&self) -> io::Result<()> {
        let socket = self.bundle.join("oci").join(&self.id.0).join("notify.sock");
        let mut stream = super::connect(&socket)?;
        io::Write::write_all(&mut stream, b"start container")
    }

    /// The terminal that libcontainer sent, as output and, where wanted, input.
    pub(super) fn take_terminal(&mut self, with_input: bool) -> io::Result<()> {
        let Some(listener) = self.console.take() else { return Ok(()) };
        let (stream, _) = listener.accept()?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 256];
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&stream, &mut parts, &mut control, rustix::net::RecvFlags::CMSG_CLOEXEC)?;
        let terminal = control.drain().find_map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let terminal = terminal.ok_or_else(|| io::Error::other("libcontainer sent no terminal"))?;
        rustix::io::ioctl_fionbio(&terminal, true)?;
        if with_input {
            self.stdin = Some(terminal.try_clone()?);
        }
        self.outputs.push(Output::new(terminal, Stream::Stdout));
        Ok(())
    }

    /// Its program runs: remembers when, also for an agent that finds this shim dead. The bundle can go then.
    pub(super) fn running(&mut self, pid: Pid, now: Timestamp) {
        let _ = write_json(&self.state.join("started.json"), &now, false);
        self.report = None;
        self.phase = Phase::Running { pid, started_at: now };
    }

    /// The bundle has served: its socket and state files would only take memory.
    pub(super) fn remove_bundle(&self) {
        let _ = fs::remove_dir_all(&self.bundle);
    }

    /// The record for an end with this status. `oom_kills` is how many of its processes died for want of memory.
    pub(super) fn record(&self, status: WaitStatus, oom_kills: u64, now: Timestamp) -> ExitRecord {
        let started_at = match &self.phase {
            Phase::Running { started_at, .. } => Some(*started_at),
            Phase::Creating { .. } | Phase::Created { .. } | Phase::Starting { .. } => None,
            Phase::Ended(record) => record.started_at,
        };
        let report = self.report.as_ref().map_or(&[][..], Inbox::bytes);
        exit_record(exit_code(status), started_at, report, oom_kills, now)
    }
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

/// 0 to 255 as returned; 128 + n for signal n.
pub(super) fn exit_code(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    }
}

/// How a container ended, in the kubelet's words. Pure.
fn exit_record(code: i32, started_at: Option<Timestamp>, report: &[u8], oom_kills: u64, now: Timestamp) -> ExitRecord {
    let report = String::from_utf8_lossy(report).into_owned();
    let (code, reason, message) = if !report.is_empty() {
        (START_FAILED, "StartError", report)
    } else if code != 0 && oom_kills > 0 {
        (code, "OOMKilled", String::new())
    } else if code == 0 && started_at.is_some() {
        (code, "Completed", String::new())
    } else {
        (code, "Error", String::new())
    };
    let exit = Exit { code: ExitCode::Known(code), reason: reason.to_owned(), message, finished_at: now };
    ExitRecord { started_at, exit }
}

/// Makes a pipe whose reading end doesn't block.
pub(super) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// The number of a descriptor that a child keeps.
pub(super) fn raw(fd: &impl AsRawFd) -> std::os::fd::RawFd {
    fd.as_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: i32, started: bool, report: &str, oom_kills: u64) -> (ExitCode, String) {
        let started = started.then_some(Timestamp::UNIX_EPOCH);
        let record = exit_record(code, started, report.as_bytes(), oom_kills, Timestamp::UNIX_EPOCH);
        (record.exit.code, record.exit.reason)
    }

    #[test]
    fn ends_are_named_as_the_kubelet_names_them() {
        assert_eq!(reason(0, true, "", 0), (ExitCode::Known(0), "Completed".into()));
        assert_eq!(reason(3, true, "", 0), (ExitCode::Known(3), "Error".into()));
        assert_eq!(reason(137, true, "", 0), (ExitCode::Known(137), "Error".into()));
        assert_eq!(reason(137, true, "", 1), (ExitCode::Known(137), "OOMKilled".into()));
        assert_eq!(reason(1, true, "", 2), (ExitCode::Known(1), "OOMKilled".into()));
        // A child was killed for want of memory and the program coped.
        assert_eq!(reason(0, true, "", 1), (ExitCode::Known(0), "Completed".into()));
        assert_eq!(reason(128, false, "exec: x", 0), (ExitCode::Known(128), "StartError".into()));
        // Killed before its start: never a success.
        assert_eq!(reason(137, false, "", 0), (ExitCode::Known(137), "Error".into()));
    }
}
