//! All sets: who is told what. One task a set does the rest.

mod asking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::interval;

use super::book::Book;
use super::cluster::{Cluster, News, ReadSet};
use super::facts::facts;
use super::forges::Forges;
use super::groups::{GroupKey, Groups};
use super::messages::Heard;
use super::metrics::Metrics;
use super::objects::{FINALIZER, release_patch};
use super::perform::Performer;
use super::task::SetTask;
use crate::demand::{Access, Labels, Reach, Router, Serves, SetKey, Told};
use crate::engine::ForgeRunner;
use crate::forge::{ForgeError, ListedJob};
use crate::set::{self, LABEL_SET, RunnerSet, RunnerSetStatus};
use crate::webhook::JobNews;

/// Calls to the cluster at a time.
const PLACES: usize = 64;
/// How often Pods of sets that are no more are looked at.
const STRAYS: Duration = Duration::from_secs(30);

/// What a controller works with.
#[derive(Debug, Clone)]
pub struct Controller {
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The forges.
    pub forges: Arc<dyn Forges>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where is counted.
    pub metrics: Metrics,
    /// How often the forge's jobs are listed, repository by repository: what webhooks lose is found so late.
    pub poll: Duration,
}

struct Kept {
    set: Arc<RunnerSet>,
    inbox: mpsc::UnboundedSender<Heard>,
    task: AbortHandle,
}

/// What own tasks of the loop bring back.
enum Brought {
    Runners { scope: String, began: Timestamp, runners: Result<Vec<ForgeRunner>, ForgeError> },
    Jobs { source: String, began: Timestamp, jobs: Result<Vec<ListedJob>, ForgeError> },
    Access { group: GroupKey, access: Result<Access, ForgeError> },
    Strays,
}

struct Loop {
    with: Controller,
    router: Router,
    sets: BTreeMap<SetKey, Kept>,
    /// What was last said of sets that can't be.
    invalid: BTreeMap<SetKey, String>,
    pods: BTreeMap<SetKey, BTreeMap<String, Arc<Pod>>>,
    claims: BTreeMap<SetKey, BTreeMap<String, Arc<PersistentVolumeClaim>>>,
    groups: Groups,
    synced: (bool, bool, bool),
    waiting: Vec<ReadSet>,
    /// The scopes whose runners are being listed, and the repositories whose jobs are.
    listing: BTreeSet<String>,
    polling: BTreeSet<String>,
    tasks: JoinSet<()>,
    side: JoinSet<Brought>,
    lists: mpsc::UnboundedSender<SetKey>,
    places: Arc<Semaphore>,
}

impl Controller {
    /// Keeps all sets until it is dropped. `jobs` are what a webhook receiver hears; `known` what one heard before this began.
    pub async fn run(self, known: Vec<(JobNews, Timestamp)>, mut jobs: mpsc::Receiver<JobNews>) {
        let (mut sets, mut pods, mut claims) = (self.cluster.sets(), self.cluster.pods(), self.cluster.claims());
        let (lists, mut asked) = mpsc::unbounded_channel();
        let (mut poll, mut strays) = (interval(self.poll), interval(STRAYS));
        let mut keeper = Loop {
            router: Router::default(),
            sets: BTreeMap::new(),
            invalid: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            groups: Groups::default(),
            synced: (false, false, false),
            waiting: Vec::new(),
            listing: BTreeSet::new(),
            polling: BTreeSet::new(),
            tasks: JoinSet::new(),
            side: JoinSet::new(),
            lists,
            places: Arc::new(Semaphore::new(PLACES)),
            with: self,
        };
        for (news, at) in known {
            let told = keeper.router.heard(&news.event, &news.labels, at);
            keeper.tell(told);
        }
        loop {
            tokio::select! {
                Some(news) = sets.next() => keeper.sets(news),
                Some(news) = pods.next() => keeper.pods(news),
                Some(news) = claims.next() => keeper.claims(news),
                Some(news) = jobs.recv() => keeper.job(&news),
                Some(key) = asked.recv() => keeper.list(&key),
                Some(Ok(brought)) = keeper.side.join_next() => keeper.brought(brought),
                Some(_) = keeper.tasks.join_next() => {}
                _ = poll.tick() => keeper.poll(),
                _ = strays.tick() => keeper.strays(),
            }
        }
    }
}

impl Loop {
    fn now(&self) -> Timestamp {
        self.with.clock.now()
    }

    fn is_synced(&self) -> bool {
        self.synced == (true, true, true)
    }

    // Sets.

