//! From the end of a container to its status.
//!
//! The whole kubelet core over the embedded runtime, in this process. Every container waits for a line on a named pipe
//! of its own; the time runs from just before that line is written until a subscriber of the kubelet sees the container
//! terminated, so the shell's own way to its exit is in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use minke_core::clock::{Clock, SystemClock};
use minke_core::manifest::{Input, Validate, parse};
use minke_core::runtime::Runtime;
use minke_kubelet::eviction::EvictionConfig;
use minke_kubelet::timeline::{Step, Transition};
use minke_kubelet::{DesiredPod, Kubelet, KubeletConfig, PodChange, PodReport, RelistMode, StopRequest, Subscription};
use minke_oci::image::ImportSource;
use minke_oci::{EmbeddedConfig, EmbeddedRuntime};
use minke_testkit::TempState;
use tokio::time::{Instant, timeout};

use crate::failure::Failure;
use crate::instance::{IMAGE, write_image};
use crate::report::{Peer, Row};
use crate::sample::Sample;

/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(300);

/// Single exits by events beside polling, then many at once.
pub(crate) fn measure(runs: usize, many: usize) -> Result<Vec<Row>, Failure> {
    let runtime = crate::pods::runtime()?;
    let none = || Failure::Unexpected("no exit was seen".to_owned());
    let single = |mode, count| -> Result<Sample, Failure> {
        let times = runtime.block_on(async {
            let bed = Bed::start(mode).await?;
            let times = bed.one_by_one(count).await;
            bed.clean_up().await?;
            times
        })?;
        Sample::of_times(&times).ok_or_else(none)
    };
    let polled = single(RelistMode::Generic, (runs * 3).max(5))?;
    let row = |what: &str, ours, aim| {
        let peer = Peer::Measured { name: "polling each second".to_owned(), sample: polled.clone() };
        Row { what: format!("container exit → status, {what}"), ours, peer, aim }
    };
    let mut rows = vec![
        row("evented", single(RelistMode::Evented, runs * 20)?, "p99 ≤ 5 ms"),
        row("events, relist each second", single(RelistMode::Hinted, runs * 20)?, ""),
    ];
    if many > 0 {
        let at_once = |mode| -> Result<Sample, Failure> {
            let taken = runtime.block_on(async {
                let bed = Bed::start(mode).await?;
                let taken = bed.all_at_once(many).await;
                bed.clean_up().await?;
                taken
            })?;
            Sample::of_times(&[taken]).ok_or_else(none)
        };
        let ours = at_once(RelistMode::Evented)?;
        let peer = Peer::Measured { name: "polling each second".to_owned(), sample: at_once(RelistMode::Generic)? };
        rows.push(Row { what: format!("{many} containers exit at once → all statuses right"), ours, peer, aim: "" });
    }
    Ok(rows)
}

/// A kubelet with its runtime and directories.
pub(crate) struct Bed {
    place: TempState,
    kubelet: Kubelet,
}

/// A container that waits to be told to exit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    pub(crate) pod: String,
    pub(crate) container: String,
}

impl Waiting {
    fn pipe(&self, flags: &Path) -> PathBuf {
        flags.join(format!("{}.{}", self.pod, self.container))
    }
}

impl Bed {
    async fn start(mode: RelistMode) -> Result<Self, Failure> {
        let place = TempState::new().map_err(Failure::file("making", Path::new("a state directory")))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let runtime = EmbeddedRuntime::open(EmbeddedConfig::new(place.state(), place.run()), clock.clone()).await;
        let runtime = runtime.map_err(Failure::runtime("can't open the embedded runtime"))?;
        let archive = place.root().join("image.tar");
        write_image(&archive)?;
        let imported = runtime.images().import(ImportSource::Path(archive), &[]).await;
        imported.map_err(Failure::runtime("can't import the image"))?;
        Self::over(place, Arc::new(runtime), mode, &format!("/minke-bench-{}", std::process::id())).await
    }

