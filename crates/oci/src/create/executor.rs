//! The last steps inside the container, in its init process, after the start signal.
//!
//! Order matters. Without `no_new_privs` a filter can only be loaded with CAP_SYS_ADMIN, which the container must not
//! have; and after the filter is loaded nothing may be called that a strict profile could forbid. So everything is
//! dropped first but CAP_SYS_ADMIN in this process's own sets, then the filter is loaded, then the program is
//! executed: the kernel computes the program's capabilities from the bounding set (for root) or from nothing (for
//! others, ambient being empty), so what was kept does not survive the exec.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use caps::{CapSet, Capability};
use libcontainer::oci_spec::runtime::Spec;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use rustix::fs::{Access, AtFlags, CWD};
use rustix::mount::{MoveMountFlags, move_mount};

use crate::seccomp::Program;

/// Exit code of an init whose program could not be executed, as upstream's runtimes have it.
pub(crate) const START_FAILED: i32 = 128;

/// What the init process does when it is started.
#[derive(Debug, Clone)]
pub(super) struct Exec {
    pub(super) plan: Arc<Plan>,
}

#[derive(Debug)]
pub(super) struct Plan {
    /// Program and arguments.
    pub(super) args: Vec<String>,
    /// `NAME=value`.
    pub(super) env: Vec<String>,
    /// Working directory; made when absent.
    pub(super) cwd: PathBuf,
    pub(super) uid: u32,
    /// The container's capabilities.
    pub(super) capabilities: BTreeSet<String>,
    pub(super) no_new_privileges: bool,
    pub(super) seccomp: Option<Program>,
    pub(super) tty: bool,
    /// A detached tree to be mounted on `/sys/fs/cgroup`.
    pub(super) cgroups: Option<OwnedFd>,
    /// Takes the reason of a failure. Closed by a successful exec, which is how the shim learns of that.
    pub(super) report: File,
}

impl Executor for Exec {
    fn exec(&self, _spec: &Spec) -> Result<(), ExecutorError> {
        let error = self.plan.run();
        // Nobody else can be told: the channels to the helper are closed.
        let _ = (&self.plan.report).write_all(error.as_bytes());
        std::process::exit(START_FAILED)
    }

    fn validate(&self, _spec: &Spec) -> Result<(), ExecutorValidationError> {
        // A program that can't be found is an error of the start, with its own reason, not of the creation.
        Ok(())
    }

    fn setup_envs(&self, _envs: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        Ok(())
    }
}

impl Plan {
    /// Does everything; returns only with the reason why it could not.
    fn run(&self) -> String {
        let program = &self.args[0];
        if self.tty
            && let Err(e) = rustix::fs::fchown(io::stdin().as_fd(), Some(rustix::fs::Uid::from_raw(self.uid)), None)
        {
            return format!("can't give the terminal to user {}: {e}", self.uid);
        }
        if let Some(tree) = &self.cgroups {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            if let Err(e) = move_mount(tree, "", CWD, "/sys/fs/cgroup", flags) {
                return format!("can't mount /sys/fs/cgroup: {e}");
            }
        }
        if let Err(e) = enter(&self.cwd) {
            return format!("can't enter the working directory {}: {e}", self.cwd.display());
        }
        default_signals();
        if let Err(e) = self.drop_capabilities() {
            return format!("can't set capabilities: {e}");
        }
        let path = match find(program, &self.env) {
            Ok(path) => path,
            Err(e) => return e,
        };
        let cstring = |bytes: &[u8]| CString::new(bytes).ok();
        let (Some(path), Some(args), Some(env)) = (
            cstring(path.as_os_str().as_bytes()),
            self.args.iter().map(|a| cstring(a.as_bytes())).collect::<Option<Vec<_>>>(),
            self.env.iter().map(|a| cstring(a.as_bytes())).collect::<Option<Vec<_>>>(),
        ) else {
            return format!("exec: {program:?}: command, arguments and environment can't hold a NUL byte");
        };
        if let Some(filter) = &self.seccomp
            && let Err(e) = crate::seccomp::install(filter)
        {
            return minke_core::runtime::error_chain(&e);
        }
        let error = execve(&path, &args, &env);
        match error.raw_os_error() {
            Some(libc::ENOENT) => format!("exec: {program:?}: its interpreter or loader does not exist in the image"),
            Some(libc::ENOEXEC) => format!("exec: {program:?}: exec format error"),
            _ => format!("exec: {program:?}: {}", words(&error)),
        }
    }

