//! A Kubernetes API in memory, with faults: what the controller has to live with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minke_core::clock::Clock;
use minke_core::fake::{FakeClock, SplitMix};
use minke_core::identity::PodKey;
use minke_node::api::{ApiError, ObjectStream, PodApi, PodList, Record, WatchEvent, WatchStream};
use minke_node::references::{Known, ObjectRef};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often, of a thousand calls, what goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) fails: u32,
    pub(crate) fails_after: u32,
    pub(crate) conflicts: u32,
    pub(crate) too_many: u32,
    pub(crate) slow: u32,
}

#[derive(Debug)]
struct State {
    pods: BTreeMap<(String, String), Pod>,
    version: u64,
    /// Changes since the history was last forgotten.
    log: Vec<(u64, WatchEvent)>,
    oldest: u64,
    watchers: Vec<UnboundedSender<Result<WatchEvent, ApiError>>>,
    objects: BTreeMap<ObjectRef, Known>,
    followers: Vec<(ObjectRef, UnboundedSender<Known>)>,
    random: SplitMix,
    rates: Rates,
    writes: u64,
    reasons: Vec<String>,
    uids: u64,
}

/// Clones are the same API.
#[derive(Debug, Clone)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    clock: FakeClock,
}

/// The Pods at one time.
#[derive(Debug)]
pub(crate) struct Backup {
    pods: BTreeMap<(String, String), Pod>,
    version: u64,
}

enum Fault {
    None,
    After,
}

impl FakeApi {
    pub(crate) fn new(seed: u64, clock: FakeClock) -> Self {
        let state = State {
            pods: BTreeMap::new(),
            version: 1,
            log: Vec::new(),
            oldest: 1,
            watchers: Vec::new(),
            objects: BTreeMap::new(),
            followers: Vec::new(),
            random: SplitMix::new(seed),
            rates: Rates::default(),
            writes: 0,
            reasons: Vec::new(),
            uids: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), clock }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    pub(crate) fn writes(&self) -> u64 {
        self.state().writes
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        self.state().reasons.clone()
    }

    pub(crate) fn pods(&self) -> Vec<Pod> {
        self.state().pods.values().cloned().collect()
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Pod> {
        self.state().pods.get(&("ns".to_owned(), name.to_owned())).cloned()
    }

    /// Someone creates a Pod that is bound to the node; a name that is taken is left alone.
    pub(crate) fn create(&self, name: &str, spec: &Value) {
        let mut state = self.state();
        if state.pods.contains_key(&("ns".to_owned(), name.to_owned())) {
            return;
        }
        state.uids += 1;
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-{}", state.uids)},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        state.put(serde_json::from_value(pod).unwrap());
    }

    /// Someone changes a Pod.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Pod)) {
        let mut state = self.state();
        if let Some(mut pod) = state.pods.get(&("ns".to_owned(), name.to_owned())).cloned() {
            edit(&mut pod);
            state.put(pod);
        }
    }

    /// Someone deletes a Pod.
    pub(crate) fn delete_pod(&self, name: &str, grace: Duration) {
        let clock = self.clock.clone();
        let mut state = self.state();
        if let Some(pod) = state.pods.get(&("ns".to_owned(), name.to_owned())).cloned() {
            state.mark(pod, grace, &clock);
        }
    }

    pub(crate) fn set_object(&self, object: &ObjectRef, known: Known) {
        let mut state = self.state();
        state.followers.retain(|(followed, out)| followed != object || out.send(known.clone()).is_ok());
        state.objects.insert(object.clone(), known);
    }

    /// All watches end; those whose history is forgotten can't go on.
    pub(crate) fn lose_watches(&self, forget: bool) {
        let mut state = self.state();
        state.watchers.clear();
        if forget {
            state.log.clear();
            state.oldest = state.version;
        }
    }

    /// What a backup has of the Pods.
    pub(crate) fn backup(&self) -> Backup {
        let state = self.state();
        Backup { pods: state.pods.clone(), version: state.version }
    }

    /// It is as it was at the backup; versions that were given out since mean nothing any more.
    pub(crate) fn restore(&self, backup: Backup) {
        self.lose_watches(true);
        let mut state = self.state();
        (state.pods, state.version) = (backup.pods, backup.version);
        state.oldest = backup.version;
    }

    async fn fault(&self, operation: &'static str) -> Result<Fault, ApiError> {
        let (delay, result) = {
            let mut state = self.state();
            let (rates, random) = (state.rates, &mut state.random);
            let delay = random.chance(rates.slow).then(|| Duration::from_millis(random.below(5000)));
            let source = || "scripted failure".into();
            let result = if random.chance(rates.fails) {
                Err(ApiError::Failed { operation, source: source() })
            } else if random.chance(rates.too_many) {
                Err(ApiError::TooMany { operation, after: Duration::from_secs(1) })
            } else if random.chance(rates.conflicts) {
                Err(ApiError::Conflict(operation))
            } else if random.chance(rates.fails_after) {
                Ok(Fault::After)
            } else {
                Ok(Fault::None)
            };
            (delay, result)
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        result
    }
}

fn after<T>(fault: &Fault, operation: &'static str, value: T) -> Result<T, ApiError> {
    match fault {
        Fault::None => Ok(value),
        Fault::After => Err(ApiError::Failed { operation, source: "scripted loss of the answer".into() }),
    }
}

impl State {
    fn tell(&mut self, event: &WatchEvent) {
        self.log.push((self.version, event.clone()));
        self.watchers.retain(|watcher| watcher.send(Ok(event.clone())).is_ok());
    }

