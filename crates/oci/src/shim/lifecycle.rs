//! What the shim does with its containers: each step of their lives (see `container`), driven by the loop of `server`.

use std::io;
use std::path::PathBuf;

use minke_core::clock::{Clock, SystemClock};
use minke_core::runtime::ContainerId;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use super::container::{Caller, Container, Inbox, Output, Phase, output_pipe, raw};
use super::exit::write_json;
use super::protocol::{Push, Refusal, RefusalKind, Reply};
use super::server::Server;
use super::{fork, signals, socket};
use crate::cgroup::Cgroup;
use crate::create::{self, CreateRequest, Created, Stdio};
use crate::log::{Stream, Writer};

impl Server {
    pub(super) fn create(&mut self, caller: Caller, request: CreateRequest) -> Result<(), Refusal> {
        let id = request.id.clone();
        if self.containers.contains_key(&id) {
            return Err(Refusal::new(RefusalKind::Exists, format!("container {id} exists already")));
        }
        let tty = request.config.tty;
        let io = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| Refusal::new(RefusalKind::Failed, format!("can't {what}: {e}"))
        };
        std::fs::create_dir_all(&request.bundle).map_err(io("make the bundle directory"))?;
        let log = Writer::open(&request.log).map_err(io(&format!("open the log {}", request.log.display())))?;
        let pipe = || output_pipe().map_err(io("make a pipe"));
        let (result_read, result_write) = pipe()?;
        let (report_read, report_write) = pipe()?;
        let mut outputs = Vec::new();
        let mut output = None;
        let mut console = None;
        if request.config.tty {
            let path = request.bundle.join("console.sock");
            console = Some(socket::listen(&path).map_err(io("listen for the terminal"))?);
        } else {
            let ((out_read, out_write), (err_read, err_write)) = (pipe()?, pipe()?);
            outputs.push(Output::new(out_read, Stream::Stdout));
            outputs.push(Output::new(err_read, Stream::Stderr));
            output = Some((out_write, err_write));
        }
        let (mut stdin, mut stdin_read) = (None, None);
        if request.config.stdin && !request.config.tty {
            let (read, write) =
                rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| io("make a pipe")(e.into()))?;
            (stdin, stdin_read) = (Some(write), Some(read));
        }

        let mut keep = vec![raw(&result_write), raw(&report_write)];
        keep.extend(stdin_read.as_ref().map(raw));
        keep.extend(output.iter().flat_map(|(out, err)| [raw(out), raw(err)]));
        let stdio = Stdio { stdin: stdin_read, output, report: report_write };
        let holder = self.pause.unwrap_or_else(rustix::process::getpid).as_raw_nonzero();
        let namespaces = PathBuf::from(format!("/proc/{holder}/ns"));
        // The closure runs in the child only; there these values are its own.
        let mut body = Some((stdio, result_write));
        let sandbox = &self.config.sandbox;
        let helper = fork::fork(0, &keep, || {
            let Some((stdio, result)) = body.take() else { return 1 };
            signals::unblock_signals();
            let _ = rustix::thread::set_name(c"minke-create");
            let outcome = create::create(&request, sandbox, &namespaces, stdio);
            let _ = std::fs::remove_file(request.bundle.join("config.json"));
            let mut text = serde_json::to_vec(&outcome).unwrap_or_default();
            text.push(b'\n');
            let written = io::Write::write_all(&mut std::fs::File::from(result), &text);
            i32::from(outcome.is_err() || written.is_err())
        })
        .map_err(io("start the helper"))?;
        drop(body);

        let cgroup = format!("{}/{id}", self.config.sandbox.cgroup.trim_end_matches('/'));
        let container = Container {
            id: id.clone(),
            phase: Phase::Creating { helper, result: Inbox::new(result_read), caller },
            state: request.state,
            bundle: request.bundle,
            process: None,
            cgroup,
            log,
            outputs,
            sinks: Vec::new(),
            report: Some(Inbox::new(report_read)),
            stdin,
            tty,
            console,
        };
        self.containers.insert(id, container);
        Ok(())
    }

    /// The helper wrote something, or ended.
    pub(super) fn helper_said(&mut self, id: &ContainerId) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Phase::Creating { result, caller, .. } = &mut container.phase else { return };
        // Init has a copy of the writing end until it executes its program, so the end of the line counts.
        if !result.read() && !result.bytes().ends_with(b"\n") {
            return;
        }
        let caller = *caller;
        let outcome: Result<Created, Refusal> = serde_json::from_slice(result.bytes()).unwrap_or_else(|_| {
            Err(Refusal::new(
                RefusalKind::Failed,
                "the helper that creates containers died; see the sandbox's shim.log",
            ))
        });
        let outcome = outcome.and_then(|created| {
            let pid = Pid::from_raw(created.pid)
                .ok_or_else(|| Refusal::new(RefusalKind::Failed, "the container has no process"))?;
            let wants_input = container.stdin.is_some();
            container
                .take_terminal(wants_input)
                .map_err(|e| Refusal::new(RefusalKind::Failed, format!("can't take over the terminal: {e}")))?;
            let uid = created.process.uid;
            container.process = Some(Box::new(created.process));
            Ok((pid, uid))
        });
        match outcome {
            Ok((pid, uid)) => {
                container.phase = Phase::Created { pid };
                if let Some(status) = self.early.remove(&pid) {
                    self.ended(id, status);
                }
                self.answer(caller, Ok(Reply::Created { uid }));
            }
            Err(refusal) => {
                if let Some(container) = self.containers.remove(id) {
                    self.forget(&container);
                }
                self.answer(caller, Err(refusal));
            }
        }
        self.forget_early();
    }

    /// Whose end was not claimed by now is of no interest, once nothing is being made.
    pub(super) fn forget_early(&mut self) {
        let creating = self.containers.values().any(|c| matches!(c.phase, Phase::Creating { .. }));
        if !creating && self.commands.values().all(|c| c.pid.is_some()) {
            self.early.clear();
        }
    }

    pub(super) fn start(&mut self, caller: Caller, id: &ContainerId) -> Result<(), Refusal> {
        let container = self
            .containers
            .get_mut(id)
            .ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("no container {id}")))?;
        let Phase::Created { pid } = container.phase else {
            let text = format!("container {id} is not waiting for its start");
            return Err(Refusal::new(RefusalKind::State, text));
        };
        container
            .release()
            .map_err(|e| Refusal::new(RefusalKind::Failed, format!("can't tell the container to start: {e}")))?;
        container.phase = Phase::Starting { pid, caller };
        Ok(())
    }

    /// Init's report closed: its program runs, or it is about to end with the reason in the report.
    pub(super) fn exec_done(&mut self, id: &ContainerId) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Phase::Starting { pid, caller } = container.phase else { return };
        if container.report.as_ref().is_some_and(|r| !r.bytes().is_empty()) {
            // The answer comes with its end, which `reap` sees.
            return;
        }
        let now = SystemClock.now();
        container.running(pid, now);
        self.answer(caller, Ok(Reply::Started { at: now }));
        if let Some(container) = self.containers.get(id) {
            container.remove_bundle();
        }
    }

    /// Takes note of every child that ended.
    pub(super) fn reap(&mut self) {
        let mut drained = [0; 512];
        while rustix::io::read(&self.children, &mut drained).is_ok_and(|n| n == drained.len()) {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == self.pause {
                // Everything in its namespaces is gone. The agent sees this process end and tidies up.
                std::process::exit(1);
            }
            if let Some(number) = self.command_of(pid) {
                self.command_ended(number, status);
                continue;
            }
            let owner = self.containers.values().find(|c| c.pid() == Some(pid)).map(|c| c.id.clone());
            match owner {
                Some(id) => self.ended(&id, status),
                None => {
                    self.early.insert(pid, status);
                }
            }
        }
        self.forget_early();
    }

    /// A container's first process ended: the rest is killed, the log is emptied into its file, the record is put on
    /// disk, and only then everybody is told.
    fn ended(&mut self, id: &ContainerId, status: WaitStatus) {
        let Some(container) = self.containers.get_mut(id) else { return };
        if let Some(report) = &mut container.report {
            report.read();
        }
        let now = SystemClock.now();
        let starting = match container.phase {
            Phase::Starting { pid, caller } => {
                let failed = container.report.as_ref().is_some_and(|r| !r.bytes().is_empty());
                if !failed {
                    // Its program ran and was faster than this loop.
                    container.running(pid, now);
                }
                Some((caller, failed))
            }
            Phase::Creating { .. } | Phase::Created { .. } | Phase::Running { .. } | Phase::Ended(_) => None,
        };
        let cgroup = Cgroup::new(&self.config.sandbox.hierarchies, &container.cgroup);
        let killed = cgroup.kill_and_wait();
        let record = container.record(status, cgroup.oom_kills(), now);
        container.drain(&mut self.buffer, now);
        if let Err(e) = write_json(&container.state.join("exit.json"), &record, true) {
            // Memory still has it; only a death of this shim would lose it.
            eprintln!("minke-shim: can't write the exit of container {id}: {e}");
        }
        if killed.is_ok()
            && let Err(e) = cgroup.remove()
        {
            eprintln!("minke-shim: {}", minke_core::runtime::error_chain(&e));
        }
        let _ = std::fs::remove_dir_all(&container.bundle);
        container.stdin = None;
        container.dismiss();
        container.report = None;
        container.process = None;
        container.phase = Phase::Ended(record.clone());
        match starting {
            Some((caller, true)) => {
                let text = record.exit.message.clone();
                self.answer(caller, Err(Refusal::new(RefusalKind::Invalid, text)));
            }
            Some((caller, false)) => {
                self.answer(caller, Ok(Reply::Started { at: record.started_at.unwrap_or(now) }));
            }
            None => {}
        }
        self.push(&Push::Exited { id: id.clone(), record });
    }

    pub(super) fn delete(&mut self, id: &ContainerId) -> Result<(), Refusal> {
        match self.containers.get(id).map(|c| &c.phase) {
            None => Ok(()),
            Some(Phase::Ended(_)) => {
                if let Some(container) = self.containers.remove(id) {
                    self.forget(&container);
                }
                Ok(())
            }
            Some(Phase::Creating { .. } | Phase::Created { .. } | Phase::Starting { .. } | Phase::Running { .. }) => {
                Err(Refusal::new(RefusalKind::State, format!("container {id} has not ended")))
            }
        }
    }

    /// Removes what a container leaves outside its durable directory.
    fn forget(&self, container: &Container) {
        let cgroup = Cgroup::new(&self.config.sandbox.hierarchies, &container.cgroup);
        if let Err(e) = cgroup.kill_and_wait().and_then(|()| cgroup.remove()) {
            eprintln!("minke-shim: {}", minke_core::runtime::error_chain(&e));
        }
        let _ = std::fs::remove_dir_all(&container.bundle);
    }

    /// Ends every container, with its record on disk.
    pub(super) fn shutdown(&mut self) -> Result<(), Refusal> {
        let pod = Cgroup::new(&self.config.sandbox.hierarchies, &self.config.sandbox.cgroup);
        for container in self.containers.values() {
            if let Phase::Creating { helper, .. } = &container.phase {
                let _ = kill_process(*helper, Signal::KILL);
            }
        }
        pod.kill_and_wait().map_err(|e| Refusal::new(RefusalKind::Failed, minke_core::runtime::error_chain(&e)))?;
        // What was killed is a zombie by now, or will be in an instant: its group is empty.
        while self.containers.values().any(|c| c.pid().is_some()) {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) => {
                    if let Some(number) = self.command_of(pid) {
                        self.command_ended(number, status);
                    }
                    if let Some(id) = self.containers.values().find(|c| c.pid() == Some(pid)).map(|c| c.id.clone()) {
                        self.ended(&id, status);
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let _ = rustix::mount::unmount(&self.config.sandbox.files.shm, rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_file(self.config.run.join("shim.sock"));
        Ok(())
    }
}
