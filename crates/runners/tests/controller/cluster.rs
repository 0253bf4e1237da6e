//! A cluster in memory: names are unique, finalizers hold, watches are late but in order, calls fail and lose their answers at
//! given rates. Its node starts Pods, and a runner in each that connects, takes a job and ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use minke_core::clock::Clock;
use minke_runners::controller::{
    ANNOTATION_CONFIGURATION, Cluster, ClusterError, FINALIZER, LABEL_BATCH, LABEL_SESSION, News, NewsStream, Notice,
    ReadSet,
};
use minke_runners::demand::SetKey;
use minke_runners::forge::lookalike::State;
use minke_runners::ids::RunnerId;
use minke_runners::set::{LABEL_SET, RunnerSet, RunnerSetStatus};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::random::Random;

/// The wall clock, which goes with tokio's.
#[derive(Debug)]
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Self::START + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// How often what goes wrong, in thousandths, and how things take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) call_fails: u64,
    pub(crate) answer_lost: u64,
    pub(crate) runner_fails: u64,
    /// News are up to so many milliseconds late.
    pub(crate) lag: u64,
    /// Jobs take so many milliseconds; some seconds up to a minute if not given.
    pub(crate) job: Option<(u64, u64)>,
}

type Watcher<K> = mpsc::UnboundedSender<(Instant, News<K>)>;

#[derive(Debug)]
struct Objects<K> {
    objects: BTreeMap<(String, String), K>,
    watchers: Vec<Watcher<K>>,
    last: Instant,
}

impl<K: Clone> Objects<K> {
    fn new() -> Self {
        Self { objects: BTreeMap::new(), watchers: Vec::new(), last: Instant::now() }
    }

    fn tell(&mut self, news: &News<K>, lag: Duration) {
        self.last = self.last.max(Instant::now() + lag);
        let last = self.last;
        self.watchers.retain(|watcher| watcher.send((last, news.clone())).is_ok());
    }
}

/// What is wrong when it happens.
#[derive(Debug)]
pub(crate) struct Inner {
    sets: Objects<Arc<RunnerSet>>,
    pods: Objects<Arc<Pod>>,
    claims: Objects<Arc<PersistentVolumeClaim>>,
    secrets: BTreeMap<(String, String), Secret>,
    pub(crate) statuses: BTreeMap<SetKey, RunnerSetStatus>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) writes: u64,
    pub(crate) made: u64,
    pub(crate) claims_made: u64,
    pub(crate) most_pods: usize,
    number: u64,
    random: Random,
    pub(crate) rates: Rates,
    pub(crate) violations: Vec<String>,
    /// Nothing runs on it any more.
    pub(crate) node_lost: bool,
    pub(crate) quota: Option<usize>,
    pub(crate) refuses_pods: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeCluster {
    inner: Arc<Mutex<Inner>>,
    pub(crate) forge: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn conflict<T>() -> Result<T, ClusterError> {
    Err(ClusterError::Conflict("test"))
}

fn failed<T>() -> Result<T, ClusterError> {
    Err(ClusterError::Failed { operation: "test", source: "a fault".into() })
}

fn watch<K: Send + 'static>(watcher: mpsc::UnboundedReceiver<(Instant, News<K>)>) -> NewsStream<K> {
    stream::unfold(watcher, |mut watcher| async {
        let (when, news) = watcher.recv().await?;
        sleep_until(when).await;
        Some((news, watcher))
    })
    .boxed()
}

