//! Hears the sources, looks at what is here, and has done what the difference asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use minke_core::defaults::MANIFEST;
use minke_core::defaults::is_static;
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Report;
use super::diff::{Action, Known, Wanted, Wish, diff};
use super::files::Manifest;
use crate::moment::at;
use crate::{Admission, DesiredPod, Kubelet, PodChange, PodStage, StopRequest};

/// Before what could not be kept is tried again.
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Manager {
    kubelet: Kubelet,
    /// What each source says; `None` until it has been heard.
    sources: Vec<Option<BTreeMap<String, Manifest>>>,
    /// When each Pod that is wanted came, as a number that only grows.
    arrivals: HashMap<PodUid, u64>,
    arrived: u64,
    /// What people were told of.
    told: BTreeSet<String>,
}

impl Manager {
    pub(super) fn new(kubelet: Kubelet, sources: usize) -> Self {
        let sources = vec![None; sources];
        Self { kubelet, sources, arrivals: HashMap::new(), arrived: 0, told: BTreeSet::new() }
    }

    /// Goes on until dropped.
    pub(super) async fn run(mut self, mut reports: mpsc::Receiver<Report>) {
        let mut changes = self.kubelet.subscribe();
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                report = reports.recv() => {
                    let Some(Report { index, manifests }) = report else { return };
                    if let Some(source) = self.sources.get_mut(index) {
                        *source = Some(manifests);
                    }
                }
                change = changes.next() => match change {
                    // Only an end makes room for something else.
                    PodChange::Updated(report) if report.stage != PodStage::Finished => continue,
                    PodChange::Updated(_) | PodChange::Removed(_) => {}
                },
                () = at(retry) => {}
            }
            retry = self.reconcile().await.then(|| Instant::now() + RETRY);
        }
    }

    /// Does what is to be done; returns whether something has to be tried again.
    async fn reconcile(&mut self) -> bool {
        let wish = self.wish();
        let actions = diff(&wish, &self.known());
        let mut apply = Vec::new();
        for action in actions {
            match action {
                Action::Start(desired) | Action::Update(desired) => apply.push(desired),
                Action::Remove(uid) => {
                    tracing::info!(pod = %uid, "a static pod is wanted no more");
                    // Unknown: it is gone, which is what is wanted.
                    drop(self.kubelet.stop(&uid, StopRequest { grace: None, remove: true }));
                }
            }
        }
        if apply.is_empty() {
            return false;
        }
        let names: Vec<String> = apply.iter().map(|d| d.pod.metadata.name.clone().unwrap_or_default()).collect();
        let mut again = false;
        for (name, answer) in names.iter().zip(self.kubelet.apply(apply).await) {
            match answer {
                Admission::Accepted => tracing::info!(pod = name, "a static pod is started"),
                Admission::Updated => tracing::info!(pod = name, "a static pod is updated"),
                Admission::Unchanged => {}
                Admission::Rejected { reason, message } => {
                    tracing::error!(pod = name, reason, message, "a static pod is rejected");
                    // One that was rejected by admission is here and shows it; one that never came in comes again.
                    again |= ["AlreadyExists", "CheckpointFailed"].contains(&reason.as_str());
                }
            }
        }
        again
    }

    fn known(&self) -> Vec<Known> {
        let of = |handle: crate::worker::WorkerHandle| {
            let (desired, facts) = (handle.desired(), handle.facts());
            let annotation = desired.pod.metadata.annotations.as_ref().and_then(|a| a.get(MANIFEST)).cloned();
            let manifest = is_static(&desired.pod).then(|| annotation.unwrap_or_default());
            Known { key: handle.key, desired, manifest, stage: facts.stage, deleted: facts.deleted }
        };
        self.kubelet.workers().registry.all().into_iter().map(of).collect()
    }

    fn wish(&mut self) -> Wish {
        let manifests: Vec<(&String, &Manifest)> = self.sources.iter().flatten().flatten().collect();
        let mut objects = ObjectSet::default();
        let mut problems = BTreeSet::new();
        for (name, manifest) in &manifests {
            for taken in objects.add_missing(&manifest.objects) {
                problems.insert(format!("{name}: {taken} is in another manifest already; the first one counts"));
            }
        }
        let objects = Arc::new(objects);
        let held = manifests.iter().filter(|(_, m)| m.held).map(|(name, _)| (*name).clone()).collect();
        let (mut pods, mut uids) = (Vec::<Wanted>::new(), BTreeSet::new());
        for (name, manifest) in &manifests {
            for pod in &manifest.pods {
                if !uids.insert(pod.key.uid.clone()) {
                    problems.insert(format!("{name}: pod {} has the uid of another one and is left out", pod.key));
                    continue;
                }
                let desired = DesiredPod { pod: pod.desired.pod.clone(), objects: objects.clone() };
                pods.push(Wanted { desired, ..pod.clone() });
            }
        }
        self.arrivals.retain(|uid, _| uids.contains(uid));
        for pod in &pods {
            self.arrived += 1;
            self.arrivals.entry(pod.key.uid.clone()).or_insert(self.arrived);
        }
        pods.sort_by_key(|pod| self.arrivals.get(&pod.key.uid).copied().unwrap_or(u64::MAX));
        let mut names = BTreeSet::new();
        for pod in &pods {
            if !names.insert((pod.key.namespace.clone(), pod.key.name.clone())) {
                problems.insert(format!("pod {} waits: another manifest has its name already", pod.key));
            }
        }
        for problem in problems.difference(&self.told) {
            tracing::warn!("{problem}");
        }
        self.told = problems;
        Wish { pods, held, complete: self.sources.iter().all(Option::is_some) }
    }
}
