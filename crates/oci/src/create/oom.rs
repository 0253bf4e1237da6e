//! `oom_score_adj`, as far as the machine allows.

use std::fs;
use std::io;

/// Sets this process's score, which its children inherit. Lowering it below what it is needs CAP_SYS_RESOURCE; where
/// that is missing the score stays as it is, as there is nothing better to be had.
pub(super) fn adjust(score: i32) -> io::Result<()> {
    let score = score.clamp(-1000, 1000);
    match fs::write("/proc/self/oom_score_adj", score.to_string()) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => Ok(()),
        result => result,
    }
}
