//! The real program on real containers: root and Debian's busybox-static are all it needs. Each test has a state, run
//! and log directory of its own, and so an agent, a bridge and a cgroup of its own; what can't run here says so.

#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test program")]

mod adoption;
mod attach;
mod bootstrap;
mod chaos;
mod cluster;
mod commands;
mod compat;
mod containerd;
mod cri;
mod doctor;
mod examples;
mod exec;
mod failures;
mod interrupts;
mod kubectl;
mod node;
mod probes;
mod room;
mod running;
mod runtime_chaos;
mod screen;
mod sessions;
mod static_pods;
mod support;
mod up;
