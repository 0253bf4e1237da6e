//! Images on real file systems, from a registry on loopback: pulls, imports, hostile layers, several processes,
//! overlay mounts. Needs root, as unpacking does; tests that can't run say so with `SKIPPED <name>: <reason>`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod helpers;
mod imports;
mod layers;
mod model;
mod processes;
mod pulls;
mod snapshots;
mod store;
