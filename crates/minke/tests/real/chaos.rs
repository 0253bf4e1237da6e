//! The agent is killed a hundred times at random moments while Pods come and go. Afterwards nothing may be lost,
//! run twice or left over.
//!
//! `MINKE_CHAOS_KILLS` sets the number of kills, `MINKE_CHAOS_SEED` repeats a run's choices (not its timing).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Instance, Ran, pod_with, wait_async, with_instance};

/// SplitMix64: choices that a seed repeats.
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What a Pod of the churn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs until it is stopped, and must never be started a second time.
    Server,
    /// Ends soon with this code, and must run exactly once.
    Job(i32),
    /// Has an init container, a port of its own and an address.
    Init,
}

#[derive(Debug)]
struct Churn<'a> {
    m: &'a Instance,
    /// Pods that were run with success and not removed since.
    live: BTreeMap<String, Kind>,
    next: usize,
}

impl Churn<'_> {
    fn manifest(&self, name: &str, kind: Kind) -> String {
        let count = self.m.root().join("count");
        let volumes = format!("volumes: [{{name: count, hostPath: {{path: {}}}}}]", count.display());
        let mounts = "volumeMounts: [{name: count, mountPath: /count}]";
        // Each start leaves a line behind.
        let mark = format!("echo start >> /count/{name}");
        let text = match kind {
            Kind::Server => {
                let script = format!("{mark}; trap 'exit 0' TERM; while :; do sleep 0.2; done");
                pod_with(name, "Never", &script, &volumes, mounts)
            }
            Kind::Job(code) => pod_with(name, "Never", &format!("{mark}; sleep 0.2; exit {code}"), &volumes, mounts),
            Kind::Init => {
                let spec = format!(
                    "{volumes}\ninitContainers: [{{name: first, image: \"{}\", imagePullPolicy: Never, \
                     command: [sh, -c, \"sleep 0.1\"]}}]",
                    crate::support::IMAGE
                );
                let script = format!("{mark}; trap 'exit 0' TERM; while :; do sleep 0.2; done");
                pod_with(name, "Never", &script, &spec, mounts)
            }
        };
        self.m.manifest(&format!("{name}.yaml"), &text)
    }

    /// Does one thing while the agent is killed somewhere in the middle of it.
    async fn step(&mut self, choices: &mut Choices) {
        let delay = Duration::from_millis(choices.below(120));
        let choice = choices.below(10);
        let victim = self.live.keys().nth(choices.below(self.live.len().max(1) as u64) as usize).cloned();
        let act = async {
            match (choice, victim) {
                (0..6, _) | (_, None) => {
                    let kind = match choices.below(3) {
                        0 => Kind::Server,
                        1 => Kind::Job(choices.below(3) as i32),
                        _ => Kind::Init,
                    };
                    let name = format!("p{}", self.next);
                    let path = self.manifest(&name, kind);
                    let ran = self.m.minke(&["run", &path, "--quiet", "--timeout", "50s"]).await;
                    (Some((name, Some(kind))), ran)
                }
                (6..8, Some(name)) => {
                    let ran = self.m.minke(&["rm", "--force", &name]).await;
                    (Some((name, None)), ran)
                }
                (_, Some(_)) => (None, self.m.minke(&["ps", "-o", "json"]).await),
            }
        };
        let kill = async {
            tokio::time::sleep(delay).await;
            self.m.kill_agent().await
        };
        let ((changed, ran), _) = tokio::join!(act, kill);
        self.next += 1;
        self.note(changed, ran);
    }

    fn note(&mut self, changed: Option<(String, Option<Kind>)>, ran: Ran) {
        match changed {
            // A job may have failed as it should before the command looked.
            Some((name, Some(kind @ Kind::Job(1..)))) if ran.code == 1 => {
                self.live.insert(name, kind);
            }
            Some((name, Some(kind))) => {
                ran.expect(0);
                self.live.insert(name, kind);
            }
            Some((name, None)) => {
                ran.expect(0);
                self.live.remove(&name);
            }
            None => {
                ran.expect(0);
            }
        }
    }

    /// Everything that should be there is, as it should be.
    async fn check(&self) {
        wait_async("the jobs to end", async || {
            let pods = self.m.minke(&["ps", "-o", "json"]).await.expect(0).json();
            self.live
                .iter()
                .filter(|(_, kind)| matches!(kind, Kind::Job(_)))
                .all(|(name, _)| find(&pods, name).is_none_or(|p| p["phase"] == "Succeeded" || p["phase"] == "Failed"))
        })
        .await;
        let pods = self.m.minke(&["ps", "-o", "json"]).await.expect(0).json();
        for (name, kind) in &self.live {
            let pod = find(&pods, name).unwrap_or_else(|| panic!("{name} is lost; there are {pods:#}"));
            let container = pod["containers"].as_array().unwrap().last().unwrap();
            let expected = match kind {
                Kind::Server | Kind::Init => ("Running", Value::Null),
                Kind::Job(0) => ("Succeeded", Value::from(0)),
                Kind::Job(code) => ("Failed", Value::from(*code)),
            };
            let found = (pod["phase"].as_str().unwrap(), container.get("exitCode").cloned().unwrap_or_default());
            assert_eq!(found, expected, "{name} {kind:?}: {pod:#}");
            let starts = std::fs::read_to_string(self.m.root().join("count").join(name)).unwrap_or_default();
            assert_eq!(starts, "start\n", "{name} {kind:?} was not started exactly once");
        }
        assert_eq!(pods.as_array().unwrap().len(), self.live.len(), "nothing else is there: {pods:#}");
    }
}

