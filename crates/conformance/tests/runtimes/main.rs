//! The conformance suite on every runtime that there is: the fake, the embedded one and each containerd of Debian, side by
//! side. Real ones need root; what can't be had is skipped by name.
//!
//! ```text
//! main ─► a network namespace of its own ─► subjects, all at a time ─► scenarios, some at a time ─► one line each
//! ```

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, in a binary that clippy does not know as one")]

mod containerds;
mod embedded;
mod fake;
mod harness;
mod images;
mod provider;

use std::process::{Command, ExitCode};

use minke_testkit::containerd::{Programs, Release};

/// Says that this process is in a network namespace of its own.
const INSIDE: &str = "MINKE_CONFORMANCE_INSIDE";

fn main() -> ExitCode {
    if let Some(code) = minke_oci::reexec() {
        return code;
    }
    if rustix::process::geteuid().is_root() && std::env::var_os(INSIDE).is_none() {
        return in_an_own_network();
    }
    // ring is the only provider compiled in; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    harness::run()
}

/// The same again, where bridges and addresses are in nobody's way. Loopback is brought up: the registry and streams of
/// commands are there.
fn in_an_own_network() -> ExitCode {
    // From in there nothing can be fetched. What can't be had is said where it is needed.
    for release in Release::ALL {
        drop(Programs::get(&containerds::cache(), release));
    }
    let script = format!("{} ifconfig lo up && exec \"$@\"", minke_testkit::BUSYBOX);
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    let status = command.status().unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