    fn sets(&mut self, news: News<ReadSet>) {
        match news {
            News::Listed(all) => {
                let there: BTreeSet<&SetKey> = all.iter().map(|read| &read.key).collect();
                let known = self.sets.keys().chain(self.invalid.keys());
                let gone: Vec<SetKey> = known.filter(|key| !there.contains(key)).cloned().collect();
                for key in gone {
                    self.set_gone(&key);
                }
                self.synced.0 = true;
                self.waiting.extend(all);
            }
            News::Applied(read) => self.waiting.push(read),
            News::Deleted(read) => {
                self.waiting.retain(|waiting| waiting.key != read.key);
                self.set_gone(&read.key);
            }
        }
        self.serve();
    }

    /// Sets begin when all Pods are known: one that begins with half of them would make the others again.
    fn serve(&mut self) {
        if self.is_synced() {
            for read in std::mem::take(&mut self.waiting) {
                self.set(read);
            }
        }
    }

    fn set(&mut self, ReadSet { key, set }: ReadSet) {
        let set = match set {
            Ok(set) => set,
            Err(problem) => {
                let problem = format!("the set can't be read: {problem}");
                self.refuse(key, None, problem);
                return;
            }
        };
        if let Some(reach) = Reach::of(&set.spec.github)
            && set.metadata.deletion_timestamp.is_none()
            && set::settings(&set).is_ok()
            && !self.sets.get(&key).is_some_and(|kept| set::moves(&kept.set, &set))
        {
            self.invalid.remove(&key);
            let labels: Labels = set.spec.labels.iter().collect();
            let group = GroupKey::of(&key, &set);
            let access = group.map(|group| self.groups.access(&group)).unwrap_or_default();
            let told = self.router.set(&key, Serves { reach, labels, access });
            self.keep(key, set, true);
            self.tell(told);
            self.ask_groups();
            return;
        }
        if set.metadata.deletion_timestamp.is_some() {
            let told = self.router.set_gone(&key);
            self.tell(told);
        }
        self.keep(key, set, false);
    }

    fn keep(&mut self, key: SetKey, set: Arc<RunnerSet>, valid: bool) {
        if let Some(kept) = self.sets.get_mut(&key) {
            // The same name may be another set: what is known of the old one's runners holds for its Pods all the same.
            // What is asked of the forge is asked as the last valid spec has it.
            if valid {
                kept.set = Arc::clone(&set);
            }
            let _ = kept.inbox.send(Heard::Set(set));
            return;
        }
        let book = match Book::new(Arc::clone(&set)) {
            Ok(book) => book,
            Err(problems) => {
                self.refuse(key, Some(set), problems);
                return;
            }
        };
        let (inbox, heard) = mpsc::unbounded_channel();
        let performer = Performer {
            key: key.clone(),
            cluster: Arc::clone(&self.with.cluster),
            forges: Arc::clone(&self.with.forges),
            metrics: self.with.metrics.clone(),
            places: Arc::clone(&self.places),
            answers: inbox.clone(),
        };
        let clock = Arc::clone(&self.with.clock);
        let task = SetTask { book, performer, heard, clock, lists: self.lists.clone() };
        let pods = self.pods.get(&key).map(|pods| pods.values().cloned().collect());
        let claims = self.claims.get(&key).map(|claims| claims.values().cloned().collect());
        let _ = inbox.send(Heard::Claims(claims.unwrap_or_default()));
        let _ = inbox.send(Heard::Pods(pods.unwrap_or_default()));
        let task = self.tasks.spawn(task.run());
        self.sets.insert(key, Kept { set, inbox, task });
        self.poll();
    }

    /// A set that can't be: its status says why, once.
    fn refuse(&mut self, key: SetKey, set: Option<Arc<RunnerSet>>, problems: String) {
        if self.invalid.get(&key) == Some(&problems) {
            return;
        }
        tracing::warn!(set = %key, problems, "the set is invalid");
        let set = set.or_else(|| self.sets.get(&key).map(|kept| Arc::clone(&kept.set)));
        let now = self.now();
        let status = match set {
            Some(set) => set::invalid_status(&set, None, &problems, now),
            None => set::unreadable_status(&problems, now),
        };
        self.invalid.insert(key.clone(), problems);
        self.write_status(key, status);
    }

    fn write_status(&mut self, key: SetKey, status: RunnerSetStatus) {
        let cluster = Arc::clone(&self.with.cluster);
        self.tasks.spawn(async move {
            if let Err(error) = cluster.write_status(&key, &status).await {
                tracing::warn!(set = %key, error = error_chain(&error), "the status can't be written");
            }
        });
    }

    fn set_gone(&mut self, key: &SetKey) {
        self.invalid.remove(key);
        if let Some(kept) = self.sets.remove(key) {
            kept.task.abort();
            self.with.metrics.forget(key);
        }
        let told = self.router.set_gone(key);
        self.tell(told);
        self.strays();
    }

    // Pods and claims.