pub(crate) fn find(pods: &Value, name: &str) -> Option<Value> {
    pods.as_array().unwrap().iter().find(|p| p["name"] == name).cloned()
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test]
async fn a_hundred_kills_of_the_agent_lose_duplicate_and_leak_nothing() {
    with_instance("a_hundred_kills_of_the_agent_lose_duplicate_and_leak_nothing", async |m| {
        let seed = setting("MINKE_CHAOS_SEED", u64::from(std::process::id()));
        let kills = setting("MINKE_CHAOS_KILLS", 100);
        println!("MINKE_CHAOS_SEED={seed} MINKE_CHAOS_KILLS={kills}");
        std::fs::create_dir(m.root().join("count")).unwrap();
        let mut choices = Choices(seed);
        let mut churn = Churn { m: &m, live: BTreeMap::new(), next: 0 };
        for i in 0..kills {
            churn.step(&mut choices).await;
            // Few enough to stay quick, many enough to be in the way of each other.
            while churn.live.len() > 8 {
                let name = churn.live.keys().next().unwrap().clone();
                m.minke(&["rm", "--force", &name]).await.expect(0);
                churn.live.remove(&name);
            }
            if i % 25 == 24 {
                churn.check().await;
            }
        }
        churn.check().await;

        m.minke(&["rm", "--all", "--force"]).await.expect(0);
        m.end_agent().await;
        assert_eq!(m.leftovers(), "", "after {kills} kills, seed {seed}");
        if let Some(bridge) = m.bridge() {
            assert_eq!(nft_elements(&bridge), "", "after {kills} kills, seed {seed}");
        }
    })
    .await;
}

/// Elements of the instance's nft table that name an address of a Pod, where there is an `nft` to ask.
fn nft_elements(table: &str) -> String {
    let Some(nft) = ["/usr/sbin/nft", "/sbin/nft"].iter().find(|p| Path::new(p).exists()) else {
        println!("SKIPPED nft_elements: nft is not installed");
        return String::new();
    };
    let output = std::process::Command::new(nft).args(["list", "table", "inet", table]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|l| l.contains("elements =")).map(|l| format!("{}\n", l.trim())).collect()
}
