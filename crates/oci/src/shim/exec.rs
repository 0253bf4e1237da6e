//! Commands in containers, on the shim's side.
//!
//! ```text
//! agent connects, asks, sends the ends of pipes ──► helper ──forks──► command ──exec──► Started ──ended──► Ended
//!                                                     └─────── failed: refused, with the reason
//! connection closed, by whomever and however ──► killed, with everything that it started
//! ```
//! A command is a child of the shim and lives in its container's process namespace: it ends with the container, and
//! nothing of it survives an agent that dies.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, WaitStatus, kill_process, pidfd_open};

use super::container::{Caller, Inbox, Phase, exit_code, output_pipe, raw};
use super::fork;
use super::protocol::{ExecCall, Refusal, RefusalKind, Reply};
use super::server::Server;
use crate::cgroup::Cgroup;
use crate::create::{CONTAINER_GONE, ExecError, Join, JoinStdio, NO_PROGRAM, NOT_INSIDE, Report, join};

/// The first pause before a group that could not be removed is tried again.
const FIRST_PAUSE_MS: i64 = 5;
const LONGEST_PAUSE_MS: i64 = 1000;

/// A command that runs, or is about to.
#[derive(Debug)]
pub(super) struct Running {
    /// Once its helper has told.
    pub(super) pid: Option<Pid>,
    group: Group,
    caller: Caller,
    /// Closed when its program runs; until then it may get the reason why not.
    report: Option<Inbox>,
    /// That reason.
    error: Option<ExecError>,
    /// Its agent is gone.
    killed: bool,
}

/// The cgroup of a command: that of its container, and the name below it.
#[derive(Debug, Clone)]
struct Group {
    container: String,
    name: String,
}

/// Groups of killed commands that were not empty yet.
#[derive(Debug, Default)]
pub(super) struct Remnants {
    groups: Vec<Group>,
    pause_ms: i64,
}

impl Remnants {
    /// How long to wait before the next try; `None` if there is nothing to try.
    pub(super) fn pause_ms(&self) -> Option<i64> {
        (!self.groups.is_empty()).then_some(self.pause_ms)
    }

    fn add(&mut self, group: Group) {
        self.groups.push(group);
        self.pause_ms = FIRST_PAUSE_MS;
    }
}

