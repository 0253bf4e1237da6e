//! The demo's pool on a real cluster of this machine: `minke up`, runners in real containers.
//!
//! The kind is taught to the cluster, the set and its credential are objects there, and its Pods run a shell script that is a
//! runner as far as GitHub's look-alike knows one. The look-alike is on loopback, so they are in the host's network. At the end
//! the set is deleted, and with it everything that the demo has made but the kind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret as KubeSecret};
use kube::Client as KubeClient;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use minke_core::clock::Clock;
use minke_core::runtime::error_chain;
use minke_runners::controller::{Cluster, KubeCluster};
use minke_runners::set::{LABEL_SET, RunnerSet, RunnerSetStatus, crd};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{NAMESPACE, SECRET, SET, TIDY, secret, set};
use crate::client::Client;
use crate::cmd::up;
use crate::exit::Failure;

const MANAGER: &str = "minke-runners-demo";
const RUNNER: &str = include_str!("runner.sh");
/// A server learns a kind within so much.
const LEARNS: Duration = Duration::from_secs(20);

/// The kubeconfig of the cluster that runs on this instance.
pub(super) async fn served(client: &Client) -> Result<PathBuf, Failure> {
    let running = client.connect_running().await?;
    let served = running.and_then(|connection| connection.agent().served.clone());
    let none = || Failure::usage("no cluster of this machine runs".to_owned()).hint("begin one: minke up");
    served.map(|served| served.kubeconfig).ok_or_else(none)
}

/// The image with a shell: as `minke up --demo` has it.
pub(super) fn image(client: &Client) -> &'static str {
    up::demo_image(client)
}

/// The set in a cluster.
pub(super) struct Objects {
    client: KubeClient,
    sets: Api<RunnerSet>,
    wanted: RunnerSet,
}

impl Objects {
    /// Changes nothing yet.
    pub(super) fn new(client: KubeClient, forge: &str, max: u32, image: &str) -> Result<Self, Failure> {
        let sets = Api::namespaced(client.clone(), NAMESPACE);
        Ok(Self { client, sets, wanted: set(forge, max, 0, &pod(forge, image))? })
    }

    fn secrets(&self) -> Api<KubeSecret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Teaches the kind, and makes the set and its credential. Whoever gives up midway removes them all the same.
    pub(super) async fn make(&self) -> Result<(), Failure> {
        let params = PatchParams::apply(MANAGER).force();
        let failed = |what: &str, e: &kube::Error| Failure::system(format!("can't {what}: {}", error_chain(e)));
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let kinds: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let kind = crd();
        let name = kind["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        kinds.patch(&name, &params, &Patch::Apply(&kind)).await.map_err(|e| failed("define RunnerSet", &e))?;
        let credential = typed("v1", "Secret", &secret()?)?;
        let made = self.secrets().patch(SECRET, &params, &Patch::Apply(&credential)).await;
        made.map_err(|e| failed("make the credential's secret", &e))?;
        let wanted = Patch::Apply(typed("minke.dev/v1alpha1", "RunnerSet", &self.wanted)?);
        let begun = Instant::now();
        loop {
            match self.sets.patch(SET, &params, &wanted).await {
                Ok(_) => return Ok(()),
                // The server is still learning the kind.
                Err(kube::Error::Api(status)) if status.code == 404 && begun.elapsed() < LEARNS => {
                    sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(failed("make the set", &error)),
            }
        }
    }

    /// The cluster, as a controller sees it.
    pub(super) fn cluster(&self, clock: Arc<dyn Clock>) -> Arc<dyn Cluster> {
        Arc::new(KubeCluster::new(self.client.clone(), Some(NAMESPACE.to_owned()), clock))
    }

    /// How the set is.
    pub(super) async fn status(&self) -> RunnerSetStatus {
        self.sets.get_opt(SET).await.ok().flatten().and_then(|set| set.status).unwrap_or_default()
    }

    /// How many Pods the set has.
    pub(super) async fn pods(&self) -> usize {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let own = ListParams::default().labels(&format!("{LABEL_SET}={SET}"));
        // Who can't be asked is asked again.
        pods.list(&own).await.map_or(usize::MAX, |pods| pods.items.len())
    }

    /// Deletes the set, and waits until it is gone with all that belongs to it; then the credential. What is not there need not
    /// go. The controller has to run meanwhile, if it ever has.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        let failed = |e: &kube::Error| Failure::system(format!("can't remove the demo's objects: {}", error_chain(e)));
        gone(self.sets.delete(SET, &DeleteParams::default()).await).map_err(|e| failed(&e))?;
        let begun = Instant::now();
        while gone(self.sets.get(SET).await).map_err(|e| failed(&e))?.is_some() {
            if begun.elapsed() > TIDY {
                return Err(Failure::system("the set does not go".to_owned()));
            }
            sleep(Duration::from_millis(200)).await;
        }
        gone(self.secrets().delete(SECRET, &DeleteParams::default()).await).map(drop).map_err(|e| failed(&e))
    }
}

/// What is not there is none: neither the object nor, on a server that was never taught it, the kind.
fn gone<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is applied names its type.
fn typed(version: &str, kind: &str, object: &impl serde::Serialize) -> Result<Value, Failure> {
    let value = serde_json::to_value(object).map_err(|e| Failure::because("the demo's objects", &e))?;
    let mut typed = json!({"apiVersion": version, "kind": kind});
    if let (Some(typed), Value::Object(fields)) = (typed.as_object_mut(), value) {
        typed.extend(fields.into_iter().filter(|(field, _)| field != "status"));
    }
    Ok(typed)
}

fn pod(forge: &str, image: &str) -> Value {
    json!({
        "hostNetwork": true, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "runner", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", RUNNER],
            "env": [{"name": "FORGE", "value": forge}],
        }],
    })
}

/// The kubeconfig that was named, or that of the instance.
pub(super) async fn kubeconfig(named: Option<&Path>, client: &Client) -> Result<PathBuf, Failure> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => served(client).await,
    }
}
