//! Seeded histories.

use std::time::Duration;

use jiff::SignedDuration;
use minke_core::fake::{FakePodLife, ProviderFault, ProviderFaultAction, ProviderFaultError, ProviderOp, SplitMix};
use minke_core::provider::Notices;
use serde_json::json;

use crate::api::Rates;
use crate::world::World;

fn fault(random: &mut SplitMix) -> ProviderFault {
    let ops = [ProviderOp::Create, ProviderOp::Update, ProviderOp::Delete, ProviderOp::Get, ProviderOp::List];
    let op = ops[usize::try_from(random.below(5)).unwrap()];
    let action = match random.below(5) {
        0 => ProviderFaultAction::Fail(ProviderFaultError::Failed),
        1 => ProviderFaultAction::Fail(ProviderFaultError::Unavailable),
        2 => ProviderFaultAction::FailAfter(ProviderFaultError::Failed),
        3 => ProviderFaultAction::Hang,
        _ => ProviderFaultAction::Delay(Duration::from_millis(random.below(3000))),
    };
    ProviderFault::on(op, action).times(u32::try_from(random.below(4)).unwrap())
}

/// One thing that somebody does.
async fn act(world: &mut World, random: &mut SplitMix) {
    let name = format!("p{}", random.below(6));
    match random.below(17) {
        0..=4 => world.api.create(&name, &json!({})),
        5 | 6 => world.api.delete_pod(&name, Duration::from_secs(random.below(20))),
        7 => world.api.edit(&name, |pod| {
            pod.metadata.labels.get_or_insert_default().insert("step".to_owned(), "changed".to_owned());
        }),
        8 => world.api.edit(&name, |pod| {
            if let Some(status) = &mut pod.status {
                status.message = Some("somebody else's".to_owned());
            }
        }),
        9 => {
            world.api.delete_pod(&name, Duration::ZERO);
            world.api.create(&name, &json!({}));
        }
        10 => {
            let forget = random.chance(500);
            world.api.lose_watches(forget);
        }
        11 | 12 => world.provider.add_fault(fault(random)),
        13 => {
            let (starts, stops) = (random.below(3000), random.below(8000));
            let (starts_after, stops_after) = (Duration::from_millis(starts), Duration::from_millis(stops));
            let ends = random.chance(200).then(|| (Duration::from_secs(random.below(60)), 0));
            world.provider.set_life(FakePodLife { starts_after, ends, stops_after });
        }
        14 => {
            let keys = world.provider.keys();
            if let Some(key) = keys.first() {
                world.provider.end(key, 1);
            }
        }
        15 => {
            let minutes = i64::try_from(random.below(240)).unwrap() - 120;
            world.set_clock(SignedDuration::from_mins(minutes));
        }
        _ => {
            world.kill().await;
            if random.chance(500) {
                tokio::time::sleep(Duration::from_secs(random.below(30))).await;
            }
            world.start();
        }
    }
}

async fn history(seed: u64) -> Result<(), String> {
    let mut random = SplitMix::new(seed);
    let notices = if random.chance(700) { Notices::Pushed } else { Notices::Polled };
    let mut world = World::new(seed, notices);
    world.api.set_rates(Rates { fails: 60, fails_after: 40, conflicts: 40, too_many: 40, slow: 100 });
    world.start();
    for _ in 0..60 {
        act(&mut world, &mut random).await;
        if random.chance(700) {
            tokio::time::sleep(Duration::from_millis(random.below(4000))).await;
        }
    }
    world.api.set_rates(Rates::default());
    world.provider.clear_faults();
    // Longer than any hanging call, back-off, sweep and doubt. Rest is when nothing is wrong and nobody writes any more.
    let mut wrong = Vec::new();
    for _ in 0..40 {
        let before = world.api.writes();
        tokio::time::sleep(Duration::from_secs(120)).await;
        wrong = world.unrest().await;
        if wrong.is_empty() && world.api.writes() == before {
            return Ok(());
        }
    }
    wrong.push(format!("{} writes so far", world.api.writes()));
    Err(wrong.join("\n"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_seed_comes_to_rest_with_nothing_lost_doubled_or_left() {
    let one = number("MINKE_SIM_SEED");
    let seeds = one.map_or(0..number("MINKE_SIM_SEEDS").unwrap_or(60), |seed| seed..seed + 1);
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        if let Err(wrong) = runtime.block_on(history(seed)) {
            panic!("seed {seed}: MINKE_SIM_SEED={seed} cargo test -p minke-node --test simulation every_seed\n{wrong}");
        }
    }
}