impl FakeCluster {
    pub(crate) fn new(forge: Arc<Mutex<State>>, clock: Arc<dyn Clock>, seed: u64, rates: Rates) -> Self {
        let inner = Inner {
            sets: Objects::new(),
            pods: Objects::new(),
            claims: Objects::new(),
            secrets: BTreeMap::new(),
            statuses: BTreeMap::new(),
            notices: Vec::new(),
            writes: 0,
            made: 0,
            claims_made: 0,
            most_pods: 0,
            number: 0,
            random: Random::new(seed),
            rates,
            violations: Vec::new(),
            node_lost: false,
            quota: None,
            refuses_pods: false,
        };
        Self { inner: Arc::new(Mutex::new(inner)), forge, clock }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forge(&self) -> MutexGuard<'_, State> {
        self.forge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What people do.

    pub(crate) fn apply(&self, mut set: RunnerSet) {
        let mut inner = self.lock();
        let key = key(&set.metadata);
        let old = inner.sets.objects.get(&key).cloned();
        set.metadata.uid = old.as_ref().and_then(|old| old.metadata.uid.clone()).or(Some(format!("set-{}", key.1)));
        set.metadata.finalizers = old.as_ref().and_then(|old| old.metadata.finalizers.clone());
        inner.number += 1;
        set.metadata.resource_version = Some(inner.number.to_string());
        let set = Arc::new(set);
        inner.sets.objects.insert(key, Arc::clone(&set));
        inner.tell_set(&News::Applied(set));
    }

    pub(crate) fn delete_set(&self, namespace: &str, name: &str) {
        let now = self.clock.now();
        self.lock().change_set(&(namespace.to_owned(), name.to_owned()), |set| {
            set.metadata.deletion_timestamp.get_or_insert(Time(now));
        });
    }

    pub(crate) fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.lock().pods.objects.values().cloned().collect()
    }

    pub(crate) fn all_claims(&self) -> Vec<String> {
        self.lock().claims.objects.keys().map(|(_, name)| name.clone()).collect()
    }

    pub(crate) fn all_secrets(&self) -> usize {
        self.lock().secrets.len()
    }

    pub(crate) fn has_set(&self, name: &str) -> bool {
        self.lock().sets.objects.keys().any(|(_, known)| known == name)
    }

    /// Puts a Pod there as someone else would.
    pub(crate) fn plant(&self, mut pod: Pod) {
        let mut inner = self.lock();
        inner.number += 1;
        pod.metadata.uid = Some(format!("planted-{}", inner.number));
        inner.put_pod(pod);
    }

    /// As `kubectl delete pod`, or an eviction.
    pub(crate) fn delete_as_someone(&self, name: &str) {
        let found = self.all_pods().into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
        if let Some(pod) = found {
            self.begin_deletion(&pod, 30);
        }
    }

    fn begin_deletion(&self, pod: &Pod, grace: i64) {
        let end = Time(self.clock.now() + SignedDuration::from_secs(grace));
        let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let pod_key = key(&pod.metadata);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.lock().change_pod(&pod_key, &uid, |pod| {
            pod.metadata.deletion_timestamp.get_or_insert(end);
        });
        if !scheduled {
            self.end(&pod_key, &uid, None);
        }
    }

    // The node.

    /// What becomes of a Pod: as a kubelet would have it, and a runner in it.
    async fn live(self, pod_key: (String, String), uid: String) {
        let pause = |low, high| {
            let by = self.lock().random.between(low, high);
            sleep(Duration::from_millis(by))
        };
        pause(20, 1_000).await;
        self.lock().change_pod(&pod_key, &uid, |pod| {
            if let Some(spec) = &mut pod.spec {
                spec.node_name = Some("node".to_owned());
            }
        });
        pause(200, 4_000).await;
        let Some(configuration) = self.configuration(&pod_key) else {
            // Nothing is wrong with that if it is on its way out.
            if self.is_wanted(&pod_key, &uid) {
                self.lock().violations.push(format!("{}: its configuration is not there", pod_key.1));
            }
            while !self.gone(&pod_key, &uid) {
                pause(500, 1_000).await;
            }
            self.end(&pod_key, &uid, Some(1));
            return;
        };
        if self.gone(&pod_key, &uid) {
            return;
        }
        let now = self.clock.now();
        self.set_state(&pod_key, &uid, &json!({"running": {"startedAt": now.to_string()}}), "Running");
        pause(100, 3_000).await;
        let (fails, chance) = {
            let mut inner = self.lock();
            let rate = inner.rates.runner_fails;
            (inner.random.chance(rate), rate)
        };
        let connected = if fails && chance > 0 { None } else { self.forge().connect(&configuration) };
        let Some(id) = connected else {
            self.end(&pod_key, &uid, Some(1));
            return;
        };
        loop {
            if self.gone(&pod_key, &uid) {
                self.forge().lose(id);
                self.end(&pod_key, &uid, Some(143));
                return;
            }
            if self.lock().node_lost {
                self.forge().lose(id);
                return;
            }
            let now = self.clock.now();
            let (knows, job) = {
                let mut forge = self.forge();
                (forge.knows(id), forge.take_job(id, now))
            };
            if !knows {
                self.end(&pod_key, &uid, Some(1));
                return;
            }
            if job.is_some() {
                let (low, high) = self.lock().rates.job.unwrap_or((2_000, 60_000));
                pause(low, high).await;
                if self.lock().node_lost {
                    self.forge().lose(id);
                    return;
                }
                self.forge().finish(id);
                pause(10, 500).await;
                self.end(&pod_key, &uid, Some(0));
                return;
            }
            pause(200, 1_000).await;
        }
    }

