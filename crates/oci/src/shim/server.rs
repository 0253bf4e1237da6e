//! The shim's loop: one thread that waits for anything to happen and deals with it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::ContainerId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use super::config::ShimConfig;
use super::connection::Peer;
use super::container::{Caller, Container, Inbox, Phase};
use super::exec::{Remnants, Running};
use super::protocol::{Message, Push, Refusal, RefusalKind, Reply, Request, VERSION};
use crate::cgroup::Cgroup;

/// What a descriptor that became ready belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Listener,
    Children,
    Peer(u64),
    Output(ContainerId, usize),
    Result(ContainerId),
    Report(ContainerId),
    Command(u64),
    /// Where somebody joined a container.
    Sink(ContainerId, usize),
    /// No descriptor: nothing happened for as long as was waited.
    Pause,
}

/// A running shim.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: ShimConfig,
    listener: UnixListener,
    pub(super) children: OwnedFd,
    pub(super) pause: Option<Pid>,
    pub(super) peers: BTreeMap<u64, Peer>,
    next_peer: u64,
    pub(super) containers: BTreeMap<ContainerId, Container>,
    /// Ends of processes while a container or a command is being made whose pid is not known yet.
    pub(super) early: HashMap<Pid, WaitStatus>,
    pub(super) commands: BTreeMap<u64, Running>,
    pub(super) next_command: u64,
    pub(super) remnants: Remnants,
    pub(super) buffer: Vec<u8>,
    /// Set by a shutdown: whom to answer before the end.
    ending: Option<Caller>,
}

impl Server {
    pub(super) fn new(config: ShimConfig, listener: UnixListener, children: OwnedFd, pause: Option<Pid>) -> Self {
        Self {
            config,
            listener,
            children,
            pause,
            peers: BTreeMap::new(),
            next_peer: 0,
            containers: BTreeMap::new(),
            early: HashMap::new(),
            commands: BTreeMap::new(),
            next_command: 0,
            remnants: Remnants::default(),
            buffer: vec![0; 16 * 1024],
            ending: None,
        }
    }

    /// Runs until a shutdown, or until the pause process is gone: the namespaces are then, too.
    pub(super) fn run(&mut self) -> ExitCode {
        loop {
            for source in self.wait() {
                self.handle(source);
            }
            self.kill_abandoned();
            self.let_slow_go();
            self.leave_abandoned();
            if let Some(caller) = self.ending {
                self.answer(caller, Ok(Reply::Done));
                return ExitCode::SUCCESS;
            }
        }
    }