    /// A kubelet over a runtime that has the image.
    pub(crate) async fn over(
        place: TempState,
        runtime: Arc<dyn Runtime>,
        mode: RelistMode,
        cgroup: &str,
    ) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let flags = place.root().join("flags");
        std::fs::create_dir(&flags).map_err(Failure::file("making", &flags))?;
        let eviction = EvictionConfig { thresholds: Vec::new(), ..EvictionConfig::default() };
        let config = KubeletConfig {
            eviction,
            relist_mode: mode,
            cgroup_root: cgroup.to_owned(),
            max_pods: 2_000,
            ..KubeletConfig::new("bench", place.state(), place.logs())
        };
        let kubelet = Kubelet::start(config, runtime, clock).await;
        Ok(Self { kubelet: kubelet.map_err(Failure::runtime("can't start the kubelet core"))?, place })
    }

    fn flags(&self) -> PathBuf {
        self.place.root().join("flags")
    }

    /// Starts Pods of so many containers each and waits until all run.
    pub(crate) async fn run(&self, pods: usize, containers: usize) -> Result<Vec<Waiting>, Failure> {
        let all: Vec<Waiting> = (0..pods)
            .flat_map(|p| (0..containers).map(move |c| Waiting { pod: format!("p{p}"), container: format!("c{c}") }))
            .collect();
        for one in &all {
            let path = one.pipe(&self.flags());
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0)
                .map_err(|e| Failure::file("making", &path)(e.into()))?;
        }
        let input = Input { name: "bench".into(), bytes: manifest(&all, &self.flags()).into_bytes() };
        let manifests = parse(&[input], Validate::Strict).map_err(Failure::runtime("a generated manifest is wrong"))?;
        let desired =
            manifests.pods().map(|pod| DesiredPod { pod: pod.clone(), objects: manifests.objects.clone() }).collect();
        let mut changes = self.kubelet.subscribe();
        self.kubelet.apply(desired).await;
        let mut left: BTreeMap<String, ()> = (0..pods).map(|p| (format!("p{p}"), ())).collect();
        while !left.is_empty() {
            let report = next(&mut changes).await?;
            let running = statuses(&report).filter(|s| s.state.as_ref().is_some_and(|s| s.running.is_some())).count();
            if running == containers {
                left.remove(report.pod.metadata.name.as_deref().unwrap_or_default());
            }
        }
        Ok(all)
    }

    async fn one_by_one(&self, count: usize) -> Result<Vec<Duration>, Failure> {
        const CONTAINERS: usize = 5;
        let waiting = self.run(count.div_ceil(CONTAINERS), CONTAINERS).await?;
        let mut changes = self.kubelet.subscribe();
        let mut times = Vec::new();
        for (n, one) in waiting.iter().take(count).enumerate() {
            // At another moment of the relist period each time.
            tokio::time::sleep(Duration::from_millis(u64::try_from(n * 37 % 100).unwrap_or(0))).await;
            while changes.try_next().is_some() {}
            let begun = Instant::now();
            self.release(one)?;
            loop {
                let report = next(&mut changes).await?;
                let mine = report.pod.metadata.name.as_deref() == Some(&one.pod);
                if mine && statuses(&report).any(|s| s.name == one.container && ended_with(s) == Some(3)) {
                    break;
                }
            }
            times.push(begun.elapsed());
        }
        Ok(times)
    }

    async fn all_at_once(&self, count: usize) -> Result<Duration, Failure> {
        const CONTAINERS: usize = 10;
        let waiting = self.run(count.div_ceil(CONTAINERS), CONTAINERS).await?;
        let mut changes = self.kubelet.subscribe();
        while changes.try_next().is_some() {}
        let begun = Instant::now();
        for one in &waiting {
            self.release(one)?;
        }
        let mut left: std::collections::BTreeSet<Waiting> = waiting.into_iter().collect();
        while !left.is_empty() {
            let report = next(&mut changes).await?;
            let pod = report.pod.metadata.name.clone().unwrap_or_default();
            for status in statuses(&report).filter(|s| ended_with(s) == Some(3)) {
                left.remove(&Waiting { pod: pod.clone(), container: status.name.clone() });
            }
        }
        Ok(begun.elapsed())
    }

    /// What is reported from now on.
    pub(crate) fn subscribe(&self) -> Subscription {
        self.kubelet.subscribe()
    }

    /// The runtime's id of a container that runs.
    pub(crate) fn id(&self, one: &Waiting) -> Option<String> {
        let reports = self.kubelet.reports();
        let report = reports.iter().find(|report| report.pod.metadata.name.as_deref() == Some(&one.pod))?;
        let id = statuses(report).find(|status| status.name == one.container)?.container_id.clone()?;
        Some(id.split_once("://").map_or(id.clone(), |(_, id)| id.to_owned()))
    }

    /// How long a Pod of one container took from its admission until it was told to run, without the steps that are
    /// calls of the runtime.
    pub(crate) fn own_part(&self) -> Option<Duration> {
        let timelines = self.kubelet.timelines(None);
        let entries = &timelines.pods.first()?.entries;
        let at = |wanted: &Transition| entries.iter().find(|e| e.transition == *wanted).map(|e| e.at);
        let whole = at(&Transition::Phase { phase: "Running".to_owned() })? - at(&Transition::Admitted)?;
        let steps = [Step::Sandbox, Step::Create, Step::Start]
            .map(|step| Some(at(&Transition::Done { step })? - at(&Transition::Began { step })?));
        let calls: i64 = steps.into_iter().sum::<Option<i64>>()?;
        u64::try_from(whole - calls).ok().map(Duration::from_micros)
    }

    /// Lets a container exit. It runs, so its shell has the pipe open or is about to.
    pub(crate) fn release(&self, one: &Waiting) -> Result<(), Failure> {
        let path = one.pipe(&self.flags());
        std::fs::write(&path, "go\n").map_err(Failure::file("writing", &path))
    }

    /// Removes all Pods, and waits until they are gone.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        let mut changes = self.kubelet.subscribe();
        for report in self.kubelet.reports() {
            let uid = report.pod.metadata.uid.as_deref().and_then(|uid| minke_core::identity::PodUid::new(uid).ok());
            if let Some(uid) = uid {
                // Only a Pod that is gone is unknown.
                let _ = self.kubelet.stop(&uid, StopRequest { grace: Some(Duration::ZERO), remove: true });
            }
        }
        let gone = async {
            while !self.kubelet.reports().is_empty() {
                changes.next().await;
            }
        };
        let stuck = |_| Failure::Unexpected("pods could not be removed".to_owned());
        timeout(PATIENCE, gone).await.map_err(stuck)?;
        let pipes = std::fs::read_dir(self.flags()).into_iter().flatten().flatten();
        pipes.for_each(|pipe| drop(std::fs::remove_file(pipe.path())));
        Ok(())
    }

    pub(crate) async fn clean_up(self) -> Result<(), Failure> {
        self.clear().await?;
        self.kubelet.shutdown().await;
        Ok(())
    }
}

