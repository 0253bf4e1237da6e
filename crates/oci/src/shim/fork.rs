//! Children of the shim that run no other program.

use std::io;
use std::os::fd::RawFd;

use rustix::process::Pid;

/// Forks; the child runs `body` with only its standard streams and `keep` open, then exits with what it returns.
/// `flags` are those of clone(2) that make namespaces, or make the child one of the caller's parent.
///
/// The caller has one thread, so the child may do anything that it may.
pub(crate) fn fork(flags: libc::c_int, keep: &[RawFd], body: impl FnOnce() -> i32) -> io::Result<Pid> {
    #[expect(unsafe_code, reason = "clone(2) has no safe wrapper")]
    // SAFETY: no stack is given, so the child gets a copy of this one, as by fork(2); the shim has one thread, so no
    // lock of another can be held in the child.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags | libc::SIGCHLD), 0_usize, 0_usize, 0_usize, 0_usize)
    };
    match pid {
        0 => {
            close_all_but(keep);
            let code = body();
            #[expect(unsafe_code, reason = "_exit(2) has no safe wrapper")]
            // SAFETY: ends this process without running the parent's clean-up in it.
            unsafe {
                libc::_exit(code)
            }
        }
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.ok_or_else(io::Error::last_os_error)
        }
    }
}

/// Closes every descriptor from 3 on but these. Their owners are values of the parent that the child never drops.
pub(super) fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<RawFd> = keep.to_vec();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().filter(|fd| *fd >= 3) {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    #[expect(unsafe_code, reason = "close_range(2) has no safe wrapper")]
    // SAFETY: no value of this process uses these descriptors any more.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done != 0 {
        // Kernels before 5.9.
        for fd in first..=last.min(65_535) {
            #[expect(unsafe_code, reason = "descriptors without an owner can only be closed by number")]
            // SAFETY: as above.
            unsafe {
                libc::close(fd);
            }
        }
    }
}
