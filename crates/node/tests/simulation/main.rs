//! The pod controller over a fake API and a fake provider, in virtual time.
//!
//! [`histories`] shakes it with seeded faults: lost watches and forgotten histories, 409, 429, failing and slow writes, failing
//! calls, restarts at any await. When everything has come to rest, no Pod was started twice, none is left behind, none that
//! was wanted is gone, and every status has arrived. `MINKE_SIM_SEEDS=1000` runs more, `MINKE_SIM_SEED=7` one alone.

#![cfg(test)]

mod api;
mod histories;
mod lists;
mod scenarios;
mod world;