    fn put(&mut self, mut pod: Pod) -> Arc<Pod> {
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        let (namespace, name) = (pod.metadata.namespace.clone().unwrap(), pod.metadata.name.clone().unwrap());
        self.pods.insert((namespace, name), pod.clone());
        let pod = Arc::new(pod);
        self.tell(&WatchEvent::Applied(pod.clone()));
        pod
    }

    fn mark(&mut self, mut pod: Pod, grace: Duration, clock: &FakeClock) {
        if grace.is_zero() {
            let key = PodKey::of(&pod).unwrap();
            self.pods.remove(&(key.namespace.to_string(), key.name.to_string()));
            self.version += 1;
            let version = self.version.to_string();
            self.tell(&WatchEvent::Deleted { key, version });
            return;
        }
        let deadline = clock.now() + SignedDuration::try_from(grace).unwrap();
        if pod.metadata.deletion_timestamp.as_ref().is_none_or(|before| before.0 > deadline) {
            pod.metadata.deletion_timestamp = Some(Time(deadline));
            pod.metadata.deletion_grace_period_seconds = Some(i64::try_from(grace.as_secs()).unwrap());
            self.put(pod);
        }
    }

    /// The Pod of this key, if it is the one there is.
    fn own(&self, key: &PodKey, operation: &'static str) -> Result<Pod, ApiError> {
        let found = self.pods.get(&(key.namespace.to_string(), key.name.to_string()));
        let pod = found.ok_or(ApiError::NotFound(operation))?;
        match pod.metadata.uid.as_deref() == Some(key.uid.as_str()) {
            true => Ok(pod.clone()),
            false => Err(ApiError::Conflict(operation)),
        }
    }
}

/// A strategic merge patch of a status, as far as it is used.
fn patched(pod: &Pod, patch: &Value) -> Pod {
    assert_eq!(patch["metadata"]["uid"], json!(pod.metadata.uid), "every patch is guarded");
    let mut status = serde_json::to_value(pod.status.clone().unwrap_or_default()).unwrap();
    for (field, value) in patch["status"].as_object().unwrap() {
        match field.as_str() {
            "conditions" => {
                let mut merged = status["conditions"].as_array().cloned().unwrap_or_default();
                for condition in value.as_array().unwrap() {
                    merged.retain(|other| other["type"] != condition["type"]);
                    merged.push(condition.clone());
                }
                status["conditions"] = Value::Array(merged);
            }
            "podIPs" => {
                let ips = value.as_array().unwrap().iter().filter(|ip| ip.get("$patch").is_none());
                status["podIPs"] = Value::Array(ips.cloned().collect());
            }
            _ if value.is_null() => drop(status.as_object_mut().unwrap().remove(field)),
            _ => status[field] = value.clone(),
        }
    }
    Pod { status: Some(serde_json::from_value(status).unwrap()), ..pod.clone() }
}

fn stream_of<T: Send + 'static>(receiver: UnboundedReceiver<T>) -> impl futures_util::Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|item| (item, receiver)) })
}

#[async_trait]
impl PodApi for FakeApi {
    async fn list(&self) -> Result<PodList, ApiError> {
        self.fault("list").await?;
        let state = self.state();
        let pods = state.pods.values().map(|pod| Arc::new(pod.clone())).collect();
        Ok(PodList { pods, version: state.version.to_string() })
    }

    async fn watch(&self, version: &str) -> Result<WatchStream, ApiError> {
        self.fault("watch").await?;
        let (mut state, from) = (self.state(), version.parse::<u64>().unwrap());
        if from < state.oldest || from > state.version {
            return Err(ApiError::Expired("watch"));
        }
        let (sender, receiver) = unbounded_channel();
        for (_, event) in state.log.iter().filter(|(version, _)| *version > from) {
            sender.send(Ok(event.clone())).unwrap();
        }
        state.watchers.push(sender);
        Ok(Box::pin(stream_of(receiver)))
    }

    async fn get(&self, key: &PodKey) -> Result<Option<Arc<Pod>>, ApiError> {
        self.fault("get").await?;
        let found = self.state().pods.get(&(key.namespace.to_string(), key.name.to_string())).cloned();
        Ok(found.map(Arc::new))
    }

    async fn patch_status(&self, key: &PodKey, patch: &Value) -> Result<Arc<Pod>, ApiError> {
        let fault = self.fault("patch").await?;
        let mut state = self.state();
        state.writes += 1;
        let pod = patched(&state.own(key, "patch")?, patch);
        let pod = state.put(pod);
        after(&fault, "patch", pod)
    }

    async fn delete(&self, key: &PodKey, grace: Duration) -> Result<(), ApiError> {
        let fault = self.fault("delete").await?;
        let clock = self.clock.clone();
        let mut state = self.state();
        state.writes += 1;
        let pod = state.own(key, "delete")?;
        state.mark(pod, grace, &clock);
        after(&fault, "delete", ())
    }

    async fn record(&self, record: &Record) -> Result<(), ApiError> {
        self.state().reasons.push(record.reason.to_string());
        Ok(())
    }

    fn follow(&self, object: ObjectRef) -> ObjectStream {
        let (sender, receiver) = unbounded_channel();
        let mut state = self.state();
        sender.send(state.objects.get(&object).cloned().unwrap_or(Known::Absent)).unwrap();
        state.followers.push((object, sender));
        Box::pin(stream_of(receiver))
    }
}
