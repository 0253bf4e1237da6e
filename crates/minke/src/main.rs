//! Minke: run Kubernetes Pods on one machine.

mod agent;
mod api;
mod backend;
mod cli;
mod client;
mod cmd;
mod durations;
mod exit;
mod goal;
mod logging;
mod logs;
mod node;
mod output;
mod place;
mod protocol;
mod select;
mod spans;
mod timeline;

fn main() -> std::process::ExitCode {
    // Shims and helpers are this program again; they must not have a second thread when they begin.
    minke_oci::reexec().unwrap_or_else(cli::main)
}
