//! What a full relist costs with many containers: the PLEG over the runtime in memory, so that what is measured is
//! comparing, remembering and telling, not a runtime.

use std::sync::Arc;
use std::time::Duration;

use minke_core::fake::{FakeRuntime, container_config, sandbox_config};
use minke_core::identity::{PodKey, PodUid};
use minke_core::runtime::{ContainerService, ImageUser, ListFilter, RuntimeError, SandboxService};
use minke_kubelet::cache::pod_cache;
use minke_kubelet::pleg::{EventSink, LifecycleEvent, Pleg, PlegConfig};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failure::Failure;
use crate::process::Process;
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

/// Containers of one Pod.
const EACH: usize = 5;
/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(300);

/// Says when a full relist has been worked through.
#[derive(Debug)]
struct Listed(UnboundedSender<usize>);

impl EventSink for Listed {
    fn deliver(&self, _uid: &PodUid, _events: &[LifecycleEvent]) {}

    fn listed(&self, pods: &[PodUid]) {
        // Nobody listens any more at the end.
        let _ = self.0.send(pods.len());
    }
}

/// A full relist in which nothing changed, and the memory of everything that is known.
pub(crate) fn measure(containers: usize, runs: usize) -> Result<Vec<Row>, Failure> {
    crate::pods::runtime()?.block_on(async {
        let runtime = FakeRuntime::new();
        populate(&runtime, containers.div_ceil(EACH)).await.map_err(Failure::runtime("the runtime in memory"))?;
        runtime.clear_calls();
        let before = resident();
        let (sender, mut listed) = unbounded_channel();
        let (cache, writer) = pod_cache();
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (config, clock) = (PlegConfig::default(), Arc::new(runtime.clock()));
        let sink = Arc::new(Listed(sender));
        let pleg = Pleg::start(Arc::new(runtime.clone()), writer, sink, config, clock, &tasks, &cancel);
        let begun = Instant::now();
        while cache.len() < containers.div_ceil(EACH) {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Unexpected("the pods are never all cached".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let first = begun.elapsed();
        let memory = resident() - before;
        let (mut full, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            while listed.try_recv().is_ok() {}
            let begun = Instant::now();
            pleg.request_all();
            next(&mut listed).await?;
            full.push(begun.elapsed());
            let begun = Instant::now();
            let filter = ListFilter::default();
            drop(runtime.list_sandboxes(&filter).await);
            drop(runtime.list_containers(&filter).await);
            alone.push(begun.elapsed());
        }
        cancel.cancel();
        tasks.close();
        tasks.wait().await;
        let row = |what: &str, ours: Option<Sample>, peer: Peer| {
            let none = || Failure::Unexpected(format!("nothing was measured: {what}"));
            let what = format!("{what} ({containers} containers)");
            Ok(Row { what, ours: ours.ok_or_else(none)?, peer, aim: "" })
        };
        let listing = Sample::of_times(&alone)
            .map_or(Peer::Nobody, |sample| Peer::Measured { name: "the two lists alone".to_owned(), sample });
        Ok(vec![
            row("full relist, nothing changed", Sample::of_times(&full), listing)?,
            row("first full relist, everything inspected", Sample::of_times(&[first]), Peer::Nobody)?,
            row("memory of records and cache", Sample::new(Unit::KibiBytes, vec![memory]), Peer::Nobody)?,
        ])
    })
}

async fn next(listed: &mut UnboundedReceiver<usize>) -> Result<usize, Failure> {
    let broken = || Failure::Unexpected("a full relist never came to its end".to_owned());
    timeout(PATIENCE, listed.recv()).await.ok().flatten().ok_or_else(broken)
}

/// Resident size of this process in KiB.
fn resident() -> f64 {
    Process::own().sizes().map_or(0.0, |sizes| sizes.resident)
}

async fn populate(runtime: &FakeRuntime, pods: usize) -> Result<(), RuntimeError> {
    let image = runtime.add_image("image", ImageUser::Root);
    for n in 0..pods {
        let name = format!("pod-{n}");
        let key = |uid| PodKey::new("default", name.as_str(), uid);
        // As long as real ones, for the sake of memory.
        let uid = PodUid::new(format!("0e8a6a4e-7f3c-4c1e-9d5b-{n:012}"));
        let uid = uid.map_err(|error| RuntimeError::failed("populate", error.to_string()))?;
        let sandbox = sandbox_config(key(uid));
        let id = runtime.run_sandbox(&sandbox).await?;
        for container in 0..EACH {
            let config = container_config(&format!("container-{container}"), 0, image.clone());
            let id = runtime.create_container(&id, &config, &sandbox).await?;
            runtime.start_container(&id).await?;
        }
    }
    Ok(())
}
