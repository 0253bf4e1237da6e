//! The pause process: PID 1 of a shared PID namespace, or the holder of namespaces that a user namespace owns.
//!
//! It reaps, and can do nothing else: an empty read-only root, no capability, an ordinary user. A container that may
//! trace it (same user namespace, CAP_SYS_PTRACE, shared processes) gains nothing.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use caps::CapSet;
use minke_core::runtime::{IdMapping, NamespaceMode, error_chain};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait};
use rustix::thread::UnshareFlags;

use super::config::ShimConfig;
use super::namespaces::{self, NamespaceError, failed};
use super::{fork, signals};

/// The user that the pause process becomes: `nobody` of most systems.
const NOBODY: u32 = 65_534;

/// Starts a pause process where the Pod needs one. With a user namespace all other namespaces are its, too.
pub(super) fn start(config: &ShimConfig) -> Result<Option<Pid>, NamespaceError> {
    let options = &config.sandbox.namespaces;
    let mut flags = 0;
    if options.pid == NamespaceMode::Pod {
        flags |= libc::CLONE_NEWPID;
    }
    if options.user.is_some() {
        flags |= libc::CLONE_NEWUSER;
    }
    if flags == 0 {
        return Ok(None);
    }
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"));
    let (go_read, go_write) = pipe()?;
    let (done_read, done_write) = pipe()?;
    let keep = [go_read.as_raw_fd(), done_write.as_raw_fd()];
    let pid = fork::fork(flags, &keep, || {
        let mut done = fs::File::from(match done_write.try_clone() {
            Ok(fd) => fd,
            Err(_) => return 1,
        });
        match go_read
            .try_clone()
            .map_err(failed("wait for the id map"))
            .and_then(|go| child(config, fs::File::from(go)))
        {
            Ok(()) => {
                let _ = done.write_all(b"+");
                drop(done);
                fork::close_all_but(&[]);
                reap()
            }
            Err(e) => {
                let _ = done.write_all(error_chain(&e).as_bytes());
                1
            }
        }
    })
    .map_err(failed("make the Pod's user or PID namespace; it needs CAP_SYS_ADMIN"))?;
    drop((go_read, done_write));
    if let Some(map) = options.user {
        write_maps(pid, map)?;
    }
    fs::File::from(go_write).write_all(b"+").map_err(failed("start the pause process"))?;
    let mut answer = String::new();
    fs::File::from(done_read).read_to_string(&mut answer).map_err(failed("hear of the pause process"))?;
    match answer.as_str() {
        "+" => Ok(Some(pid)),
        "" => Err(failed("start the pause process")(io::Error::other("it ended at once"))),
        text => Err(failed("start the pause process")(io::Error::other(text.to_owned()))),
    }
}

fn write_maps(pid: Pid, map: IdMapping) -> Result<(), NamespaceError> {
    let line = format!("0 {} {}", map.host_id, map.length);
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        fs::write(&path, &line).map_err(failed(format!("write {line:?} to {path}")))?;
    }
    Ok(())
}

fn child(config: &ShimConfig, mut go: fs::File) -> Result<(), NamespaceError> {
    // The agent waits for the end of the shim's standard output, and no file of the host shall stay open here.
    let null = fs::File::options().read(true).write(true).open("/dev/null").map_err(failed("open /dev/null"))?;
    rustix::stdio::dup2_stdout(&null)
        .and_then(|()| rustix::stdio::dup2_stderr(&null))
        .map_err(failed("close files"))?;
    drop(null);
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("tie the pause process to its shim"))?;
    let mut byte = [0];
    go.read_exact(&mut byte).map_err(failed("wait for the id map"))?;
    drop(go);
    let options = &config.sandbox.namespaces;
    if options.user.is_some() {
        become_user(0)?;
        namespaces::enter(options, &config.sandbox.hostname, &config.sysctls)?;
    }
    empty_root(&config.run)?;
    let drop_capabilities = || -> Result<(), caps::errors::CapsError> {
        for capability in caps::read(None, CapSet::Bounding)? {
            caps::drop(None, CapSet::Bounding, capability)?;
        }
        Ok(())
    };
    drop_capabilities().map_err(io::Error::other).map_err(failed("drop capabilities"))?;
    become_user(NOBODY)?;
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(io::Error::other).map_err(failed("drop capabilities"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(failed("set no_new_privs"))?;
    // The death signal is lost with a change of user.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("tie the pause process to its shim"))
}

fn become_user(id: u32) -> Result<(), NamespaceError> {
    use rustix::process::{Gid, Uid};
    rustix::thread::set_thread_groups(&[]).map_err(failed("drop groups"))?;
    let gid = Gid::from_raw(id);
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(failed("change group"))?;
    let uid = Uid::from_raw(id);
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed("change user"))
}

/// Leaves the host's files behind.
fn empty_root(place: &Path) -> Result<(), NamespaceError> {
    #[expect(unsafe_code, reason = "unshare(2) of more than namespaces could break Rust's assumptions")]
    // SAFETY: only the mount namespace is unshared, and this process has one thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(failed("unshare the mount namespace"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(failed("make mounts private"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", place, "tmpfs", flags, c"size=0,mode=755").map_err(failed("mount an empty root"))?;
    std::env::set_current_dir(place).map_err(failed("enter the empty root"))?;
    rustix::process::pivot_root(".", ".").map_err(failed("change to the empty root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(failed("leave the old root"))?;
    std::env::set_current_dir("/").map_err(failed("enter the empty root"))
}

/// Reaps for ever. As PID 1 it gets the orphans of all containers; otherwise it only waits.
fn reap() -> i32 {
    let _ = rustix::thread::set_name(c"minke-pause");
    let Ok(ended) = signals::children_ended() else { return 1 };
    loop {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let mut ready = [rustix::event::PollFd::new(&ended, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut ready, None);
        let _ = rustix::io::read(&ended, &mut [0; 128]);
    }
}
