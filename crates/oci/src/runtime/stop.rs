//! Stopping a container: signal, grace, SIGKILL for everything.

use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::RuntimeError;
use tokio::time::Instant;

use super::embedded::Inner;
use super::error;
use super::state::{Container, Life, lock};
use crate::shim::ClientError;
use crate::shim::protocol::Request;

const STOP: &str = "stop container";
/// How long the kernel may take to end what got SIGKILL.
const AFTER_KILL: Duration = Duration::from_secs(15);

/// Stops a container; returns when it has ended. Several calls at once share the earliest deadline. Dropped while it
/// waits, the signal is sent but nobody kills: the next call does.
pub(super) async fn stop(inner: &Arc<Inner>, container: &Arc<Container>, grace: Duration) -> Result<(), RuntimeError> {
    let mut life = container.life.subscribe();
    let now = *life.borrow_and_update() == Life::Created;
    if matches!(*life.borrow(), Life::Exited(_)) {
        return Ok(());
    }
    // What was never started has no program that a polite signal could reach.
    let grace = if now { Duration::ZERO } else { grace };
    let first = {
        let deadline = Instant::now() + grace;
        let mut earliest = lock(&container.deadline);
        let first = earliest.is_none();
        *earliest = Some(earliest.map_or(deadline, |e| e.min(deadline)));
        first
    };
    container.sooner.notify_waiters();
    if first && !grace.is_zero() {
        signal(inner, container, container.record.stop_signal, false).await?;
    }
    loop {
        let sooner = container.sooner.notified();
        let deadline = lock(&container.deadline).unwrap_or_else(Instant::now);
        tokio::select! {
            ended = life.wait_for(|l| matches!(l, Life::Exited(_))) => {
                return ended.map(|_| ()).map_err(|e| RuntimeError::failed(STOP, e));
            }
            () = sooner => {}
            () = tokio::time::sleep_until(deadline) => break,
        }
    }
    kill(inner, container).await
}

/// Kills a container with everything in its cgroup; returns when it has ended.
pub(super) async fn kill(inner: &Arc<Inner>, container: &Arc<Container>) -> Result<(), RuntimeError> {
    let mut life = container.life.subscribe();
    if matches!(*life.borrow(), Life::Exited(_)) {
        return Ok(());
    }
    signal(inner, container, libc::SIGKILL, true).await?;
    let ended = life.wait_for(|l| matches!(l, Life::Exited(_)));
    match tokio::time::timeout(AFTER_KILL, ended).await {
        Ok(_) => Ok(()),
        Err(_) => Err(RuntimeError::TimedOut { operation: STOP, after: AFTER_KILL }),
    }
}

/// Sends a signal by way of the shim. A shim that is gone takes its containers along, so there is nothing to send.
async fn signal(inner: &Inner, container: &Container, signal: i32, all: bool) -> Result<(), RuntimeError> {
    let Some(client) = inner.sandbox(&container.record.sandbox).and_then(|s| s.client()) else { return Ok(()) };
    match client.call(Request::Kill { id: container.id().clone(), signal, all }).await {
        Ok(_) | Err(ClientError::Gone(_)) => Ok(()),
        Err(e) => Err(error::shim(STOP, e)),
    }
}

const NAMES: [(&str, i32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// The number of a signal given as name (`SIGUSR1`, `usr1`, `RTMIN+3`, `SIGRTMAX-2`) or number; `None` is SIGTERM.
/// `None` is returned for what is no signal. Numbers are those of x86 and ARM.
pub(super) fn signal_number(text: Option<&str>) -> Option<i32> {
    let Some(text) = text else { return Some(15) };
    if let Ok(number) = text.parse::<i32>() {
        return (1..=RTMAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let realtime = if let Some(rest) = name.strip_prefix("RTMIN") {
        Some((RTMIN, rest))
    } else {
        name.strip_prefix("RTMAX").map(|rest| (RTMAX, rest))
    };
    if let Some((base, rest)) = realtime {
        let offset = if rest.is_empty() { 0 } else { rest.parse::<i32>().ok()? };
        return base.checked_add(offset).filter(|n| (RTMIN..=RTMAX).contains(n));
    }
    NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signals_by_name_and_number() {
        for (text, number) in [
            ("SIGTERM", 15),
            ("TERM", 15),
            ("sigusr1", 10),
            ("9", 9),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
            ("RTMIN", 34),
        ] {
            assert_eq!(signal_number(Some(text)), Some(number), "{text}");
        }
        assert_eq!(signal_number(None), Some(15));
        for text in ["", "SIG", "FOO", "0", "65", "-1", "RTMIN-1", "RTMAX+1", "RTMINx", "RTMIN+99999999999"] {
            assert_eq!(signal_number(Some(text)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_signal_the_kernel_has_or_none(text in "\\PC{0,12}") {
            prop_assert!(signal_number(Some(&text)).is_none_or(|n| (1..=64).contains(&n)));
        }
    }
}
