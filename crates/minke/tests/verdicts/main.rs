//! Real Pods that go bad on a real node, seen through a real API by the real `minke watch`: each with its cause, its category,
//! its exit code and the time that the verdict took.
//!
//! ```text
//! failures (a table) ─► API (embedded, in this process) ─► node (kubelet core over the embedded runtime) ─► statuses
//!                            │                                                                     and events, back
//!                            ├─► `minke watch POD --for completed --fail-fast -o json`, one a Pod
//!                            └─► record: what a watch of the API tells, for `crates/watch/tests/fixtures`
//! ```
//!
//! Failures that no machine makes by itself (an eviction through the API, a node that is lost) are written by hand, as their
//! controllers write them. With `MINKE_RECORD=DIRECTORY` what was seen is written there, one file a failure.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, in a binary that clippy does not know as one")]

mod failures;
mod node;
mod record;
mod server;
mod verdict;

use std::process::{Command, ExitCode};
use std::time::Duration;

/// Says that this process is in a network namespace of its own.
const INSIDE: &str = "MINKE_VERDICTS_INSIDE";
/// Nothing here takes longer on a busy machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The only test here, and how the closing line of the usual runner names it.
const NAME: &str = "every_failure_has_its_cause_on_the_embedded_api";

fn main() -> ExitCode {
    // The embedded runtime's shims are this program, started again.
    if let Some(code) = minke_oci::reexec() {
        return code;
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::args().any(|a| a == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    if !filters.is_empty() && !filters.iter().any(|filter| NAME.contains(filter.as_str())) {
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    if let Some(reason) = missing() {
        println!("SKIPPED {NAME}: {reason}");
        println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(INSIDE).is_none() {
        return in_an_own_network();
    }
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let wrong = runtime.block_on(async { tokio::time::timeout(PATIENCE, verdict::all()).await });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let wrong = wrong.unwrap_or_else(|_| vec![format!("no end within {} s", PATIENCE.as_secs())]);
    for line in &wrong {
        println!("{line}");
    }
    let (word, passed) = if wrong.is_empty() { ("ok", 1) } else { ("FAILED", 0) };
    println!("test {NAME} ... {word}\n\ntest result: {word}. {passed} passed; {} failed; 0 ignored", 1 - passed);
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What this machine lacks.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    (!std::path::Path::new(minke_testkit::BUSYBOX).exists()).then_some("needs /bin/busybox (Debian's busybox-static)")
}

/// The same again, where bridges and addresses are in nobody's way. Loopback is brought up: API and registry are there.
fn in_an_own_network() -> ExitCode {
    let script = format!("{} ifconfig lo up && exec \"$@\"", minke_testkit::BUSYBOX);
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    if command.status().unwrap().success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
