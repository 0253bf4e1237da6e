//! Performs what a book wants, each effect as a task of its own, and tells it how that went. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use minke_core::runtime::error_chain;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cluster::{Cluster, ClusterError};
use super::forges::Forges;
use super::messages::{Effect, Heard, PodToMake};
use super::metrics::Metrics;
use super::objects::release_patch;
use super::writes::Write;
use crate::demand::SetKey;
use crate::engine::Refused;
use crate::forge::{Forge, ForgeError, Registration};
use crate::ids::RunnerId;
use crate::life::Removal;
use crate::set::{RunnerSetSpec, RunnerSetStatus};

/// A call to the forge takes no longer, whatever the client does.
const FORGE: Duration = Duration::from_secs(30);
/// What is only tidied up is tried so often.
const TRIES: u32 = 6;

/// Everything that performing needs, for one set. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Performer {
    pub(super) key: SetKey,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) forges: Arc<dyn Forges>,
    pub(super) metrics: Metrics,
    /// So many calls to the cluster at a time, of all sets together.
    pub(super) places: Arc<Semaphore>,
    pub(super) answers: mpsc::UnboundedSender<Heard>,
}

impl Performer {
    /// Begins an effect. Those that the caller has to see to are not among them.
    pub(super) fn begin(&self, effect: Effect, spec: &Arc<RunnerSetSpec>, tasks: &mut JoinSet<()>) {
        let own = self.clone();
        let spec = Arc::clone(spec);
        match effect {
            Effect::Register { slot, name } => {
                tasks.spawn(async move {
                    let outcome = own.register(&spec, &name).await;
                    own.answer(Heard::Registered { slot, name, outcome });
                });
            }
            Effect::Remove { id } => {
                tasks.spawn(async move {
                    let outcome = own.remove(&spec, id).await;
                    own.answer(Heard::Removed { id, outcome });
                });
            }
            Effect::Create { secret, pods } => {
                tasks.spawn(async move {
                    if let Some(secret) = secret {
                        let name = secret.metadata.name.clone().unwrap_or_default();
                        match own.call("create_secret", own.cluster.create_secret(&secret)).await {
                            Ok(()) | Err(ClusterError::Conflict(_)) => own.answer(Heard::SecretMade(name)),
                            Err(error) => {
                                own.log("the configurations can't be written", &error);
                                for PodToMake { slot, id, .. } in pods {
                                    own.answer(Heard::Created { slot, id, outcome: Err(error.not_created()) });
                                }
                                return;
                            }
                        }
                    }
                    let mut made = JoinSet::new();
                    for pod in pods {
                        let own = own.clone();
                        made.spawn(async move { own.make(pod).await });
                    }
                    made.join_all().await;
                });
            }
            Effect::Write { write, pod, patch } => {
                tasks.spawn(async move {
                    let Write { slot, after, .. } = write;
                    sleep(after).await;
                    let written = own.call("patch_pod", own.cluster.patch_pod(&own.key.namespace, &pod, &patch)).await;
                    // Another Pod of the name, or none: what was to be written is about nobody.
                    let again = written.is_err_and(|error| !error.is_final());
                    own.answer(Heard::Written { slot, again });
                });
            }
            Effect::Delete { pod, uid, force } => {
                tasks.spawn(async move {
                    let namespace = &own.key.namespace;
                    let grace = force.then_some(Duration::ZERO);
                    if force {
                        // The finalizer first: a Pod without its node goes only when nothing holds it.
                        let patch = release_patch(&uid);
                        let _ = own.call("patch_pod", own.cluster.patch_pod(namespace, &pod, &patch)).await;
                    }
                    // What fails is told again by the engine.
                    let _ = own.call("delete_pod", own.cluster.delete_pod(namespace, &pod, &uid, grace)).await;
                });
            }
            Effect::DeleteClaim { name, uid } => {
                tasks.spawn(async move {
                    own.tidy("delete_claim", || own.cluster.delete_claim(&own.key.namespace, &name, &uid)).await;
                });
            }
            Effect::DeleteSecret { name } => {
                tasks.spawn(async move {
                    own.tidy("delete_secret", || own.cluster.delete_secret(&own.key.namespace, &name)).await;
                });
            }
            Effect::SweepSecrets { keep, session } => {
                tasks.spawn(async move {
                    own.tidy("delete_secrets", || own.cluster.sweep_secrets(&own.key, &keep, &session)).await;
                });
            }
            Effect::PatchSet { patch } => {
                tasks.spawn(async move {
                    own.tidy("patch_set", || own.cluster.patch_set(&own.key, &patch)).await;
                });
            }
            Effect::Status(status) => {
                tasks.spawn(async move { own.status(&status).await });
            }
            Effect::Notice(notice) => {
                tracing::warn!(set = %own.key, pod = notice.name, reason = notice.reason, "{}", notice.message);
                tasks.spawn(async move {
                    let _ = own.call("create_event", own.cluster.notice(&notice)).await;
                });
            }
            Effect::Took(stage, took) => self.metrics.took(&self.key, stage, took),
            Effect::Failed { cause, category } => self.metrics.failed(&self.key, cause, category),
            // The lists of a scope are shared: who has all sets asks.
            Effect::ListRunners => {}
        }
    }

