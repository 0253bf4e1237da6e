//! The objects that the controller makes, and the patches that it writes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, EnvVar, EnvVarSource, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec,
    Secret, SecretKeySelector, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use crate::claims::{ANNOTATION_CLAIM_TEMPLATE, claim_name};
use crate::forge::Secret as Hidden;
use crate::ids::{RunnerId, Slot};
use crate::life::Record;
use crate::set::{LABEL_SET, LABEL_STATE, RUNNER_CONTAINER, RunnerSet, WORK_VOLUME};

/// Keeps a Pod until its registration is gone, and a set until its Pods are.
pub const FINALIZER: &str = "runners.minke.dev/registration";
/// The runner's name at the forge.
pub const ANNOTATION_RUNNER: &str = "runners.minke.dev/runner";
/// The Secret that its configuration is in.
pub const ANNOTATION_CONFIGURATION: &str = "runners.minke.dev/configuration";
/// The label of those Secrets: which batch of Pods they are for.
pub const LABEL_BATCH: &str = "runners.minke.dev/batch";
/// The label that tells which life of the controller made them.
pub const LABEL_SESSION: &str = "runners.minke.dev/session";
/// Where the runner's program looks for its configuration.
const VARIABLE: &str = "ACTIONS_RUNNER_INPUT_JITCONFIG";
const MOUNT_PATH: &str = "/home/runner/_work";

/// A runner's Pod, about to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewPod<'a> {
    /// Its slot.
    pub(super) slot: Slot,
    /// What is written on it.
    pub(super) record: &'a Record,
    /// The runner's name at the forge.
    pub(super) runner: &'a str,
    /// The registration that it starts with.
    pub(super) id: RunnerId,
    /// The Secret with its configuration.
    pub(super) secret: &'a str,
}

fn owner(set: &RunnerSet) -> Vec<OwnerReference> {
    vec![OwnerReference {
        api_version: RunnerSet::API_VERSION.to_owned(),
        kind: RunnerSet::KIND.to_owned(),
        name: set.metadata.name.clone().unwrap_or_default(),
        uid: set.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }]
}

fn set_name(set: &RunnerSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

/// The key of a runner's configuration in its Secret.
#[must_use]
pub fn configuration_key(id: RunnerId) -> String {
    format!("runner-{id}")
}

/// The Pod of a runner.
#[must_use]
pub(super) fn pod(set: &RunnerSet, new: NewPod<'_>) -> Pod {
    let template = &set.spec.template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    labels.insert(LABEL_SET.to_owned(), set_name(set));
    labels.insert(LABEL_STATE.to_owned(), new.record.word().to_owned());
    let mut annotations = metadata.annotations.unwrap_or_default();
    let written = new.record.annotations().into_iter();
    annotations.extend(written.filter_map(|(key, value)| Some((key.to_owned(), value?))));
    annotations.insert(ANNOTATION_RUNNER.to_owned(), new.runner.to_owned());
    annotations.insert(ANNOTATION_CONFIGURATION.to_owned(), new.secret.to_owned());
    let mut finalizers = metadata.finalizers.unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.restart_policy = Some("Never".to_owned());
    configure(&mut spec, new);
    mount(&mut spec, set, new.slot);
    Pod {
        metadata: ObjectMeta {
            name: Some(new.slot.pod_name(&set_name(set))),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: Some(finalizers),
            owner_references: Some(owner(set)),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// The configuration reaches the runner's container alone, and stands in no object but the Secret.
fn configure(spec: &mut PodSpec, new: NewPod<'_>) {
    let source = SecretKeySelector { name: new.secret.to_owned(), key: configuration_key(new.id), optional: None };
    let variable = EnvVar {
        name: VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { secret_key_ref: Some(source), ..EnvVarSource::default() }),
    };
    for container in spec.containers.iter_mut().filter(|container| container.name == RUNNER_CONTAINER) {
        let env = container.env.get_or_insert_default();
        env.retain(|other| other.name != VARIABLE);
        env.push(variable.clone());
    }
}

fn mount(spec: &mut PodSpec, set: &RunnerSet, slot: Slot) {
    let Some(work) = &set.spec.work_volume else { return };
    let mut volume = Volume { name: WORK_VOLUME.to_owned(), ..Volume::default() };
    match &work.claim_template {
        Some(_) => {
            let claim_name = claim_name(&set_name(set), slot);
            volume.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None });
        }
        None => {
            let size_limit = work.size_limit.clone();
            volume.empty_dir = Some(EmptyDirVolumeSource { size_limit, ..EmptyDirVolumeSource::default() });
        }
    }
    spec.volumes.get_or_insert_default().push(volume);
    let mount = VolumeMount {
        name: WORK_VOLUME.to_owned(),
        mount_path: work.mount_path.clone().unwrap_or_else(|| MOUNT_PATH.to_owned()),
        ..VolumeMount::default()
    };
    for container in spec.containers.iter_mut().filter(|container| container.name == RUNNER_CONTAINER) {
        container.volume_mounts.get_or_insert_default().push(mount.clone());
    }
}

/// The claim of a slot, if the set has a template for claims.
#[must_use]
pub(super) fn claim(set: &RunnerSet, slot: Slot, hash: &str) -> Option<PersistentVolumeClaim> {
    let template = set.spec.work_volume.as_ref()?.claim_template.as_ref()?;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    labels.insert(LABEL_SET.to_owned(), set_name(set));
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(ANNOTATION_CLAIM_TEMPLATE.to_owned(), hash.to_owned());
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(&set_name(set), slot)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(owner(set)),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.clone()),
        status: None,
    })
}

