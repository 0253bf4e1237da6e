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

use crate::support::{IMAGE, Instance, wait, wait_async};

/// The variable that asks for these tests.
pub(crate) const ASKED: &str = "MINKE_TEST_ON_CONTAINERD";

/// Whether these tests are asked for.
pub(crate) fn asked_for() -> bool {
    std::env::var_os(ASKED).is_some()
}

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
        if !asked_for() {
            return Err(format!("takes minutes; set {ASKED}=1"));
        }
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
        self.m.minke(&["rm", "--all", "--force"]).await.expect(0);
        self.m.end_agent().await;
        assert_eq!(self.m.leftovers(), "");
        let left = || {
            let groups = self.m.cgroup_roots().into_iter().map(|path| format!("cgroup {}\n", path.display()));
            format!("{}{}{}", self.containerd.leftovers(), self.containerd.traces(), groups.collect::<String>())
        };
        let quiet = async { wait("nothing to be left", || left().is_empty()).await };
        if tokio::time::timeout(Duration::from_secs(20), quiet).await.is_err() {
            panic!("left over:\n{}", left());
        }
    }
}