impl Server {
    /// Starts a command; the answer comes when its program runs.
    pub(super) fn exec(&mut self, caller: Caller, call: &ExecCall, files: Vec<OwnedFd>) -> Result<(), Refusal> {
        let id = &call.container;
        let io =
            |what: &'static str| move |e: io::Error| Refusal::new(RefusalKind::Failed, format!("can't {what}: {e}"));
        let container =
            self.containers.get(id).ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("no container {id}")))?;
        let (pid, process) = match (&container.phase, &container.process) {
            (Phase::Running { pid, .. }, Some(process)) => (*pid, process),
            (phase, _) => {
                let text = format!("container {id} is not running: it is in state {}", state_name(phase));
                return Err(Refusal::new(RefusalKind::State, text));
            }
        };
        // Init was not reaped yet, so the number is still its own, and the descriptor stays its own.
        let init = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| io("open the container's process")(e.into()))?;
        let stdio = stdio(call, files)
            .ok_or_else(|| Refusal::new(RefusalKind::Failed, "the agent sent other streams than the command needs"))?;
        let (report_read, report_write) = output_pipe().map_err(io("make a pipe"))?;

        let sandbox = &self.config.sandbox;
        let cgroup = Cgroup::new(&sandbox.hierarchies, &container.cgroup);
        let name = loop {
            let name = format!("exec-{}", self.next_command);
            self.next_command += 1;
            let made = cgroup.make_command(&name);
            if made.map_err(|e| io("make a cgroup")(io::Error::other(minke_core::runtime::error_chain(&e))))? {
                break name;
            }
        };
        let mut keep = vec![raw(&init), raw(&report_write)];
        match &stdio {
            JoinStdio::Pipes { stdin, stdout, stderr } => {
                keep.extend([stdout.as_raw_fd(), stderr.as_raw_fd()]);
                keep.extend(stdin.as_ref().map(raw));
            }
            JoinStdio::Terminal { socket, .. } => keep.push(raw(socket)),
        }
        let description = Join { process, sandbox, cgroup: cgroup.clone(), group: &name, command: &call.command };
        // The closure runs in the child only; there these values are its own.
        let mut body = Some((init, stdio, report_write));
        let forked = fork::fork(0, &keep, || {
            let Some((init, stdio, report)) = body.take() else { return 1 };
            let _ = rustix::thread::set_name(c"minke-exec");
            join(&description, init, stdio, File::from(report))
        });
        drop(body);
        if let Err(e) = forked {
            cgroup.remove_command(&name);
            return Err(io("start the helper")(e));
        }
        let group = Group { container: container.cgroup.clone(), name };
        let report = Some(Inbox::new(report_read));
        let command = Running { pid: None, group, caller, report, error: None, killed: false };
        self.commands.insert(self.next_command, command);
        Ok(())
    }

    /// A command's report said something or closed: where it is, that its program runs, or why not.
    pub(super) fn command_reported(&mut self, number: u64) {
        let Some(command) = self.commands.get_mut(&number) else { return };
        let Some(inbox) = &mut command.report else { return };
        let closed = inbox.read();
        let report = Report::read(inbox.bytes());
        if command.pid.is_none()
            && let Some(pid) = report.pid.and_then(Pid::from_raw)
        {
            command.pid = Some(pid);
            if command.killed {
                // Not reaped yet, or in `early`, where it does not matter.
                let _ = kill_process(pid, Signal::KILL);
            }
            if let Some(status) = self.early.remove(&pid) {
                self.command_ended(number, status);
                return;
            }
        }
        if closed {
            command.report = None;
            command.error = report.error;
            let caller = command.caller;
            match (command.pid, &command.error) {
                (Some(_), None) => self.answer(caller, Ok(Reply::ExecStarted)),
                // The answer comes with its end, which `reap` sees.
                (Some(_), Some(_)) => {}
                (None, _) => self.not_forked(number),
            }
        }
        self.forget_early();
    }

    /// The helper ended before there was a command.
    fn not_forked(&mut self, number: u64) {
        let Some(command) = self.commands.remove(&number) else { return };
        let refusal = match command.error {
            Some(error) => refusal(error),
            None => {
                Refusal::new(RefusalKind::Failed, "the helper that starts commands died; see the sandbox's shim.log")
            }
        };
        self.answer(command.caller, Err(refusal));
        Cgroup::new(&self.config.sandbox.hierarchies, &command.group.container).remove_command(&command.group.name);
    }

    /// A command's first process ended. What it left running stays, in its container's group.
    pub(super) fn command_ended(&mut self, number: u64, status: WaitStatus) {
        let Some(mut command) = self.commands.remove(&number) else { return };
        let started = command.report.is_none();
        if let Some(report) = &mut command.report {
            report.read();
            command.error = Report::read(report.bytes()).error;
        }
        let ended = Ok(Reply::ExecEnded { code: exit_code(status) });
        let answers = match command.error {
            Some(error) => vec![Err(refusal(error))],
            None if started => vec![ended],
            // Its program ran and was faster than this loop.
            None => vec![Ok(Reply::ExecStarted), ended],
        };
        for answer in answers {
            self.answer(command.caller, answer);
        }
        let cgroup = Cgroup::new(&self.config.sandbox.hierarchies, &command.group.container);
        if command.killed {
            if !cgroup.kill_command(&command.group.name) {
                self.remnants.add(command.group);
            }
        } else {
            // What can't be moved keeps the group, which goes with its container.
            cgroup.remove_command(&command.group.name);
        }
    }

    /// Kills the commands of agents that are gone, or no longer want them.
    pub(super) fn kill_abandoned(&mut self) {
        for command in self.commands.values_mut() {
            if !command.killed && !self.peers.contains_key(&command.caller.client) {
                command.killed = true;
                Cgroup::new(&self.config.sandbox.hierarchies, &command.group.container)
                    .kill_command(&command.group.name);
                // It may not be in its group yet. Not reaped, so the number is still its own; one that is not known
                // yet is killed when it is.
                if let Some(pid) = command.pid {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }

    /// Tries again to end what is left of killed commands.
    pub(super) fn bury_remnants(&mut self) {
        let hierarchies = &self.config.sandbox.hierarchies;
        self.remnants.groups.retain(|g| !Cgroup::new(hierarchies, &g.container).kill_command(&g.name));
        self.remnants.pause_ms = (self.remnants.pause_ms * 2).min(LONGEST_PAUSE_MS);
    }

    /// The reports that are still awaited.
    pub(super) fn command_reports(&self) -> impl Iterator<Item = (u64, &Inbox)> {
        self.commands.iter().filter_map(|(number, command)| Some((*number, command.report.as_ref()?)))
    }

    /// The command whose first process this is.
    pub(super) fn command_of(&self, pid: Pid) -> Option<u64> {
        self.commands.iter().find(|(_, command)| command.pid == Some(pid)).map(|(number, _)| *number)
    }
}

fn refusal(error: ExecError) -> Refusal {
    let kind = match error.exit_code {
        CONTAINER_GONE => RefusalKind::State,
        NOT_INSIDE => RefusalKind::Failed,
        NO_PROGRAM => RefusalKind::NoProgram,
        _ => RefusalKind::NotExecutable,
    };
    Refusal::new(kind, error.message)
}

/// The state in CRI's word.
fn state_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Creating { .. } | Phase::Created { .. } | Phase::Starting { .. } => "CONTAINER_CREATED",
        Phase::Running { .. } => "CONTAINER_RUNNING",
        Phase::Ended(_) => "CONTAINER_EXITED",
    }
}

/// The streams that came with a call: a socket for a terminal, else output, error and maybe input.
fn stdio(call: &ExecCall, files: Vec<OwnedFd>) -> Option<JoinStdio> {
    let mut files = files.into_iter();
    let stdio = match call.tty {
        Some(size) => JoinStdio::Terminal { size, socket: files.next()? },
        None => {
            let (stdout, stderr) = (files.next()?, files.next()?);
            let stdin = if call.stdin { Some(files.next()?) } else { None };
            JoinStdio::Pipes { stdin, stdout, stderr }
        }
    };
    files.next().is_none().then_some(stdio)
}