pub(crate) async fn next(changes: &mut Subscription) -> Result<PodReport, Failure> {
    let late = |_| Failure::Unexpected(format!("no change of any pod for {} s", PATIENCE.as_secs()));
    loop {
        match timeout(PATIENCE, changes.next()).await.map_err(late)? {
            PodChange::Updated(report) => return Ok(report),
            PodChange::Removed(_) => {}
        }
    }
}

pub(crate) fn statuses(report: &PodReport) -> impl Iterator<Item = &k8s_openapi::api::core::v1::ContainerStatus> {
    report.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten())
}

pub(crate) fn ended_with(status: &k8s_openapi::api::core::v1::ContainerStatus) -> Option<i32> {
    status.state.as_ref()?.terminated.as_ref().map(|t| t.exit_code)
}

fn manifest(all: &[Waiting], flags: &Path) -> String {
    let mut pods: BTreeMap<&str, Vec<&Waiting>> = BTreeMap::new();
    for one in all {
        pods.entry(&one.pod).or_default().push(one);
    }
    let mut text = String::new();
    for (pod, containers) in pods {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}}}\nspec:\n  hostNetwork: true\n  restartPolicy: Never\n  \
             terminationGracePeriodSeconds: 0\n  volumes:\n  - name: flags\n    hostPath: {{path: {}}}\n  containers:\n",
            flags.display()
        );
        for one in containers {
            let _ = write!(
                text,
                "  - name: {name}\n    image: {IMAGE}\n    imagePullPolicy: Never\n    \
                 command: [/bin/sh, -c, \"read line < /flags/{pod}.{name}; exit 3\"]\n    \
                 volumeMounts: [{{name: flags, mountPath: /flags}}]\n",
                name = one.container
            );
        }
    }
    text
}