/// The Secret with the configurations of some Pods, which are made together.
#[must_use]
pub(super) fn configurations(set: &RunnerSet, name: &str, session: &str, runners: &[(RunnerId, Hidden)]) -> Secret {
    let data = runners
        .iter()
        .map(|(id, configuration)| (configuration_key(*id), ByteString(configuration.reveal().as_bytes().to_vec())));
    let labels = BTreeMap::from([
        (LABEL_SET.to_owned(), set_name(set)),
        (LABEL_BATCH.to_owned(), name.to_owned()),
        (LABEL_SESSION.to_owned(), session.to_owned()),
    ]);
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(owner(set)),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        immutable: Some(true),
        ..Secret::default()
    }
}

/// The write of a runner's state, as a strategic merge patch: on this Pod and no other of the name; a finalizer that is not ours
/// stays.
#[must_use]
pub(super) fn state_patch(uid: &str, record: &Record) -> Value {
    let annotations: Map<String, Value> =
        record.annotations().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let mut metadata = json!({"uid": uid, "labels": {LABEL_STATE: record.word()}, "annotations": annotations});
    if !record.holds_pod() {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!([FINALIZER]);
    }
    json!({"metadata": metadata})
}

/// The patch that takes our finalizer off a Pod.
#[must_use]
pub(super) fn release_patch(uid: &str) -> Value {
    json!({"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
}

/// The finalizers of a set with or without ours, as a merge patch that holds against others' changes; `None`: nothing to do.
#[must_use]
pub(super) fn set_finalizer_patch(set: &RunnerSet, held: bool) -> Option<Value> {
    let metadata = &set.metadata;
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|finalizer| finalizer == FINALIZER) == held {
        return None;
    }
    if held {
        finalizers.push(FINALIZER.to_owned());
    } else {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    Some(json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
    }}))
}

