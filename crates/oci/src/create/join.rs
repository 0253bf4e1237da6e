//! A command in a container that runs: a child of the shim becomes a process of the container.
//!
//! ```text
//! shim ──fork──► helper: cgroup files opened, all namespaces joined ──fork──► command: cgroup, user ──► exec
//!                  └─ tells its number, ends                                    (the shim's child)
//! ```
//! The command has nothing that the container's own process has not. It is forked only when the helper is inside: before
//! that the container can't see it, and there is nothing of the machine left in it then but open files of the
//! container's own cgroup. Until its program runs it can't be traced, and its executable is the sealed one that nobody can
//! change.

use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use caps::CapSet;
use minke_core::runtime::{TerminalSize, error_chain};
use rustix::fs::{CWD, Mode, OFlags, Uid};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{DumpableBehavior, Gid, Pid, Signal};
use rustix::thread::{ThreadNameSpaceType as Type, move_into_thread_name_spaces};

use super::helper::host_id;
use super::process::{self, ExecError, Process};
use super::{SandboxFacts, oom};
use crate::cgroup::Cgroup;

/// A command that joins a container.
#[derive(Debug)]
pub(crate) struct Join<'a> {
    /// What the container's processes share.
    pub(crate) process: &'a Process,
    pub(crate) sandbox: &'a SandboxFacts,
    /// The container's cgroup, and the name of the command's own below it.
    pub(crate) cgroup: Cgroup<'a>,
    pub(crate) group: &'a str,
    /// Program and arguments.
    pub(crate) command: &'a [String],
}

/// What a command reads and writes.
#[derive(Debug)]
pub(crate) enum JoinStdio {
    /// Pipes; without standard input `/dev/null`.
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    /// A new terminal of the container. Its other side is sent over this socket.
    Terminal { size: TerminalSize, socket: OwnedFd },
}

/// What the helper and the command tell the shim over one pipe, whose end means that the program runs or nothing does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// The command's number, in the shim's terms.
    pub(crate) pid: Option<i32>,
    /// Why its program does not run.
    pub(crate) error: Option<ExecError>,
}

/// In place of a shell's code: the container has ended meanwhile.
pub(crate) const CONTAINER_GONE: u8 = 0;
/// In place of a shell's code: the command could not get into the container.
pub(crate) const NOT_INSIDE: u8 = 1;

const PID: u8 = b'p';
const ERROR: u8 = b'e';
/// Messages up to this size are written whole or not at all (`PIPE_BUF` is more).
const LONGEST: usize = 2048;

impl Report {
    /// Understands what has come so far. Messages of the two come in any order.
    pub(crate) fn read(mut bytes: &[u8]) -> Self {
        let mut report = Self::default();
        loop {
            match bytes {
                [PID, a, b, c, d, rest @ ..] => {
                    report.pid = Some(i32::from_le_bytes([*a, *b, *c, *d]));
                    bytes = rest;
                }
                [ERROR, exit_code, a, b, rest @ ..] if rest.len() >= usize::from(u16::from_le_bytes([*a, *b])) => {
                    let (message, rest) = rest.split_at(usize::from(u16::from_le_bytes([*a, *b])));
                    let message = String::from_utf8_lossy(message).into_owned();
                    report.error = Some(ExecError { exit_code: *exit_code, message });
                    bytes = rest;
                }
                _ => return report,
            }
        }
    }

    fn pid_message(pid: i32) -> Vec<u8> {
        [&[PID][..], &pid.to_le_bytes()].concat()
    }

    fn error_message(error: &ExecError) -> Vec<u8> {
        let message = &error.message.as_bytes()[..error.message.len().min(LONGEST)];
        let length = u16::try_from(message.len()).unwrap_or_default();
        [&[ERROR, error.exit_code][..], &length.to_le_bytes(), message].concat()
    }
}

/// Makes the command. Only for a process of its own with one thread and no descriptors but these, which ends with what
/// this returns.
pub(crate) fn join(join: &Join<'_>, init: OwnedFd, stdio: JoinStdio, mut report: File) -> i32 {
    match helper(join, init, stdio, &report) {
        Ok(pid) => {
            let _ = report.write_all(&Report::pid_message(pid.as_raw_nonzero().get()));
            0
        }
        Err((what, error)) => {
            let exit_code = match error.raw_os_error() {
                // Its first process has ended, so nothing can come into its namespaces any more.
                Some(libc::ESRCH | libc::ENOMEM) => CONTAINER_GONE,
                _ => NOT_INSIDE,
            };
            let error = ExecError { exit_code, message: format!("can't {what}: {error}") };
            let _ = report.write_all(&Report::error_message(&error));
            1
        }
    }
}

