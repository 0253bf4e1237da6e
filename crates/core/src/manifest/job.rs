//! The Pods of a Job, all at once: what its controller would create over time.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use super::workload::{Owner, pod_from_template};
use crate::validation::FieldPath;

/// Label and annotation with the index of a Pod in an Indexed Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The same as a variable of each container.
const COMPLETION_INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// How many Pods a Job wants, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) pods: usize,
    pub(super) parallelism: usize,
}

/// Without `completions`, the Pods work off a common queue: there are as many as may run at once.
pub(super) fn extent(spec: &JobSpec) -> Extent {
    let count = |number: Option<i32>| number.map(|number| usize::try_from(number).unwrap_or(0));
    let parallelism = count(spec.parallelism).unwrap_or(1);
    let pods = count(spec.completions).unwrap_or(parallelism);
    if spec.suspend == Some(true) || parallelism == 0 {
        return Extent { pods: 0, parallelism: 1 };
    }
    Extent { pods, parallelism: parallelism.min(pods).max(1) }
}

/// The Pods of a valid Job, `<job>-0` to `<job>-<n-1>`.
pub(super) fn pods(job: &Job, spec: &JobSpec) -> Vec<Pod> {
    let owner = Owner::of(job, "Job", "batch/v1");
    let labels = BTreeMap::from([
        ("batch.kubernetes.io/controller-uid".to_owned(), owner.uid.clone()),
        ("batch.kubernetes.io/job-name".to_owned(), owner.name.clone()),
        ("controller-uid".to_owned(), owner.uid.clone()),
        ("job-name".to_owned(), owner.name.clone()),
    ]);
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    (0..extent(spec).pods)
        .map(|index| {
            let mut pod = pod_from_template(&spec.template, &owner, &index.to_string(), &labels);
            if indexed {
                set_index(&mut pod, &owner.name, index);
            }
            pod
        })
        .collect()
}

fn set_index(pod: &mut Pod, job: &str, index: usize) {
    let meta = &mut pod.metadata;
    meta.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
    meta.annotations.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
    let Some(spec) = &mut pod.spec else { return };
    spec.hostname.get_or_insert_with(|| format!("{job}-{index}"));
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        set_index_variable(container);
    }
}

fn set_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == COMPLETION_INDEX_VARIABLE) {
        return;
    }
    let field_ref = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
    };
    let value_from = EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() };
    variables.push(EnvVar { name: COMPLETION_INDEX_VARIABLE.to_owned(), value: None, value_from: Some(value_from) });
}

/// The fields that are given and have no effect here, and why.
pub(super) fn without_effect(spec: &JobSpec) -> Vec<(FieldPath, &'static str)> {
    let path = FieldPath::of("spec");
    let retries = "a Pod that fails is not replaced by another one";
    let given = [
        (spec.backoff_limit.is_some(), "backoffLimit", retries),
        (spec.backoff_limit_per_index.is_some(), "backoffLimitPerIndex", retries),
        (spec.max_failed_indexes.is_some(), "maxFailedIndexes", retries),
        (spec.pod_failure_policy.is_some(), "podFailurePolicy", retries),
        (spec.pod_replacement_policy.is_some(), "podReplacementPolicy", retries),
        (spec.success_policy.is_some(), "successPolicy", "all Pods run to their end"),
        (spec.active_deadline_seconds.is_some(), "activeDeadlineSeconds", "set it in the template, or use --timeout"),
        (spec.ttl_seconds_after_finished.is_some(), "ttlSecondsAfterFinished", "finished Pods stay until removed"),
        (spec.managed_by.is_some(), "managedBy", "there is no other controller"),
        (spec.scheduling.is_some(), "scheduling", "there is one machine"),
        (spec.suspend == Some(true), "suspend", "the Job is suspended: none of its Pods is started"),
        (spec.parallelism == Some(0), "parallelism", "it is 0: none of the Pods is started"),
    ];
    given.into_iter().filter(|(is_given, ..)| *is_given).map(|(_, field, why)| (path.field(field), why)).collect()
}
