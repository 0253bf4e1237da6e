//! The whole controller, with its tasks, against a cluster and a forge in memory, under paused time: scenarios, and lives under
//! seeded faults with crashes of the controller.
//!
//! Held whenever the cluster is asked: no Pod goes whose runner has a job, each Pod's configuration is there before it, no claim
//! goes below a runner, never more live Pods than the maximum. Held at the end: every job has run, and nothing is left on either
//! side.

#![cfg(test)]

mod cluster;
mod complaints;
mod forge;
#[path = "../simulation/random.rs"]
mod random;
mod rows;
mod scenarios;
mod seeds;
mod world;
