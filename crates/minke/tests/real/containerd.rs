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

use crate::support::{IMAGE, Instance, wait, wait_async};

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
        self.end_but_for(|_| false).await;
    }

    /// The same, but for traces that are nobody's to remove but containerd's.
    pub(crate) async fn end_but_for(&self, containerds: impl Fn(&str) -> bool) {
        self.m.minke(&["rm", "--all", "--force"]).await.expect(0);
        if !self.m.leftovers().is_empty() {
            // What an agent left that was killed between two steps, the next one's housekeeping finds.
            let begun = Instant::now();
            let agent = self.m.spawn(&["agent"]);
            wait("housekeeping to take what killed agents left", || self.m.leftovers().is_empty()).await;
            println!("housekeeping took {} s", begun.elapsed().as_secs());
            agent.signal(Signal::TERM);
            agent.end().await;
        }
        self.m.end_agent().await;
        assert_eq!(self.m.leftovers(), "");
        let left = || {
            let groups = self.m.cgroup_roots().into_iter().map(|path| format!("cgroup {}\n", path.display()));
            let traces = self.containerd.traces();
            let traces = traces.lines().filter(|line| !containerds(line)).map(|line| format!("{line}\n"));
            format!("{}{}{}", self.containerd.leftovers(), traces.collect::<String>(), groups.collect::<String>())
        };
        let quiet = async { wait("nothing to be left", || left().is_empty()).await };
        if tokio::time::timeout(Duration::from_secs(20), quiet).await.is_err() {
            panic!("left over:\n{}", left());
        }
    }
}