    fn configuration(&self, pod_key: &(String, String)) -> Option<String> {
        let inner = self.lock();
        let pod = inner.pods.objects.get(pod_key)?;
        let env = pod.spec.as_ref()?.containers[0].env.as_ref()?;
        let source = env.iter().find_map(|variable| variable.value_from.as_ref()?.secret_key_ref.as_ref())?;
        let secret = inner.secrets.get(&(pod_key.0.clone(), source.name.clone()))?;
        let value = secret.data.as_ref()?.get(&source.key)?;
        Some(String::from_utf8(value.0.clone()).unwrap())
    }

    /// Its registration stands, and nobody has deleted it.
    fn is_wanted(&self, pod_key: &(String, String), uid: &str) -> bool {
        let pods = self.all_pods();
        let pod = pods.iter().find(|pod| key(&pod.metadata) == *pod_key && pod.metadata.uid.as_deref() == Some(uid));
        pod.is_some_and(|pod| {
            let id =
                pod.metadata.annotations.as_ref().and_then(|known| known.get("runners.minke.dev/id")?.parse().ok());
            pod.metadata.deletion_timestamp.is_none() && id.is_some_and(|id| self.forge().knows(RunnerId(id)))
        })
    }

    /// It was deleted, and its containers are to end.
    fn gone(&self, pod_key: &(String, String), uid: &str) -> bool {
        let inner = self.lock();
        let pod = inner.pods.objects.get(pod_key).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    fn set_state(&self, pod_key: &(String, String), uid: &str, state: &Value, phase: &str) {
        let status = json!({"phase": phase, "containerStatuses": [
            {"name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state},
        ]});
        let status = serde_json::from_value(status).unwrap();
        self.lock().change_pod(pod_key, uid, |pod| pod.status = Some(status));
    }

    fn end(&self, pod_key: &(String, String), uid: &str, code: Option<i32>) {
        if let Some(code) = code {
            let now = self.clock.now().to_string();
            let state = json!({"terminated": {"exitCode": code, "finishedAt": now}});
            self.set_state(pod_key, uid, &state, if code == 0 { "Succeeded" } else { "Failed" });
        }
        self.lock().change_pod(pod_key, uid, |pod| {
            pod.metadata.annotations.get_or_insert_default().insert("test/stopped".to_owned(), String::new());
        });
    }

    // The server's own doing.

    /// A call that may fail before or after it is done.
    async fn call<T>(&self, change: impl FnOnce(&mut Inner) -> Result<T, ClusterError>) -> Result<T, ClusterError> {
        let (fails, lost, before, after) = {
            let mut inner = self.lock();
            inner.writes += 1;
            let Rates { call_fails, answer_lost, .. } = inner.rates;
            let random = &mut inner.random;
            (random.chance(call_fails), random.chance(answer_lost), random.between(1, 50), random.between(1, 50))
        };
        sleep(Duration::from_millis(before)).await;
        if fails {
            return failed();
        }
        let done = change(&mut self.lock());
        sleep(Duration::from_millis(after)).await;
        if lost { failed() } else { done }
    }

    /// No Pod goes whose runner has a job.
    fn assert_not_busy(&self, pod_key: &(String, String), uid: &str, what: &str) {
        let pods = self.all_pods();
        let Some(pod) =
            pods.iter().find(|pod| key(&pod.metadata) == *pod_key && pod.metadata.uid.as_deref() == Some(uid))
        else {
            return;
        };
        let stopped = pod.metadata.annotations.as_ref().is_some_and(|known| known.contains_key("test/stopped"));
        let id = pod.metadata.annotations.as_ref().and_then(|known| known.get("runners.minke.dev/id")?.parse().ok());
        let busy = id.is_some_and(|id| self.forge().runners().iter().any(|r| r.id == RunnerId(id) && r.busy));
        if busy && !stopped && !self.lock().node_lost {
            self.lock().violations.push(format!("{} was {what} while it had a job", pod_key.1));
        }
    }
}

impl Inner {
    fn lag(&mut self) -> Duration {
        let most = self.rates.lag.max(5);
        Duration::from_millis(self.random.between(1, most))
    }

    fn tell_set(&mut self, news: &News<Arc<RunnerSet>>) {
        let lag = self.lag();
        self.sets.tell(news, lag);
    }

    fn change_set(&mut self, key: &(String, String), change: impl FnOnce(&mut RunnerSet)) {
        let Some(known) = self.sets.objects.get(key) else { return };
        let mut set = known.as_ref().clone();
        change(&mut set);
        self.number += 1;
        set.metadata.resource_version = Some(self.number.to_string());
        let free = set.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        let gone = set.metadata.deletion_timestamp.is_some() && free;
        let set = Arc::new(set);
        if gone {
            self.sets.objects.remove(key);
            self.tell_set(&News::Deleted(set));
        } else {
            self.sets.objects.insert(key.clone(), Arc::clone(&set));
            self.tell_set(&News::Applied(set));
        }
    }

    fn put_pod(&mut self, mut pod: Pod) {
        self.number += 1;
        pod.metadata.resource_version = Some(self.number.to_string());
        let (key, pod) = (key(&pod.metadata), Arc::new(pod));
        self.pods.objects.insert(key, Arc::clone(&pod));
        let lag = self.lag();
        self.pods.tell(&News::Applied(pod), lag);
    }

    fn change_pod(&mut self, key: &(String, String), uid: &str, change: impl FnOnce(&mut Pod)) {
        let Some(known) = self.pods.objects.get(key) else { return };
        if known.metadata.uid.as_deref() != Some(uid) {
            return;
        }
        let mut pod = known.as_ref().clone();
        change(&mut pod);
        let free = pod.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        let stopped = pod.metadata.annotations.as_ref().is_some_and(|known| known.contains_key("test/stopped"));
        if pod.metadata.deletion_timestamp.is_some() && free && stopped {
            self.pods.objects.remove(key);
            let lag = self.lag();
            self.pods.tell(&News::Deleted(Arc::new(pod)), lag);
        } else {
            self.put_pod(pod);
        }
    }
}

#[async_trait]
impl Cluster for FakeCluster {
    fn sets(&self) -> NewsStream<ReadSet> {
        let mut inner = self.lock();
        let (watcher, heard) = mpsc::unbounded_channel();
        let all = inner.sets.objects.values().cloned().collect();
        let _ = watcher.send((Instant::now(), News::Listed(all)));
        inner.sets.watchers.push(watcher);
        let read = |set: Arc<RunnerSet>| {
            let (namespace, name) = key(&set.metadata);
            ReadSet { key: SetKey { namespace, name }, set: Ok(set) }
        };
        watch(heard)
            .map(move |news| match news {
                News::Listed(all) => News::Listed(all.into_iter().map(read).collect()),
                News::Applied(set) => News::Applied(read(set)),
                News::Deleted(set) => News::Deleted(read(set)),
            })
            .boxed()
    }

    fn pods(&self) -> NewsStream<Arc<Pod>> {
        let mut inner = self.lock();
        let (watcher, heard) = mpsc::unbounded_channel();
        let _ = watcher.send((Instant::now(), News::Listed(inner.pods.objects.values().cloned().collect())));
        inner.pods.watchers.push(watcher);
        watch(heard)
    }

    fn claims(&self) -> NewsStream<Arc<PersistentVolumeClaim>> {
        let mut inner = self.lock();
        let (watcher, heard) = mpsc::unbounded_channel();
        let _ = watcher.send((Instant::now(), News::Listed(inner.claims.objects.values().cloned().collect())));
        inner.claims.watchers.push(watcher);
        watch(heard)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ClusterError> {
        Ok(self.lock().secrets.get(&(namespace.to_owned(), name.to_owned())).cloned())
    }

    async fn create_secret(&self, secret: &Secret) -> Result<(), ClusterError> {
        self.call(|inner| {
            let key = key(&secret.metadata);
            if inner.secrets.contains_key(&key) {
                return conflict();
            }
            inner.secrets.insert(key, secret.clone());
            Ok(())
        })
        .await
    }

    async fn delete_secret(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        self.call(|inner| {
            inner.secrets.remove(&(namespace.to_owned(), name.to_owned()));
            Ok(())
        })
        .await
    }

    async fn sweep_secrets(&self, set: &SetKey, keep: &[String], session: &str) -> Result<(), ClusterError> {
        self.call(|inner| {
            inner.secrets.retain(|(namespace, _), secret| {
                let labels = secret.metadata.labels.clone().unwrap_or_default();
                let own = *namespace == set.namespace && labels.get(LABEL_SET) == Some(&set.name);
                let this = labels.get(LABEL_SESSION).is_some_and(|made| made == session);
                !own || this || labels.get(LABEL_BATCH).is_none_or(|batch| keep.contains(batch))
            });
            Ok(())
        })
        .await
    }

    async fn create_pod(&self, pod: &Pod) -> Result<(), ClusterError> {
        let own = self.clone();
        let made = self.call(|inner| {
            let pod_key = key(&pod.metadata);
            if inner.refuses_pods {
                return Err(ClusterError::Refused { operation: "test", message: "invalid".to_owned() });
            }
            if inner.pods.objects.contains_key(&pod_key) {
                return conflict();
            }
            if inner.quota.is_some_and(|quota| inner.pods.objects.len() >= quota) {
                return Err(ClusterError::Quota { operation: "test", message: "exceeded quota".to_owned() });
            }
            if pod.metadata.finalizers.as_deref() != Some(&[FINALIZER.to_owned()]) {
                inner.violations.push(format!("{} has no finalizer", pod_key.1));
            }
            let secret = pod.metadata.annotations.as_ref().and_then(|known| known.get(ANNOTATION_CONFIGURATION));
            let there = secret.is_some_and(|name| inner.secrets.contains_key(&(pod_key.0.clone(), name.clone())));
            if !there {
                inner.violations.push(format!("{} is made before its configuration", pod_key.1));
            }
            inner.number += 1;
            inner.made += 1;
            let uid = format!("pod-{}", inner.number);
            let mut pod = pod.clone();
            pod.metadata.uid = Some(uid.clone());
            inner.put_pod(pod);
            let live = inner.pods.objects.values().filter(|pod| {
                !pod.metadata.annotations.as_ref().is_some_and(|known| known.contains_key("test/stopped"))
            });
            inner.most_pods = inner.most_pods.max(live.count());
            tokio::spawn(own.live(pod_key, uid));
            Ok(())
        });
        made.await
    }

    async fn patch_pod(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ClusterError> {
        let pod_key = (namespace.to_owned(), name.to_owned());
        let metadata = patch["metadata"].clone();
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let releases = metadata.get("$deleteFromPrimitiveList/finalizers").is_some();
        if releases {
            self.assert_not_busy(&pod_key, &uid, "released");
        }
        self.call(|inner| {
            let Some(pod) = inner.pods.objects.get(&pod_key) else { return Err(ClusterError::NotFound("test")) };
            if pod.metadata.uid.as_deref() != Some(&uid) {
                return conflict();
            }
            inner.change_pod(&pod_key, &uid, |pod| {
                merge(pod.metadata.labels.get_or_insert_default(), &metadata["labels"]);
                merge(pod.metadata.annotations.get_or_insert_default(), &metadata["annotations"]);
                if releases {
                    pod.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
                }
            });
            Ok(())
        })
        .await
    }

    async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<(), ClusterError> {
        let pod_key = (namespace.to_owned(), name.to_owned());
        self.assert_not_busy(&pod_key, uid, "deleted");
        let found = self.call(|inner| {
            let pod = inner.pods.objects.get(&pod_key).cloned();
            Ok(pod.filter(|pod| pod.metadata.uid.as_deref() == Some(uid)))
        });
        if let Some(pod) = found.await? {
            self.begin_deletion(&pod, 30);
            if grace == Some(Duration::ZERO) {
                self.end(&pod_key, uid, None);
            }
        }
        Ok(())
    }

    async fn create_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ClusterError> {
        self.call(|inner| {
            let claim_key = key(&claim.metadata);
            if inner.claims.objects.contains_key(&claim_key) {
                return conflict();
            }
            inner.number += 1;
            inner.claims_made += 1;
            let mut claim = claim.clone();
            claim.metadata.uid = Some(format!("claim-{}", inner.number));
            let claim = Arc::new(claim);
            inner.claims.objects.insert(claim_key, Arc::clone(&claim));
            let lag = inner.lag();
            inner.claims.tell(&News::Applied(claim), lag);
            Ok(())
        })
        .await
    }

    async fn delete_claim(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ClusterError> {
        self.call(|inner| {
            let claim_key = (namespace.to_owned(), name.to_owned());
            let used = inner.pods.objects.values().any(|pod| {
                let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
                let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
                pod.metadata.namespace.as_deref() == Some(namespace) && claims.any(|claim| claim.claim_name == name)
            });
            if used {
                inner.violations.push(format!("claim {name} was deleted below a runner"));
            }
            let known = inner.claims.objects.get(&claim_key);
            if known.is_some_and(|claim| claim.metadata.uid.as_deref() == Some(uid))
                && let Some(claim) = inner.claims.objects.remove(&claim_key)
            {
                let lag = inner.lag();
                inner.claims.tell(&News::Deleted(claim), lag);
            }
            Ok(())
        })
        .await
    }

    async fn patch_set(&self, set: &SetKey, patch: &Value) -> Result<(), ClusterError> {
        self.call(|inner| {
            let set_key = (set.namespace.clone(), set.name.clone());
            let Some(known) = inner.sets.objects.get(&set_key) else { return Err(ClusterError::NotFound("test")) };
            let version = patch["metadata"]["resourceVersion"].as_str();
            if version.is_some() && version != known.metadata.resource_version.as_deref() {
                return conflict();
            }
            let finalizers = serde_json::from_value(patch["metadata"]["finalizers"].clone()).unwrap();
            inner.change_set(&set_key, |set| set.metadata.finalizers = Some(finalizers));
            Ok(())
        })
        .await
    }

    async fn write_status(&self, set: &SetKey, status: &RunnerSetStatus) -> Result<(), ClusterError> {
        self.call(|inner| {
            inner.statuses.insert(set.clone(), status.clone());
            Ok(())
        })
        .await
    }

    async fn notice(&self, notice: &Notice) -> Result<(), ClusterError> {
        self.lock().notices.push(notice.clone());
        Ok(())
    }
}

fn merge(into: &mut BTreeMap<String, String>, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(text) => drop(into.insert(key.clone(), text.to_owned())),
            None => drop(into.remove(key)),
        }
    }
}
