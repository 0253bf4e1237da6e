//! Instances whose Pods are on a containerd of Debian's, each with a containerd of its own.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::SystemClock;
use minke_core::runtime::{ImageService as _, ListFilter, SandboxInfo, SandboxService as _};
use minke_cri::{CriConfig, CriRuntime, Endpoint};
use minke_testkit::containerd::{Containerd, Network, Programs, Release};
use minke_testkit::{BUSYBOX, busybox_image};

use rustix::process::Signal;
use tokio::time::Instant;

use crate::support::{IMAGE, Instance, wait_async};

/// Longest time until containerd has cleared up what it does by itself.
const CLEARED: Duration = Duration::from_secs(20);

/// Longest time until an agent's housekeeping has found what is not needed any more.
const HOUSEKEEPING: Duration = Duration::from_secs(150);

/// An instance and its runtime. Dropped in this order.
pub(crate) struct OnContainerd {
    pub(crate) m: Instance,
    /// The runtime as the agent sees it, for looking.
    pub(crate) cri: CriRuntime,
    pub(crate) containerd: Containerd,
}

/// Runs a test on an instance of its own, or says why it can't.
pub(crate) async fn with_containerd<F: Future<Output = ()>>(
    name: &str,
    release: Release,
    test: impl FnOnce(OnContainerd) -> F,
) {
    match OnContainerd::start(release).await {
        Ok(bed) => test(bed).await,
        Err(reason) => println!("SKIPPED {name}_on_{release}: {reason}"),
    }
}

impl OnContainerd {
    async fn start(release: Release) -> Result<Self, String> {
        if !Path::new(BUSYBOX).exists() {
            return Err("needs Debian's package busybox-static".to_owned());
        }
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containerd");
        let programs = tokio::task::spawn_blocking(move || Programs::get(&cache, release)).await.unwrap();
        let programs = programs.map_err(|reason| reason.to_string())?;
        let mut containerd = Containerd::start(&programs, Network::Own).await.unwrap();
        let image = busybox_image(Path::new(BUSYBOX)).unwrap().name(IMAGE).build();
        containerd.import(&image).await.unwrap();
        let endpoint = Endpoint::parse(containerd.socket().to_str().unwrap()).unwrap();
        let cri = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await.unwrap();
        wait_async("the image to be shown", async || cri.image_status(IMAGE).await.unwrap().is_some()).await;
        Ok(Self { m: Instance::on(containerd.socket()), cri, containerd })
    }

    /// The sandboxes of all Pods; `None` while the runtime is away.
    pub(crate) async fn sandboxes(&self) -> Option<Vec<SandboxInfo>> {
        self.cri.list_sandboxes(&ListFilter::default()).await.ok()
    }

    /// Removes all Pods, ends the agent, and checks that nothing of them is left anywhere. What containerd clears up by
    /// itself may take a moment.
    pub(crate) async fn end(&self) {
        self.remove_all().await;
        self.is_empty_but_for(|_, _| false).await;
    }

    /// The same where containerd was killed, but for what it has forgotten by that.
    pub(crate) async fn end_after_kills(&self) {
        self.remove_all().await;
        self.is_empty_but_for(forgotten).await;
    }

    async fn remove_all(&self) {
        self.m.minke(&["rm", "--all", "--force"]).await.expect(0);
        self.m.end_agent().await;
        if !self.m.leftovers().is_empty() {
            // What an agent left that was killed between two steps, the next one's housekeeping finds.
            let begun = Instant::now();
            let agent = self.m.spawn(&["agent"]);
            while !self.m.leftovers().is_empty() && begun.elapsed() < HOUSEKEEPING {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let left = self.m.leftovers();
            agent.signal(Signal::TERM);
            let ran = agent.end().await;
            let traces = self.containerd.leftovers() + &self.containerd.traces();
            assert_eq!(left, "", "what housekeeping leaves; on the runtime there is\n{traces}\n--- agent\n{}", ran.err);
            println!("housekeeping took {} s", begun.elapsed().as_secs());
        }
        assert_eq!(self.m.leftovers(), "");
    }

    async fn is_empty_but_for(&self, excused: impl Fn(&str, &str) -> bool) {
        let begun = Instant::now();
        loop {
            let containers = self.containerd.ctr(&["containers", "list", "--quiet"]).await.unwrap();
            let groups = self.m.cgroup_roots().into_iter().map(|path| format!("cgroup {}\n", path.display()));
            let traces = self.containerd.leftovers() + &self.containerd.traces();
            let traces = traces.lines().filter(|line| !excused(line, &containers)).map(|line| format!("{line}\n"));
            let left = traces.chain(groups).collect::<String>();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < CLEARED, "left over:\n{left}containers that containerd knows:\n{containers}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Whether this is something that containerd, which knows these containers, has forgotten. One that is killed while it makes or
/// removes a sandbox forgets the network that it has asked for and not noted yet, and a shim that it can't load when it is
/// back, or that holds nothing any more: it removes what it has of such a shim and lets the process live. Of a task that it
/// forgets so, the mount of its root file system stays. No call names them, so they are nobody's to remove but its own. A shim
/// with anything in it, or anything of a container that is known, is none of these.
fn forgotten(trace: &str, containers: &str) -> bool {
    let of_nobody = |rest: &str| rest.split_once(" of ").is_some_and(|(_, id)| !containers.lines().any(|it| it == id));
    let network = ["address ", "network namespace ", "mount /run/netns/"].iter().any(|start| trace.starts_with(start));
    let root = |path: &str| {
        let id =
            path.strip_suffix("/rootfs").and_then(|task| task.rsplit_once("/io.containerd.runtime.v2.task/k8s.io/"));
        id.is_some_and(|(_, id)| !containers.lines().any(|it| it == id))
    };
    network
        || trace.strip_prefix("empty shim ").is_some_and(of_nobody)
        || trace.strip_prefix("mount ").is_some_and(root)
}
