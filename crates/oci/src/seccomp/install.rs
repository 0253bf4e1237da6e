//! Loading a filter into this process.

use std::io;

use super::bpf::Program;
use super::profile::SeccompError;

#[repr(C)]
struct SockFprog {
    length: libc::c_ushort,
    filter: *const super::bpf::Instruction,
}

const SECCOMP_SET_MODE_FILTER: libc::c_ulong = 1;

/// Loads a filter into the calling thread, for ever. Without `no_new_privs` it needs CAP_SYS_ADMIN in the thread's
/// user namespace. Only for processes with one thread: others would stay without.
///
/// # Errors
/// The kernel refuses; the caller must not go on.
pub(crate) fn install(program: &Program) -> Result<(), SeccompError> {
    let length = libc::c_ushort::try_from(program.instructions.len())
        .map_err(|_| SeccompError::TooLong { length: program.instructions.len() })?;
    let filter = SockFprog { length, filter: program.instructions.as_ptr() };
    #[expect(unsafe_code, reason = "seccomp(2) has no safe wrapper")]
    // SAFETY: the program and its instructions live until the call returns, and `Instruction` has the layout of
    // `struct sock_filter`.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, libc::c_ulong::from(program.flags), &raw const filter)
    };
    if done == 0 { Ok(()) } else { Err(SeccompError::Install(io::Error::last_os_error())) }
}