    fn drop_capabilities(&self) -> Result<(), caps::errors::CapsError> {
        let wanted: caps::CapsHashSet = self.capabilities.iter().filter_map(|c| c.parse().ok()).collect();
        caps::clear(None, CapSet::Ambient)?;
        for capability in caps::read(None, CapSet::Bounding)? {
            if !wanted.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
        // Root's program gets its capabilities by the bounding set; others' get none, so the search for the program
        // already happens with what it will have.
        let mut own = if self.uid == 0 { wanted } else { caps::CapsHashSet::new() };
        if self.seccomp.is_some() && !self.no_new_privileges {
            own.insert(Capability::CAP_SYS_ADMIN);
        }
        caps::set(None, CapSet::Inheritable, &caps::CapsHashSet::new())?;
        caps::set(None, CapSet::Effective, &own)?;
        caps::set(None, CapSet::Permitted, &own)
    }
}

/// Makes the directory, its missing parents too, root's like those that upstream's runtimes make, and enters it.
fn enter(cwd: &Path) -> io::Result<()> {
    if !cwd.is_dir() {
        let mut path = PathBuf::from("/");
        for component in cwd.components().skip(1) {
            path.push(component);
            match rustix::fs::mkdir(&path, 0o755.into()) {
                Ok(()) => {
                    let root = (rustix::fs::Uid::from_raw(0), rustix::fs::Gid::from_raw(0));
                    rustix::fs::chown(&path, Some(root.0), Some(root.1))?;
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    std::env::set_current_dir(cwd)
}

/// Rust's start-up ignores SIGPIPE, the shim blocks signals, and who started the agent may have ignored others; all
/// that would be inherited by the container.
fn default_signals() {
    // The kernel's own `struct sigaction`, large enough for every architecture: all zero is SIG_DFL without flags.
    let default = [0_u64; 8];
    for signal in 1..=64 {
        #[expect(unsafe_code, reason = "the C library's sigaction(3) refuses the signals that it uses itself")]
        // SAFETY: SIG_DFL installs no code of ours; the size is that of the kernel's signal set. What the kernel
        // does not let be changed (SIGKILL, SIGSTOP) it refuses.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null_mut::<u64>(), 8_usize);
        }
    }
    crate::shim::unblock_signals();
}

/// The program's path: as it is if it has a slash, else by PATH.
fn find(program: &str, env: &[String]) -> Result<PathBuf, String> {
    if program.contains('/') {
        return match check(Path::new(program)) {
            Ok(()) => Ok(PathBuf::from(program)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(format!("exec: {program:?}: stat {program}: no such file or directory"))
            }
            Err(e) => Err(format!("exec: {program:?}: {}", words(&e))),
        };
    }
    let path = env.iter().find_map(|v| v.strip_prefix("PATH=")).unwrap_or("");
    let mut forbidden = None;
    for directory in path.split(':') {
        let candidate = Path::new(if directory.is_empty() { "." } else { directory }).join(program);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => forbidden = Some(e),
            Err(_) => {}
        }
    }
    Err(match forbidden {
        Some(e) => format!("exec: {program:?}: {}", words(&e)),
        None => format!("exec: {program:?}: executable file not found in $PATH"),
    })
}

/// Whether this process may execute it.
fn check(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// An error as the C library words it, without Rust's number.
fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES) => "permission denied".to_owned(),
        Some(libc::ENOENT) => "no such file or directory".to_owned(),
        Some(libc::EISDIR) => "is a directory".to_owned(),
        Some(libc::EPERM) => "operation not permitted".to_owned(),
        Some(libc::E2BIG) => "argument list too long".to_owned(),
        _ => error.to_string(),
    }
}

fn execve(path: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let (args, env) = (pointers(args), pointers(env));
    #[expect(unsafe_code, reason = "execve(2) has no safe wrapper")]
    // SAFETY: all strings end with NUL, both arrays with a null pointer, and everything outlives the call.
    unsafe {
        libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_path_or_the_reason_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data"), "x").unwrap();
        let env = vec![format!("PATH=/nonexistent:{}:/bin:/usr/bin", dir.path().display())];
        assert!(find("sh", &env).unwrap().ends_with("sh"));
        assert_eq!(find("foo", &env).unwrap_err(), "exec: \"foo\": executable file not found in $PATH");
        assert_eq!(find("data", &env).unwrap_err(), "exec: \"data\": permission denied");
        assert_eq!(find("/no/such", &env).unwrap_err(), "exec: \"/no/such\": stat /no/such: no such file or directory");
        assert_eq!(find("/etc", &env).unwrap_err(), "exec: \"/etc\": is a directory");
    }
}
