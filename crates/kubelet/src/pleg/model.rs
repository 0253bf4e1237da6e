//! The relister against a small world that it can see only through lists, inspections and hints, over seeded
//! schedules: every list is torn between its two halves, looks overlap and end in any order, calls fail, hints are
//! lost, doubled, late and forged.
//!
//! After every step: one look at a time for each Pod; no event twice or out of its order; whoever waited for an
//! observation newer than a moment got nothing that was gone before it and everything that was there. Once faults stop
//! and everything was listed once more: the cache is the world, every change was told, nobody waits.

mod schedule;
mod told;
mod world;

use schedule::Bed;

#[tokio::test(start_paused = true)]
async fn the_cache_follows_the_world_over_seeded_schedules() {
    let seeds: u64 = std::env::var("MINKE_PLEG_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        let mut bed = Bed::new(seed);
        let run = std::panic::AssertUnwindSafe(|| {
            for _ in 0..150 {
                bed.step();
            }
            bed.settle();
            bed.check_settled();
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
