//! What people have suffered with the controller that they use today, as scenarios, where no other test is one already.
//! `docs/runners-complaints.md` has all of them, each with the test that holds it.

use std::collections::BTreeSet;
use std::path::Path;

use minke_runners::ids::RunnerId;
use serde_json::json;

use crate::cluster::Rates;
use crate::world::{World, set};

fn ids(world: &World) -> BTreeSet<RunnerId> {
    world.state.lock().unwrap().runners().iter().map(|runner| runner.id).collect()
}

/// ARC 4395, 4397: the Pod lives, its registration is gone, and it was counted as capacity for ever.
#[tokio::test(start_paused = true)]
async fn a_runner_that_the_forge_has_forgotten_is_replaced() {
    let world = World::new(30, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(3)));
    world.until(150, "three wait", |world| world.status("linux").idle == 3).await;
    let before = ids(&world);
    let forgotten = *before.first().unwrap();
    world.state.lock().unwrap().remove(forgotten).unwrap();
    let again = |world: &World| ids(world).len() == 3 && world.cluster.all_pods().len() == 3;
    world.until(300, "three are registered again", again).await;
    world.until(150, "three wait again", |world| world.status("linux").idle == 3).await;
    assert_eq!(before.intersection(&ids(&world)).count(), 2, "the others were left alone");
}

/// ARC 4588: a Pod was made again with a configuration that was used, and seemed to run for an hour.
#[tokio::test(start_paused = true)]
async fn a_pod_that_someone_deletes_is_followed_by_one_with_a_registration_of_its_own() {
    let world = World::new(31, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |spec| spec["minIdle"] = json!(1)));
    world.until(150, "one waits", |world| world.status("linux").idle == 1).await;
    let before = ids(&world);
    let name = world.cluster.all_pods()[0].metadata.name.clone().unwrap();
    world.cluster.delete_as_someone(&name);
    let other = |world: &World| world.status("linux").idle == 1 && ids(world).is_disjoint(&before);
    world.until(300, "another one waits", other).await;
    world.queue(&["linux"], 1);
    world.until(120, "it takes a job", |world| world.unfinished() == 0).await;
}

/// ARC 1044, 3866: after each job came a runner that nobody wanted, and was killed again.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_over_is_followed_by_no_runner() {
    let world = World::new(32, Rates::default());
    world.cluster.apply(set("linux", &["linux"], |_| {}));
    world.secs(1).await;
    for _ in 0..5 {
        world.queue(&["linux"], 1);
        world.until(300, "it has run", |world| world.unfinished() == 0).await;
        world.secs(200).await;
    }
    world.assert_clean();
    assert_eq!(world.cluster.lock().made, 5, "a Pod a job");
}

/// ARC 1387, 3276, 3420, 3534, 3649, 3704, 3953: from nothing, a job waited for seconds to an hour; 100 and more were worse than 30.
#[tokio::test(start_paused = true)]
async fn from_nothing_each_job_has_its_pod_within_seconds_however_many_there_are() {
    for jobs in [1, 30, 200] {
        let world = World::new(33 + jobs, Rates::default());
        world.cluster.apply(set("linux", &["linux"], |spec| spec["max"] = json!(200)));
        world.secs(2).await;
        world.queue(&["linux"], usize::try_from(jobs).unwrap());
        world.until(5, &format!("{jobs} Pods are there"), |world| world.cluster.lock().made >= jobs).await;
    }
}

/// The document names tests that there are.
#[test]
fn each_complaint_has_its_test() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(own.join("../../docs/runners-complaints.md")).unwrap();
    let mut sources = String::new();
    let mut directories = vec![
        own.join("src"),
        own.join("tests"),
        own.join("../minke/tests/cluster"),
        own.join("../apiserver/tests/front"),
    ];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what") && !line.starts_with("| row |"));
    let mut named = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || last.contains("—"), "no test: {row}");
        for test in tests {
            let is_there = sources.contains(&format!("fn {test}(")) || sources.contains(&format!("\"{test}\""));
            assert!(is_there, "there is no test {test}: {row}");
            named += 1;
        }
    }
    assert!(named > 40, "{named} tests");
}
