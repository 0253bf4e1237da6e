//! containerd, its shims and the agent are killed in a random order while Pods come and go. Afterwards nothing may be lost,
//! run twice or left over, no exit code may be made up, and everything has become what it should.
//!
//! `MINKE_CHAOS_ROUNDS` sets the number of rounds on each containerd, `MINKE_CHAOS_SEED` repeats a run's choices (not its
//! timing).
//!
//! What may be told of a container, where nobody saw how it ended: that it is unknown. So it is when containerd was away, and
//! when the agent was killed in the middle of a start that may have begun, which containerd then cuts off. Whoever kills a
//! shim also gets containerd's words for not knowing, 255 with reason `Error`, which nobody can tell from a program's own,
//! and 128 with reason `StartError` for a start that failed by it; both are allowed for Pods whose shim was killed, and for
//! no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use minke_testkit::containerd::{Containerd, Release};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::chaos::{Choices, find, setting};
use crate::containerd::{OnContainerd, with_containerd};
use crate::support::{IMAGE, PATIENCE, Ran, pod_with};

/// On each containerd; three of them make the two hundred.
const ROUNDS: u64 = 67;

#[tokio::test]
async fn kills_of_everything_lose_duplicate_and_leak_nothing_on_containerd_1_6() {
    on(Release::Bookworm).await;
}

#[tokio::test]
async fn kills_of_everything_lose_duplicate_and_leak_nothing_on_containerd_1_7() {
    on(Release::Trixie).await;
}

#[tokio::test]
async fn kills_of_everything_lose_duplicate_and_leak_nothing_on_containerd_2_1() {
    on(Release::Sid).await;
}

async fn on(release: Release) {
    const NAME: &str = "kills_of_everything";
    with_containerd(NAME, release, |bed| chaos(bed, setting("MINKE_CHAOS_ROUNDS", ROUNDS))).await;
}

/// What a Pod of the churn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs until it is stopped; never a second time.
    Server,
    /// Ends soon with this code; never a second time.
    Job(i32),
    /// Is restarted whenever it ends, with a readiness probe.
    Steady,
    /// Fails twice, then succeeds.
    Stubborn,
}

/// A Pod that was asked for and not removed since.
#[derive(Debug, Clone)]
struct Wanted {
    kind: Kind,
    uid: String,
    /// Where its starts are counted.
    count: String,
    /// Its shim was killed.
    hit: bool,
    /// containerd was killed while it was there.
    unseen: bool,
    /// The agent was.
    orphaned: bool,
}

struct Churn {
    bed: OnContainerd,
    choices: Choices,
    live: BTreeMap<String, Wanted>,
    /// Sandboxes whose shim was killed while containerd could not be asked whose they are.
    hit: BTreeSet<String>,
    /// Sandboxes as last seen, and whose they are.
    seen: BTreeMap<String, String>,
    next: usize,
}

async fn chaos(bed: OnContainerd, rounds: u64) {
    let seed = setting("MINKE_CHAOS_SEED", u64::from(std::process::id()));
    println!("MINKE_CHAOS_SEED={seed} MINKE_CHAOS_ROUNDS={rounds}");
    std::fs::create_dir(bed.m.root().join("count")).unwrap();
    let (live, hit, seen) = Default::default();
    let collector = bed.containerd.collector();
    let mut churn = Churn { bed, choices: Choices(seed), live, hit, seen, next: 0 };
    tokio::select! {
        () = churn.rounds(rounds) => {}
        () = collector.run() => {}
    }
    churn.bed.end_after_kills().await;
}

impl Churn {
    async fn rounds(&mut self, rounds: u64) {
        for round in 0..rounds {
            self.round().await;
            while self.live.len() > 8 {
                let name = self.live.keys().next().unwrap().clone();
                self.remove(&name).await.expect(0);
            }
            if round % 25 == 24 {
                self.check().await;
            }
        }
        self.check().await;
    }