type Failed = (&'static str, io::Error);

/// Goes into the container and forks the command there, as a child of the shim.
fn helper(join: &Join<'_>, init: OwnedFd, stdio: JoinStdio, report: &File) -> Result<Pid, Failed> {
    let Join { process, sandbox, cgroup, group, .. } = join;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("hide from the container"))?;
    let groups = cgroup.open_command(group);
    let groups = groups.map_err(|e| ("open the container's cgroup", io::Error::other(error_chain(&e))))?;
    oom::adjust(process.oom_score_adj).map_err(step("set oom_score_adj"))?;
    if let JoinStdio::Pipes { stdin, stdout, stderr } = &stdio {
        // A program that opens /dev/stdout needs the pipe to be its own.
        let owner = Some(Uid::from_raw(host_id(sandbox, process.uid)));
        for pipe in [stdin.as_ref(), Some(stdout), Some(stderr)].into_iter().flatten() {
            rustix::fs::fchown(pipe, owner, None).map_err(step("give away a pipe"))?;
        }
    }
    let mut namespaces = Type::MOUNT
        | Type::NETWORK
        | Type::HOST_NAME_AND_NIS_DOMAIN_NAME
        | Type::INTER_PROCESS_COMMUNICATION
        | Type::PROCESS_ID
        | Type::CONTROL_GROUP;
    if sandbox.namespaces.user.is_some() {
        namespaces |= Type::USER;
    }
    // All at once, so that they are those of one living process.
    move_into_thread_name_spaces(init.as_fd(), namespaces)
        .map_err(step("join the container's namespaces; it needs CAP_SYS_PTRACE beside CAP_SYS_ADMIN"))?;
    drop(init);
    if sandbox.namespaces.user.is_some() {
        // What is made from here on shall belong to somebody whom the namespace knows.
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).map_err(step("change group"))?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).map_err(step("change user"))?;
    }
    let mut keep: Vec<RawFd> = groups.iter().map(AsRawFd::as_raw_fd).chain([report.as_raw_fd()]).collect();
    match &stdio {
        JoinStdio::Pipes { stdin, stdout, stderr } => {
            keep.extend([stdout.as_raw_fd(), stderr.as_raw_fd()]);
            keep.extend(stdin.as_ref().map(AsRawFd::as_raw_fd));
        }
        JoinStdio::Terminal { socket, .. } => keep.push(socket.as_raw_fd()),
    }
    // The closure runs in the child only; there these values are its own.
    let mut body = Some((groups, stdio));
    crate::shim::fork_child(libc::CLONE_PARENT, &keep, || {
        let Some((groups, stdio)) = body.take() else { return 1 };
        let error = become_command(join, groups, stdio);
        let _ = (&*report).write_all(&Report::error_message(&error));
        i32::from(error.exit_code)
    })
    .map_err(step("start a process in the container"))
}

/// Returns only if the program could not be executed.
fn become_command(join: &Join<'_>, groups: Vec<File>, stdio: JoinStdio) -> ExecError {
    let Join { process, command, .. } = join;
    let mut env = process.env.clone();
    if matches!(stdio, JoinStdio::Terminal { .. }) && !env.iter().any(|v| v.starts_with("TERM=")) {
        env.push("TERM=xterm".to_owned());
    }
    let prepared = || -> Result<(), Failed> {
        // After the fork: a container at its limit of processes could not fork, but it takes one more in.
        for mut file in groups {
            file.write_all(b"0").map_err(step("join the container's cgroup"))?;
        }
        rustix::process::setsid().map_err(step("begin a session"))?;
        match stdio {
            JoinStdio::Pipes { stdin, stdout, stderr } => {
                if let Some(stdin) = &stdin {
                    rustix::stdio::dup2_stdin(stdin).map_err(step("take standard input"))?;
                }
                rustix::stdio::dup2_stdout(&stdout).map_err(step("take standard output"))?;
                rustix::stdio::dup2_stderr(&stderr).map_err(step("take standard error"))?;
            }
            JoinStdio::Terminal { size, socket } => terminal(process.uid, size, &socket)?,
        }
        become_user(process)
    };
    if let Err((what, error)) = prepared() {
        return ExecError::new(format!("can't {what}: {error}"));
    }
    if let Err(error) = process::enter(&process.cwd, false) {
        return ExecError::new(format!("can't enter the working directory {}: {error}", process.cwd.display()));
    }
    process.execute(command, &env)
}