/// The Secrets that Pods name, and the registrations that are waited for.
pub(super) fn needed<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> BTreeMap<String, BTreeSet<RunnerId>> {
    let mut secrets: BTreeMap<String, BTreeSet<RunnerId>> = BTreeMap::new();
    for pod in pods {
        let Some(annotations) = &pod.metadata.annotations else { continue };
        let Ok(record) = Record::parse(annotations) else { continue };
        if let (Some(secret), Some(id)) = (annotations.get(ANNOTATION_CONFIGURATION), record.id()) {
            secrets.entry(secret.clone()).or_default().insert(id);
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{Life, Runner};
    use crate::set::tests::set;
    use jiff::Timestamp;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn record(life: Life) -> Record {
        Record::of(&Runner { life, ..Runner::requested(Slot(3), "t".to_owned(), NOW) }).unwrap()
    }

    fn made(set: &RunnerSet) -> Value {
        let record = record(Life::Registered { id: RunnerId(7) });
        let new =
            NewPod { slot: Slot(3), record: &record, runner: "linux-3-1f", id: RunnerId(7), secret: "linux-jit-7" };
        serde_json::to_value(pod(set, new)).unwrap()
    }

    #[test]
    fn a_pod_says_who_it_is_and_where_its_configuration_stands() {
        let mut set = set();
        set.metadata.namespace = Some("ci".to_owned());
        set.metadata.uid = Some("s".to_owned());
        let pod = made(&set);
        assert_eq!((&pod["metadata"]["name"], &pod["metadata"]["namespace"]), (&json!("linux-3"), &json!("ci")));
        assert_eq!(pod["metadata"]["labels"], json!({LABEL_SET: "linux", LABEL_STATE: "Registered"}));
        assert_eq!(pod["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "s");
        assert_eq!(pod["metadata"]["annotations"]["runners.minke.dev/id"], "7");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["env"][0]["valueFrom"]["secretKeyRef"], json!({"name": "linux-jit-7", "key": "runner-7"}));
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
    }

    /// ARC 643, 4493, 4618: a `PodDisruptionBudget` could not work. It finds Pods by their labels, goes to their controller, and asks
    /// that one's scale how many there should be.
    #[test]
    fn a_disruption_budget_over_busy_pods_finds_them_and_their_scale() {
        let pod = made(&set());
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["controller"]), (&json!("RunnerSet"), &json!(true)));
        let definition = crate::set::crd();
        assert_eq!(owner["apiVersion"], format!("{}/v1alpha1", definition["spec"]["group"].as_str().unwrap()));
        assert_eq!(definition["spec"]["names"]["kind"], owner["kind"]);
        let scale = &definition["spec"]["versions"][0]["subresources"]["scale"];
        assert_eq!(
            (&scale["specReplicasPath"], &scale["labelSelectorPath"]),
            (&json!(".spec.max"), &json!(".status.selector"))
        );
        let busy = state_patch("u", &record(Life::Busy { id: RunnerId(7), job: None }));
        assert_eq!(busy["metadata"]["labels"][LABEL_STATE], "Busy", "the budget is about these alone");
    }

    #[test]
    fn the_configuration_stands_in_the_secret_alone() {
        let hidden = Hidden::new("hunter2");
        let secret = configurations(&set(), "linux-jit-7", "s", &[(RunnerId(7), hidden)]);
        assert_eq!(secret.data.as_ref().unwrap()["runner-7"].0, b"hunter2");
        assert!(!made(&set()).to_string().contains("hunter2"));
    }

    #[test]
    fn work_volumes_are_empty_or_the_slots_claim() {
        let mut set = set();
        set.spec.work_volume = serde_json::from_value(json!({"sizeLimit": "1Gi"})).unwrap();
        let pod = made(&set);
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "work", "emptyDir": {"sizeLimit": "1Gi"}}]));
        let mounts = &pod["spec"]["containers"][0]["volumeMounts"];
        assert_eq!(*mounts, json!([{"name": "work", "mountPath": "/home/runner/_work"}]));
        assert!(claim(&set, Slot(3), "h").is_none());
        set.spec.work_volume = serde_json::from_value(json!({"mountPath": "/w", "claimTemplate": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }}))
        .unwrap();
        let pod = made(&set);
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"], json!({"claimName": "linux-3-work"}));
        let claim = serde_json::to_value(claim(&set, Slot(3), "h").unwrap()).unwrap();
        assert_eq!(claim["metadata"]["labels"], json!({"team": "a", LABEL_SET: "linux"}));
        assert_eq!(claim["metadata"]["name"], "linux-3-work");
        assert_eq!(claim["metadata"]["annotations"], json!({ANNOTATION_CLAIM_TEMPLATE: "h"}));
    }

    #[test]
    fn a_state_is_written_to_one_pod_and_lets_it_go_when_it_may() {
        let busy = state_patch("u", &record(Life::Busy { id: RunnerId(7), job: None }));
        assert_eq!(busy["metadata"]["uid"], "u");
        assert_eq!(busy["metadata"]["labels"], json!({LABEL_STATE: "Busy"}));
        assert!(busy["metadata"]["annotations"]["runners.minke.dev/job"].is_null());
        assert!(busy["metadata"].get("$deleteFromPrimitiveList/finalizers").is_none());
        let why = crate::life::Why::Done;
        let free = state_patch("u", &record(Life::Deregistered { why }));
        assert_eq!(free["metadata"]["$deleteFromPrimitiveList/finalizers"], json!([FINALIZER]));
    }

    #[test]
    fn a_sets_finalizer_is_written_once_and_others_stay() {
        let mut set = set();
        set.metadata.finalizers = Some(vec!["other".to_owned()]);
        set.metadata.resource_version = Some("9".to_owned());
        let patch = set_finalizer_patch(&set, true).unwrap();
        assert_eq!(patch["metadata"]["finalizers"], json!(["other", FINALIZER]));
        assert_eq!(patch["metadata"]["resourceVersion"], "9");
        set.metadata.finalizers = Some(vec!["other".to_owned(), FINALIZER.to_owned()]);
        assert_eq!(set_finalizer_patch(&set, true), None);
        assert_eq!(set_finalizer_patch(&set, false).unwrap()["metadata"]["finalizers"], json!(["other"]));
    }
}