    fn pods(&mut self, news: News<Arc<Pod>>) {
        match news {
            News::Listed(all) => {
                self.pods.clear();
                for pod in all {
                    if let Some((key, name)) = place(&pod.metadata) {
                        self.pods.entry(key).or_default().insert(name, pod);
                    }
                }
                for (key, kept) in &self.sets {
                    let pods = self.pods.get(key).map(|pods| pods.values().cloned().collect());
                    let _ = kept.inbox.send(Heard::Pods(pods.unwrap_or_default()));
                }
                self.synced.1 = true;
                self.serve();
            }
            News::Applied(pod) => {
                let Some((key, name)) = place(&pod.metadata) else { return };
                if let Some(kept) = self.sets.get(&key) {
                    let _ = kept.inbox.send(Heard::Pod(Arc::clone(&pod)));
                }
                self.pods.entry(key).or_default().insert(name, pod);
            }
            News::Deleted(pod) => {
                let Some((key, name)) = place(&pod.metadata) else { return };
                if let Some(kept) = self.sets.get(&key) {
                    let _ = kept.inbox.send(Heard::PodGone(pod));
                }
                if let Some(pods) = self.pods.get_mut(&key) {
                    pods.remove(&name);
                    if pods.is_empty() {
                        self.pods.remove(&key);
                    }
                }
            }
        }
    }

    fn claims(&mut self, news: News<Arc<PersistentVolumeClaim>>) {
        match news {
            News::Listed(all) => {
                self.claims.clear();
                for claim in all {
                    if let Some((key, name)) = place(&claim.metadata) {
                        self.claims.entry(key).or_default().insert(name, claim);
                    }
                }
                for (key, kept) in &self.sets {
                    let claims = self.claims.get(key).map(|claims| claims.values().cloned().collect());
                    let _ = kept.inbox.send(Heard::Claims(claims.unwrap_or_default()));
                }
                self.synced.2 = true;
                self.serve();
            }
            News::Applied(claim) => {
                let Some((key, name)) = place(&claim.metadata) else { return };
                if let Some(kept) = self.sets.get(&key) {
                    let _ = kept.inbox.send(Heard::Claim(Arc::clone(&claim)));
                }
                self.claims.entry(key).or_default().insert(name, claim);
            }
            News::Deleted(claim) => {
                let Some((key, name)) = place(&claim.metadata) else { return };
                if let Some(kept) = self.sets.get(&key) {
                    let _ = kept.inbox.send(Heard::ClaimGone(claim));
                }
                if let Some(claims) = self.claims.get_mut(&key) {
                    claims.remove(&name);
                }
            }
        }
    }

    /// Pods whose set is no more: our finalizer would hold them for ever. One that still runs is left to end.
    fn strays(&mut self) {
        if !self.is_synced() || self.side.len() > PLACES {
            return;
        }
        let now = self.now();
        let known = |key: &SetKey| self.sets.contains_key(key) || self.invalid.contains_key(key);
        let strays = self.pods.iter().filter(|(key, _)| !known(key)).flat_map(|(_, pods)| pods.values());
        let strays: Vec<Arc<Pod>> = strays.cloned().collect();
        self.with.metrics.stray(strays.len());
        for pod in strays {
            let Some(facts) = facts(&pod, now).filter(|facts| facts.ended.is_some() || facts.deleting_since.is_some())
            else {
                continue;
            };
            let cluster = Arc::clone(&self.with.cluster);
            self.side.spawn(async move {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                if let (Some(namespace), Some(name)) = (namespace, name) {
                    let held = pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
                    if held {
                        let _ = cluster.patch_pod(namespace, name, &release_patch(&facts.uid)).await;
                    }
                    if facts.deleting_since.is_none() {
                        let _ = cluster.delete_pod(namespace, name, &facts.uid, None).await;
                    }
                }
                Brought::Strays
            });
        }
    }

    // Jobs.

    fn job(&mut self, news: &JobNews) {
        let now = self.now();
        let told = self.router.heard(&news.event, &news.labels, now);
        self.tell(told);
        self.count_jobs();
    }

    fn count_jobs(&mut self) {
        for wait in self.router.take_waits() {
            self.with.metrics.waited(wait);
        }
        self.with.metrics.nobodys(self.router.unserved(), self.router.foreign());
    }

    fn tell(&self, told: Vec<(SetKey, Told)>) {
        for (key, told) in told {
            if let Some(kept) = self.sets.get(&key) {
                let _ = kept.inbox.send(Heard::Told(told));
            }
        }
    }
}

/// The set that an object is of, by its label, and its name.
fn place(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<(SetKey, String)> {
    let set = metadata.labels.as_ref()?.get(LABEL_SET)?.clone();
    Some((SetKey { namespace: metadata.namespace.clone()?, name: set }, metadata.name.clone()?))
}