fn step<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Failed {
    move |error| (what, error.into())
}

/// Becomes the container's user with all capabilities kept; `Process::execute` drops what is too much.
fn become_user(process: &Process) -> Result<(), Failed> {
    let all = || -> Result<(), caps::errors::CapsError> {
        caps::set(None, CapSet::Effective, &caps::read(None, CapSet::Permitted)?)
    };
    rustix::thread::set_keep_capabilities(true).map_err(step("keep capabilities"))?;
    let groups: Vec<Gid> = process.groups.iter().map(|g| Gid::from_raw(*g)).collect();
    rustix::thread::set_thread_groups(&groups).map_err(step("set groups"))?;
    let gid = Gid::from_raw(process.gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(step("change group"))?;
    let uid = Uid::from_raw(process.uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(step("change user"))?;
    rustix::thread::set_keep_capabilities(false).map_err(step("keep capabilities"))?;
    all().map_err(io::Error::other).map_err(step("keep capabilities"))?;
    if process.no_new_privileges {
        rustix::thread::set_no_new_privs(true).map_err(step("set no_new_privs"))?;
    }
    // A shim that dies takes its containers along; a change of user would have undone this.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("tie the command to its shim"))
}

/// Makes a terminal of the container's own, so that its name means something inside, and sends its other side away.
/// What the container put at that name is not trusted: only the kernel's multiplexer is taken.
fn terminal(uid: u32, size: TerminalSize, socket: &OwnedFd) -> Result<(), Failed> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // By its path alone first: opening some devices does something.
    let found =
        rustix::fs::openat(CWD, "/dev/pts/ptmx", OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(step("find a terminal in the container"))?;
    check(&found).map_err(step("find a terminal in the container"))?;
    let ours = rustix::fs::openat(CWD, "/dev/pts/ptmx", flags, Mode::empty())
        .map(File::from)
        .map_err(step("open a terminal in the container"))?;
    check(&ours).map_err(step("open a terminal in the container"))?;
    rustix::pty::unlockpt(&ours).map_err(step("unlock the terminal"))?;
    let peer = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, peer).map_err(step("open the terminal"))?;
    let size = rustix::termios::Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&ours, size).map_err(step("set the size of the terminal"))?;
    rustix::fs::fchown(&theirs, Some(Uid::from_raw(uid)), None).map_err(step("give away the terminal"))?;
    rustix::process::ioctl_tiocsctty(&theirs).map_err(step("take the terminal"))?;
    rustix::stdio::dup2_stdin(&theirs).map_err(step("take the terminal"))?;
    rustix::stdio::dup2_stdout(&theirs).map_err(step("take the terminal"))?;
    rustix::stdio::dup2_stderr(&theirs).map_err(step("take the terminal"))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [ours.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[io::IoSlice::new(b"t")], &mut control, SendFlags::NOSIGNAL)
        .map_err(step("hand the terminal over"))?;
    Ok(())
}

fn check(file: &File) -> io::Result<()> {
    const DEVPTS: u32 = 0x1cd1;
    let (kind, metadata) = (rustix::fs::fstatfs(file)?.f_type, file.metadata()?);
    let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    if u32::try_from(kind).is_ok_and(|k| k == DEVPTS) && metadata.file_type().is_char_device() && number == (5, 2) {
        Ok(())
    } else {
        Err(io::Error::other("/dev/pts/ptmx is not the kernel's"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> ExecError {
        ExecError { exit_code: 127, message: text.to_owned() }
    }

    #[test]
    fn messages_are_understood_in_any_order_and_only_whole() {
        let (pid, why) = (Report::pid_message(70_000), Report::error_message(&error("no")));
        let both = Report { pid: Some(70_000), error: Some(error("no")) };
        assert_eq!(Report::read(&[pid.clone(), why.clone()].concat()), both);
        assert_eq!(Report::read(&[why.clone(), pid.clone()].concat()), both);
        assert_eq!(Report::read(&[&pid[..], &why[..why.len() - 1]].concat()), Report { error: None, ..both });
        assert_eq!(Report::read(&[]), Report::default());
        let long = Report::read(&Report::error_message(&error(&"x".repeat(9000))));
        assert_eq!(long.error.unwrap().message.len(), LONGEST);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Report::read(&bytes);
        }
    }
}