    /// Does one thing while something is killed somewhere in the middle of it.
    async fn round(&mut self) {
        self.look().await;
        let choice = self.choices.below(10);
        let victim = self.live.keys().nth(self.choices.below(self.live.len().max(1) as u64) as usize).cloned();
        let name = match (&victim, choice) {
            // A Pod that comes back under its name is another one.
            (Some(name), 5..8) => name.clone(),
            _ => format!("p{}", self.next),
        };
        self.next += 1;
        let kind = match self.choices.below(4) {
            0 => Kind::Server,
            1 => Kind::Job([0, 3, 42][self.choices.below(3) as usize]),
            2 => Kind::Steady,
            _ => Kind::Stubborn,
        };
        let delay = Duration::from_millis(self.choices.below(250));
        let target = self.choices.below(6);
        let pick = self.choices.next();
        let pause = Duration::from_millis(self.choices.below(300));

        let manifest = self.manifest(&name, kind);
        let replaced = self.live.contains_key(&name);
        let (m, containerd) = (&self.bed.m, &mut self.bed.containerd);
        let shims = containerd.shims();
        let mut killed_shims = Vec::new();
        let act = async {
            match (choice, replaced) {
                (8, false) if victim.is_some() => {
                    let ran = m.minke(&["rm", "--force", victim.as_deref().unwrap()]).await;
                    (None, ran)
                }
                (9, false) => (None, m.minke(&["ps", "-o", "json"]).await),
                _ => {
                    if replaced {
                        let removed = m.minke(&["rm", "--force", &name]).await;
                        if removed.code != 0 {
                            return (None, removed);
                        }
                    }
                    let ran = m.minke(&["run", &manifest, "-o", "json", "--no-logs", "--timeout", "100s"]).await;
                    (Some(kind), ran)
                }
            }
        };
        let mut kill_shim = |shims: &[i32]| {
            let Some(pid) = (!shims.is_empty()).then(|| shims[pick as usize % shims.len()]) else { return };
            if let Some(sandbox) = Containerd::sandbox_of(pid) {
                killed_shims.push(sandbox);
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        };
        let mut was_away = false;
        let kill = async {
            sleep(delay).await;
            match target {
                0 => {
                    m.kill_agent().await;
                }
                1 => kill_shim(&containerd.shims()),
                2 => {
                    was_away = true;
                    containerd.kill();
                    sleep(pause).await;
                    containerd.restart().await.unwrap();
                }
                // Both, in this order and in that.
                3 => {
                    was_away = true;
                    containerd.kill();
                    kill_shim(&shims);
                    sleep(pause).await;
                    containerd.restart().await.unwrap();
                }
                4 => {
                    kill_shim(&shims);
                    m.kill_agent().await;
                }
                // Everything at once.
                _ => {
                    was_away = true;
                    m.kill_agent().await;
                    containerd.kill();
                    sleep(pause).await;
                    containerd.restart().await.unwrap();
                }
            }
        };
        let ((began, ran), ()) = tokio::join!(act, kill);
        self.hit.extend(killed_shims);
        let was_orphaned = matches!(target, 0 | 4 | 5);
        for wanted in self.live.values_mut() {
            wanted.unseen |= was_away;
            wanted.orphaned |= was_orphaned;
        }
        self.look().await;
        match began {
            Some(kind) => self.began(name, kind, &manifest, ran, (was_away, was_orphaned)).await,
            None if choice == 8 || replaced => {
                let name = victim.unwrap();
                // An agent that finds no runtime says so, and nothing was done.
                let ran = if ran.code == 5 && was_away { self.remove(&name).await } else { ran };
                // The command that found no agent to ask may have asked one before.
                if !(was_away && ran.code == 2 && ran.err.contains("no pod")) {
                    ran.expect(0);
                }
                self.live.remove(&name);
            }
            None => {
                if !(ran.code == 5 && was_away) {
                    ran.expect(0);
                }
            }
        }
    }

    /// A Pod was asked for.
    async fn began(
        &mut self,
        name: String,
        kind: Kind,
        manifest: &str,
        ran: Ran,
        (was_away, was_orphaned): (bool, bool),
    ) {
        let ran = if ran.code == 5 && was_away {
            self.bed.m.minke(&["run", manifest, "-o", "json", "--no-logs", "--timeout", "100s"]).await
        } else {
            ran
        };
        self.live.remove(&name);
        assert!([0, 1].contains(&ran.code), "{kind:?}: exit code {}\n{}\n{}", ran.code, ran.out, ran.err);
        let count = format!("{name}-{}", self.next);
        let uid = ran.json()["pods"][0]["uid"].as_str().unwrap().to_owned();
        self.look().await;
        let hit = self.seen.iter().any(|(sandbox, pod)| *pod == uid && self.hit.contains(sandbox));
        let may_fail =
            matches!(kind, Kind::Job(1..)) || hit || was_away || was_orphaned && was_cut_off(&ran.json()["pods"][0]);
        assert!(ran.code == 0 || may_fail, "{kind:?} failed although nothing was done to it\n{}\n{}", ran.out, ran.err);
        self.live.insert(name, Wanted { kind, uid, count, hit, unseen: was_away, orphaned: was_orphaned });
    }

    async fn remove(&mut self, name: &str) -> Ran {
        let ran = self.bed.m.minke(&["rm", "--force", name]).await;
        if ran.code == 0 {
            self.live.remove(name);
        }
        ran
    }

    /// Notes whose sandboxes there are, and whose shims were killed.
    async fn look(&mut self) {
        for sandbox in self.bed.sandboxes().await.into_iter().flatten() {
            self.seen.insert(sandbox.id.0, sandbox.pod.uid.to_string());
        }
        for (sandbox, pod) in self.seen.iter().filter(|(sandbox, _)| self.hit.contains(*sandbox)) {
            for wanted in self.live.values_mut().filter(|wanted| wanted.uid == *pod) {
                assert!(!sandbox.is_empty());
                wanted.hit = true;
            }
        }
    }

    fn manifest(&self, name: &str, kind: Kind) -> String {
        let (m, number) = (&self.bed.m, self.next);
        let count = m.root().join("count");
        let volumes = format!("volumes: [{{name: count, hostPath: {{path: {}}}}}]", count.display());
        let mounts = "volumeMounts: [{name: count, mountPath: /count}]";
        // Each start leaves a line behind and puts its name on a file. Who finds another's name there runs beside it.
        let mark = format!(
            "echo start >> /count/{name}-{number}; read me < /proc/sys/kernel/random/uuid; \
             echo $me > /count/{name}-{number}.owner; \
             alone() {{ read owner < /count/{name}-{number}.owner; \
             [ -z \"$owner\" ] || [ \"$owner\" = $me ] || echo {name}-{number} >> /count/twice; }}"
        );
        // Makes it another Pod than the one of this name before.
        let label = format!("echo {number} > /dev/null");
        let serve = "trap 'exit 0' TERM; while :; do alone; sleep 0.2; done";
        let text = match kind {
            Kind::Server => pod_with(name, "Never", &format!("{label}; {mark}; {serve}"), &volumes, mounts),
            Kind::Job(code) => {
                pod_with(name, "Never", &format!("{label}; {mark}; sleep 0.3; alone; exit {code}"), &volumes, mounts)
            }
            Kind::Steady => {
                let probe = "readinessProbe: {exec: {command: [\"true\"]}, periodSeconds: 1}";
                let init = format!(
                    "{volumes}\ninitContainers: [{{name: first, image: \"{IMAGE}\", imagePullPolicy: Never, \
                     command: [sh, -c, \"sleep 0.1\"]}}]"
                );
                let script = format!("{label}; {mark}; {serve}");
                pod_with(name, "Always", &script, &init, &format!("{mounts}\n{probe}"))
            }
            Kind::Stubborn => {
                let script =
                    format!("{label}; {mark}; sleep 0.2; alone; [ $(wc -l < /count/{name}-{number}) -gt 2 ] || exit 9");
                pod_with(name, "OnFailure", &script, &volumes, mounts)
            }
        };
        m.manifest(&format!("{name}-{number}.yaml"), &text)
    }

    /// Everything that should be there is, as it should be.
    async fn check(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let pods = loop {
            self.look().await;
            let pods = self.bed.m.minke(&["ps", "-o", "json"]).await.expect(0).json();
            let wrong: Vec<String> = self.live.iter().filter_map(|(name, wanted)| wrong(&pods, name, wanted)).collect();
            if wrong.is_empty() {
                break pods;
            }
            let said = self.bed.containerd.said();
            assert!(Instant::now() < deadline, "after {PATIENCE:?}:\n{}\ncontainerd:\n{said}", wrong.join("\n"));
            sleep(Duration::from_millis(200)).await;
        };
        assert_eq!(pods.as_array().unwrap().len(), self.live.len(), "nothing else is there: {pods:#}");
        let twice = std::fs::read_to_string(self.count().join("twice")).unwrap_or_default();
        assert_eq!(twice, "", "a container ran beside itself");
        for (name, wanted) in self.live.iter().filter(|(_, wanted)| matches!(wanted.kind, Kind::Server | Kind::Job(_)))
        {
            let starts = std::fs::read_to_string(self.count().join(&wanted.count)).unwrap_or_default();
            let code =
                find(&pods, name).unwrap()["containers"].as_array().unwrap().last().unwrap()["exitCode"].as_i64();
            let certain = !(wanted.hit || code == Some(137));
            let right = if certain { starts == "start\n" } else { starts.len() <= "start\n".len() };
            assert!(right, "{name} {wanted:?}, which is never started again, was started like this: {starts:?}");
        }
    }

    fn count(&self) -> PathBuf {
        self.bed.m.root().join("count")
    }
}

/// Whether the start of the Pod's container was cut off in its middle.
fn was_cut_off(pod: &Value) -> bool {
    let said = |container: &Value| container["message"].as_str().is_some_and(|text| text.contains("was cut off"));
    pod["containers"].as_array().unwrap().last().is_some_and(said)
}

/// What is not as it should be of a Pod; it may still become so. What can never become right panics.
fn wrong(pods: &Value, name: &str, wanted: &Wanted) -> Option<String> {
    let Some(pod) = find(pods, name) else { panic!("{name} is lost; there are {pods:#}") };
    assert_eq!(pod["uid"], *wanted.uid, "{name} is another one");
    let container = pod["containers"].as_array().unwrap().last().unwrap().clone();
    let phase = pod["phase"].as_str().unwrap();
    let code = container["exitCode"].as_i64();
    let reason = container["reason"].as_str().unwrap_or_default();
    let cut_off = was_cut_off(&pod);
    let told = match wanted.kind {
        Kind::Job(own) => vec![i64::from(own)],
        Kind::Server => vec![],
        Kind::Steady => vec![0],
        Kind::Stubborn => vec![0, 9],
    };
    if let Some(code) = code {
        // While it waits to be started again, the reason is that of the wait.
        let unknown = reason == "ContainerStatusUnknown" || container["state"] == "Waiting";
        let lost = code == 137 && unknown && (wanted.unseen || wanted.hit || wanted.orphaned && cut_off);
        let of_its_shim = wanted.hit && [255, 137, 128].contains(&code);
        assert!(told.contains(&code) || lost || of_its_shim, "{name} {wanted:?}: an invented end: {pod:#}");
    }
    let disturbed = wanted.hit || wanted.unseen || wanted.orphaned && cut_off;
    let as_wanted = match (wanted.kind, phase) {
        (Kind::Server, "Running") => code.is_none(),
        (Kind::Server, "Failed") => wanted.hit || wanted.orphaned && cut_off,
        (Kind::Job(0), "Succeeded") | (Kind::Stubborn, "Succeeded") => true,
        (Kind::Job(0), "Failed") => disturbed && code != Some(0),
        (Kind::Job(_), "Failed") => true,
        (Kind::Steady, "Running") => code.is_none(),
        _ => false,
    };
    // A back-off of a container that went on failing is as it should be, for minutes.
    let backs_off = reason == "CrashLoopBackOff" && matches!(wanted.kind, Kind::Steady | Kind::Stubborn);
    (!as_wanted && !backs_off).then(|| format!("{name} {wanted:?}: {pod:#}"))
}
