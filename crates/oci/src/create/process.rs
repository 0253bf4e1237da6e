//! What a process of a container is, whichever way it came in: its user, its rights, its filter; and the last steps
//! before its program runs.
//!
//! Order matters. Without `no_new_privs` a filter can only be loaded with CAP_SYS_ADMIN, which the container must not
//! have; and after the filter is loaded nothing may be called that a strict profile could forbid. So everything is
//! dropped first but CAP_SYS_ADMIN in this process's own sets, then the filter is loaded, then the program is
//! executed: the kernel computes the program's capabilities from the bounding set (for root) or from nothing (for
//! others, ambient being empty), so what was kept does not survive the exec.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use rustix::fs::{Access, AtFlags, CWD};
use serde::{Deserialize, Serialize};

use crate::seccomp::Program;

/// What a shell returns for a program that is there and can't be executed.
const NOT_EXECUTABLE: u8 = 126;
/// What a shell returns for a program that is not there.
pub(crate) const NO_PROGRAM: u8 = 127;

/// What every process of a container shares. The shim keeps it for the commands that run later.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// `NAME=value`.
    pub(crate) env: Vec<String>,
    /// Working directory.
    pub(crate) cwd: PathBuf,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// The container's capabilities.
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) no_new_privileges: bool,
    pub(crate) seccomp: Option<Program>,
    pub(crate) oom_score_adj: i32,
}

/// Without the environment, which may hold secrets.
impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("uid", &self.uid).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// A program that can't be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecError {
    /// What a shell would return.
    pub(crate) exit_code: u8,
    /// In upstream's words.
    pub(crate) message: String,
}

impl ExecError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { exit_code: NOT_EXECUTABLE, message: message.into() }
    }

    fn absent(message: impl Into<String>) -> Self {
        Self { exit_code: NO_PROGRAM, message: message.into() }
    }
}

impl Process {
    /// Executes a program in this process, which has one thread, is the container's user already and is in its
    /// working directory. Returns only with the reason why it could not.
    pub(super) fn execute(&self, args: &[String], env: &[String]) -> ExecError {
        default_signals();
        crate::open_files::restore();
        if let Err(e) = self.drop_capabilities() {
            return ExecError::new(format!("can't set capabilities: {e}"));
        }
        let Some(program) = args.first() else { return ExecError::new("no command specified") };
        let path = match find(program, env) {
            Ok(path) => path,
            Err(e) => return e,
        };
        let cstring = |bytes: &[u8]| CString::new(bytes).ok();
        let (Some(path), Some(args), Some(env)) = (
            cstring(path.as_os_str().as_bytes()),
            args.iter().map(|a| cstring(a.as_bytes())).collect::<Option<Vec<_>>>(),
            env.iter().map(|a| cstring(a.as_bytes())).collect::<Option<Vec<_>>>(),
        ) else {
            return ExecError::new(format!(
                "exec: {program:?}: command, arguments and environment can't hold a NUL byte"
            ));
        };
        if let Some(filter) = &self.seccomp
            && let Err(e) = crate::seccomp::install(filter)
        {
            return ExecError::new(minke_core::runtime::error_chain(&e));
        }
        let error = execve(&path, &args, &env);
        match error.raw_os_error() {
            Some(libc::ENOENT) => {
                ExecError::absent(format!("exec: {program:?}: its interpreter or loader does not exist in the image"))
            }
            Some(libc::ENOEXEC) => ExecError::new(format!("exec: {program:?}: exec format error")),
            _ => ExecError::new(format!("exec: {program:?}: {}", words(&error))),
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

/// Enters the working directory. With `make` it is made where it is missing, its parents too, root's like those that
/// upstream's runtimes make.
pub(super) fn enter(cwd: &Path, make: bool) -> io::Result<()> {
    if make && !cwd.is_dir() {
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
    std::env::set_current_dir(cwd)?;
    // A link such as /proc/self/fd/7 could lead to a directory outside the container's root, if one were open.
    if rustix::process::getcwd(Vec::new())?.as_bytes().starts_with(b"/") {
        Ok(())
    } else {
        let _ = std::env::set_current_dir("/");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it leads out of the container"))
    }
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
fn find(program: &str, env: &[String]) -> Result<PathBuf, ExecError> {
    if program.contains('/') {
        return match check(Path::new(program)) {
            Ok(()) => Ok(PathBuf::from(program)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(ExecError::absent(format!("exec: {program:?}: stat {program}: no such file or directory")))
            }
            Err(e) => Err(ExecError::new(format!("exec: {program:?}: {}", words(&e)))),
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
        Some(e) => ExecError::new(format!("exec: {program:?}: {}", words(&e))),
        None => ExecError::absent(format!("exec: {program:?}: executable file not found in $PATH")),
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
        for (program, code, message) in [
            ("foo", NO_PROGRAM, "exec: \"foo\": executable file not found in $PATH"),
            ("data", NOT_EXECUTABLE, "exec: \"data\": permission denied"),
            ("/no/such", NO_PROGRAM, "exec: \"/no/such\": stat /no/such: no such file or directory"),
            ("/etc", NOT_EXECUTABLE, "exec: \"/etc\": is a directory"),
        ] {
            let error = find(program, &env).unwrap_err();
            assert_eq!((error.exit_code, error.message.as_str()), (code, message));
        }
    }
}
