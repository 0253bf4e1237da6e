//! Lives of several sets under seeded faults.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::cluster::Rates;
use crate::random::Random;
use crate::world::{World, set};

const DEFAULT_SEEDS: u64 = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number: {text}")))
}

async fn life(seed: u64) {
    let mut random = Random::new(seed ^ 0xc0ff_ee00);
    let mut rate = |most: u64| if random.chance(300) { 0 } else { random.below(most) };
    let rates =
        Rates { call_fails: rate(150), answer_lost: rate(100), runner_fails: rate(150), lag: rate(5_000), job: None };
    let (forge_fails, lost) = (rate(150), rate(250));
    let mut world = World::new(seed, rates);
    world.forges.0.fails.store(forge_fails, Ordering::Relaxed);
    *world.lost.lock().unwrap() = lost;
    let max = 1 + random.below(8);
    let with_claims = random.chance(500);
    let linux = |image: &str| {
        set("linux", &["linux"], |spec| {
            spec["max"] = json!(max);
            spec["minIdle"] = json!(seed % 3);
            spec["template"]["spec"]["containers"][0]["image"] = json!(image);
            if with_claims {
                spec["workVolume"] = json!({"unusedSeconds": 300, "claimTemplate":
                    {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}});
            }
        })
    };
    world.cluster.apply(linux("runner:1"));
    world.cluster.apply(set("gpu", &["linux", "gpu"], |spec| spec["max"] = json!(3)));
    for _ in 0..10 + random.below(20) {
        sleep(Duration::from_millis(random.between(100, 30_000))).await;
        match random.below(10) {
            0..5 => world.queue(&["linux"], 1 + random.below(4) as usize),
            5 => world.queue(&["gpu"], 1 + random.below(3) as usize),
            6 | 7 => {
                world.crash();
                sleep(Duration::from_millis(random.between(10, 10_000))).await;
                world.start();
            }
            8 => world.cluster.apply(linux(if random.chance(500) { "runner:1" } else { "runner:2" })),
            _ => {
                let away = random.chance(500);
                world.forges.0.away.store(away, Ordering::Relaxed);
            }
        }
    }
    // From here on nothing goes wrong.
    world.forges.0.away.store(false, Ordering::Relaxed);
    world.forges.0.fails.store(0, Ordering::Relaxed);
    *world.lost.lock().unwrap() = 0;
    world.cluster.lock().rates = Rates::default();
    world.until(3 * 3600, "all jobs run", |world| world.unfinished() == 0).await;
    world.cluster.delete_set("ci", "linux");
    world.cluster.delete_set("ci", "gpu");
    let gone = |world: &World| !world.cluster.has_set("linux") && !world.cluster.has_set("gpu");
    world.until(2 * 3600, "the sets are gone", gone).await;
    world.secs(60).await;
    assert_eq!(world.cluster.all_claims(), Vec::<String>::new());
    assert!(world.cluster.lock().most_pods as u64 <= max + 3, "{} Pods", world.cluster.lock().most_pods);
    world.assert_clean();
}

#[test]
fn every_seed_keeps_the_promises() {
    let one = number("MINKE_SIM_SEED");
    let from = one.or_else(|| number("MINKE_SIM_FROM")).unwrap_or(0);
    let seeds = if one.is_some() { 1 } else { number("MINKE_SIM_SEEDS").unwrap_or(DEFAULT_SEEDS) };
    for seed in from..from + seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(life(seed))));
        if let Err(panic) = lived {
            eprintln!("seed {seed} failed; again with MINKE_SIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