    fn answer(&self, heard: Heard) {
        // Nobody listens when the set is gone, or this replica leads no more.
        let _ = self.answers.send(heard);
    }

    fn log(&self, what: &str, error: &ClusterError) {
        tracing::warn!(set = %self.key, error = error_chain(error), "{what}");
    }

    /// One call to the cluster, in its place and counted.
    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let answer = call.await;
        self.metrics.cluster_call(name, answer.is_ok());
        answer
    }

    async fn make(&self, PodToMake { slot, id, pod, claim }: PodToMake) {
        if let Some(claim) = claim {
            match self.call("create_claim", self.cluster.create_claim(&claim)).await {
                Ok(()) | Err(ClusterError::Conflict(_)) => {}
                Err(error) => {
                    self.log("a claim can't be made", &error);
                    self.answer(Heard::Created { slot, id, outcome: Err(error.not_created()) });
                    return;
                }
            }
        }
        let outcome = self.call("create_pod", self.cluster.create_pod(&pod)).await;
        if let Err(error) = &outcome {
            self.log("a pod can't be made", error);
        }
        self.answer(Heard::Created { slot, id, outcome: outcome.map_err(|error| error.not_created()) });
    }

    async fn status(&self, status: &RunnerSetStatus) {
        let written = self.call("write_status", self.cluster.write_status(&self.key, status)).await;
        let good = match &written {
            Ok(()) => true,
            Err(error) => {
                self.log("the status can't be written", error);
                // Not at once again.
                sleep(Duration::from_secs(2)).await;
                false
            }
        };
        self.answer(Heard::StatusWritten { good });
    }

    /// Tries until it is done, or no use: a tidy-up that is lost is found again at the next start.
    async fn tidy<F: Future<Output = Result<(), ClusterError>>>(&self, name: &'static str, call: impl Fn() -> F) {
        for attempt in 0..TRIES {
            match self.call(name, call()).await {
                Ok(()) => return,
                Err(error) if error.is_final() => {
                    if !matches!(error, ClusterError::NotFound(_) | ClusterError::Conflict(_)) {
                        self.log("something is not tidied up", &error);
                    }
                    return;
                }
                Err(error) => self.log("something is tidied up later", &error),
            }
            sleep(Duration::from_secs(1 << attempt)).await;
        }
    }

    async fn forge(&self, spec: &RunnerSetSpec) -> Result<Arc<dyn Forge>, ForgeError> {
        self.forges.forge(&self.key.namespace, spec).await
    }

    fn note(&self, call: &'static str, spec: &RunnerSetSpec, error: Option<&ForgeError>) {
        let outcome = match error {
            None => "ok",
            Some(ForgeError::NotFound) => "gone",
            Some(ForgeError::Unprocessable(_)) => "busy",
            Some(ForgeError::Limited(_)) => "limited",
            Some(ForgeError::Unauthorized(_) | ForgeError::Credential(_) | ForgeError::Forbidden(_)) => "refused",
            Some(ForgeError::Conflict | ForgeError::Malformed(_) | ForgeError::Changing) => "error",
            Some(ForgeError::Unreachable(_) | ForgeError::Unavailable(_) | ForgeError::TimedOut) => "unavailable",
        };
        self.metrics.forge_call(call, outcome);
        if let Some(error) = error {
            tracing::warn!(set = %self.key, call, error = error_chain(error), "the forge");
        }
        if let Some(ForgeError::Unauthorized(_) | ForgeError::Credential(_)) = error {
            self.forges.refused(&self.key.namespace, &spec.github.credentials_secret);
        }
    }

    async fn register(&self, spec: &RunnerSetSpec, name: &str) -> Result<Registration, Refused> {
        let answer = timeout(FORGE, async { self.forge(spec).await?.register(name).await }).await;
        let answer = answer.unwrap_or(Err(ForgeError::TimedOut));
        self.note("register", spec, answer.as_ref().err());
        answer.map_err(|error| error.refused())
    }

    async fn remove(&self, spec: &RunnerSetSpec, id: RunnerId) -> Removal {
        let answer = timeout(FORGE, async { self.forge(spec).await?.remove(id).await }).await;
        let answer = answer.unwrap_or(Err(ForgeError::TimedOut));
        self.note("remove", spec, answer.as_ref().err());
        answer.map_or_else(|error| error.removal(), |()| Removal::Gone)
    }
}