    fn wait(&mut self) -> Vec<Source> {
        let mut sources = vec![Source::Listener, Source::Children];
        let mut fds: Vec<(BorrowedFd<'_>, PollFlags)> =
            vec![(self.listener.as_fd(), PollFlags::IN), (self.children.as_fd(), PollFlags::IN)];
        for (id, peer) in &self.peers {
            sources.push(Source::Peer(*id));
            fds.push((peer.as_fd(), peer.interest()));
        }
        for (id, container) in &self.containers {
            for (at, sink) in container.sinks.iter().enumerate() {
                sources.push(Source::Sink(id.clone(), at));
                fds.push((sink.as_fd(), sink.interest()));
            }
            for (at, output) in container.outputs.iter().enumerate().filter(|(_, o)| !container.is_behind(o)) {
                sources.push(Source::Output(id.clone(), at));
                fds.push((output.fd.as_fd(), PollFlags::IN));
            }
            match &container.phase {
                Phase::Creating { result, .. } => {
                    sources.push(Source::Result(id.clone()));
                    fds.push((result.fd.as_fd(), PollFlags::IN));
                }
                Phase::Starting { .. } => {
                    if let Some(report) = &container.report {
                        sources.push(Source::Report(id.clone()));
                        fds.push((report.fd.as_fd(), PollFlags::IN));
                    }
                }
                Phase::Created { .. } | Phase::Running { .. } | Phase::Ended(_) => {}
            }
        }
        for (number, report) in self.command_reports() {
            sources.push(Source::Command(number));
            fds.push((report.fd.as_fd(), PollFlags::IN));
        }
        let mut polled: Vec<PollFd<'_>> =
            fds.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        // A part of a millisecond more: who wakes too early would turn round and round.
        let patience =
            self.patience().map(|left| i64::try_from(left.as_millis()).unwrap_or(i64::MAX).saturating_add(1));
        let pause = self.remnants.pause_ms().into_iter().chain(patience).min();
        let pause = pause.map(|ms| Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 });
        match poll(&mut polled, pause.as_ref()) {
            Ok(0) => return vec![Source::Pause],
            Ok(_) => {}
            Err(_) => return Vec::new(),
        }
        // Outputs from the last to the first: one that ends is removed, which moves those behind it.
        let ready = sources.into_iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty()).map(|(s, _)| s);
        let mut ready: Vec<Source> = ready.collect();
        ready.reverse();
        ready
    }

    fn handle(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept(),
            Source::Children => {
                self.reap();
                self.bury_remnants();
            }
            Source::Peer(id) => self.serve(id),
            Source::Output(id, at) => {
                let now = SystemClock.now();
                if let Some(container) = self.containers.get_mut(&id)
                    && at < container.outputs.len()
                    && !container.pump(at, &mut self.buffer, now)
                {
                    container.outputs.remove(at);
                }
            }
            Source::Result(id) => self.helper_said(&id),
            Source::Command(number) => self.command_reported(number),
            Source::Sink(id, at) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.flush(at);
                }
            }
            Source::Pause => self.bury_remnants(),
            Source::Report(id) => {
                let container = self.containers.get_mut(&id);
                if container.and_then(|c| c.report.as_mut()).is_some_and(Inbox::read) {
                    self.exec_done(&id);
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Some(peer) = Peer::new(stream) {
                self.peers.insert(self.next_peer, peer);
                self.next_peer += 1;
            }
        }
    }

    fn serve(&mut self, id: u64) {
        let calls = match self.peers.get_mut(&id).map(Peer::exchange) {
            Some(Ok(calls)) => calls,
            Some(Err(_)) => {
                self.peers.remove(&id);
                return;
            }
            None => return,
        };
        for call in calls {
            let caller = Caller { client: id, number: call.number };
            if let Some(result) = self.request(caller, call.request) {
                self.answer(caller, result);
            }
        }
    }

    pub(super) fn answer(&mut self, caller: Caller, result: Result<Reply, Refusal>) {
        if let Some(peer) = self.peers.get_mut(&caller.client)
            && peer.send(&Message::Reply { number: caller.number, result }).is_err()
        {
            self.peers.remove(&caller.client);
        }
    }

    pub(super) fn push(&mut self, push: &Push) {
        let message = Message::Push(push.clone());
        self.peers.retain(|_, peer| !peer.subscribed || peer.send(&message).is_ok());
    }

    /// Deals with a request; `None` when its answer comes later.
    fn request(&mut self, caller: Caller, request: Request) -> Option<Result<Reply, Refusal>> {
        let unknown = |id: &ContainerId| Refusal::new(RefusalKind::NotFound, format!("no container {id}"));
        let in_words = |what: &str, e: io::Error| Refusal::new(RefusalKind::Failed, format!("can't {what}: {e}"));
        match request {
            Request::Hello => Some(Ok(Reply::Hello { version: VERSION })),
            Request::Create(request) => self.create(caller, *request).err().map(Err),
            Request::Start(id) => self.start(caller, &id).err().map(Err),
            Request::Exec(call) => {
                let files = self.peers.get_mut(&caller.client).map(Peer::take_files).unwrap_or_default();
                self.exec(caller, &call, files).err().map(Err)
            }
            Request::Attach(call) => {
                let files = self.peers.get_mut(&caller.client).map(Peer::take_files).unwrap_or_default();
                Some(self.attach(caller, &call, files).map(|()| Reply::Done))
            }
            Request::Network => {
                let files = self.peers.get_mut(&caller.client).map(Peer::take_files).unwrap_or_default();
                Some(self.network(&files).map(|()| Reply::Done))
            }
            Request::EndInput => {
                self.end_input(caller.client);
                Some(Ok(Reply::Done))
            }
            Request::Kill { id, signal, all } => {
                let Some(container) = self.containers.get(&id) else { return Some(Err(unknown(&id))) };
                if all {
                    Cgroup::new(&self.config.sandbox.hierarchies, &container.cgroup).kill();
                }
                match (container.pid(), signal_of(signal)) {
                    (_, None) => {
                        let text = format!("there is no signal {signal}");
                        return Some(Err(Refusal::new(RefusalKind::Invalid, text)));
                    }
                    (Some(pid), Some(signal)) => {
                        // Not reaped yet, so the number is still this process's, dead or not.
                        let _ = kill_process(pid, if all { Signal::KILL } else { signal });
                    }
                    (None, Some(_)) => {}
                }
                Some(Ok(Reply::Done))
            }
            Request::Delete(id) => Some(self.delete(&id).map(|()| Reply::Done)),
            Request::ReopenLog(id) => {
                let Some(container) = self.containers.get_mut(&id) else { return Some(Err(unknown(&id))) };
                Some(container.log.reopen().map(|()| Reply::Done).map_err(|e| in_words("open the log anew", e)))
            }
            Request::List => Some(Ok(Reply::Containers(self.containers.values().map(Container::describe).collect()))),
            Request::Subscribe => {
                if let Some(peer) = self.peers.get_mut(&caller.client) {
                    peer.subscribed = true;
                }
                Some(Ok(Reply::Done))
            }
            Request::Shutdown => match self.shutdown() {
                Ok(()) => {
                    self.ending = Some(caller);
                    None
                }
                Err(refusal) => Some(Err(refusal)),
            },
        }
    }
}

/// A signal by its number, real-time ones included.
fn signal_of(number: i32) -> Option<Signal> {
    if (1..=64).contains(&number) { Signal::from_named_raw(number).or_else(|| realtime(number)) } else { None }
}

fn realtime(number: i32) -> Option<Signal> {
    #[expect(unsafe_code, reason = "real-time signals have no safe constructor")]
    // SAFETY: the number is in the kernel's range, and it is only sent to another process.
    (32..=64).contains(&number).then(|| unsafe { Signal::from_raw_unchecked(number) })
}
