//! The few things about signals that have no safe wrapper.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    #[expect(unsafe_code, reason = "signal sets have no safe wrapper")]
    // SAFETY: the set is large enough, and the call can't fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
    }
    #[expect(unsafe_code, reason = "signal sets have no safe wrapper")]
    // SAFETY: sigemptyset initialised the whole set.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        #[expect(unsafe_code, reason = "signal sets have no safe wrapper")]
        // SAFETY: the set is initialised and outlives the call.
        unsafe {
            libc::sigaddset(&raw mut set, *signal);
        }
    }
    set
}

/// Blocks SIGCHLD and returns a descriptor that is readable when a child ended. Makes the signals of a terminal and
/// of a polite shutdown meaningless: a shim ends with its Pod.
pub(super) fn children_ended() -> io::Result<OwnedFd> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        #[expect(unsafe_code, reason = "sigaction(2) has no safe wrapper")]
        // SAFETY: SIG_IGN installs no code of ours.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    let set = set(&[libc::SIGCHLD]);
    #[expect(unsafe_code, reason = "sigprocmask(2) has no safe wrapper")]
    // SAFETY: the set is initialised and outlives the call.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    #[expect(unsafe_code, reason = "signalfd(2) has no safe wrapper")]
    // SAFETY: the set is initialised and outlives the call.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "signalfd(2) has no safe wrapper")]
    // SAFETY: the kernel just made this descriptor for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Blocks no signal any more. Children inherit what is blocked.
pub(crate) fn unblock_signals() {
    let none = set(&[]);
    #[expect(unsafe_code, reason = "sigprocmask(2) has no safe wrapper")]
    // SAFETY: the set is initialised and outlives the call.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
