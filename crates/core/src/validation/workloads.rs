//! Jobs and Deployments, as far as their Pods depend on it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::error::{Errors, ValidationError};
use super::metadata::metadata;
use super::names::LABEL_MAX;
use super::path::FieldPath;
use super::pod::{one_of, validate_pod_template};

/// What a server would refuse in a Job. Its template has its defaults.
#[must_use]
pub fn validate_job(job: &Job) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    let path = FieldPath::of("spec");
    metadata(&mut errors, &job.metadata, &FieldPath::of("metadata"));
    if let Some(name) = job.metadata.name.as_deref().filter(|name| name.len() > LABEL_MAX) {
        let detail = "must be no more than 63 bytes, as it becomes a label of the Pods";
        errors.invalid(&FieldPath::of("metadata").field("name"), name, detail);
    }
    let Some(spec) = &job.spec else {
        errors.required(&path, "");
        return errors.into_vec();
    };
    let counts = [
        (spec.parallelism, "parallelism"),
        (spec.completions, "completions"),
        (spec.backoff_limit, "backoffLimit"),
        (spec.ttl_seconds_after_finished, "ttlSecondsAfterFinished"),
    ];
    for (count, field) in counts {
        not_negative(&mut errors, count, &path.field(field));
    }
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| *seconds < 0) {
        errors.invalid(&path.field("activeDeadlineSeconds"), seconds, "must be greater than or equal to 0");
    }
    let mode = spec.completion_mode.as_deref();
    one_of(&mut errors, mode, &["Indexed", "NonIndexed"], &path.field("completionMode"));
    if mode == Some("Indexed") && spec.completions.is_none() {
        errors.required(&path.field("completions"), "when completion mode is Indexed");
    }
    let mut errors = errors.into_vec();
    let template = path.field("template");
    errors.extend(validate_pod_template(&spec.template, &template));
    let mut more = Errors::default();
    if restart_policy(&spec.template) == Some("Always") {
        more.required(&template.field("spec").field("restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
    }
    if spec.manual_selector == Some(true) {
        match &spec.selector {
            Some(selector) => selects(&mut more, selector, &spec.template, &path),
            None => more.required(&path.field("selector"), ""),
        }
    }
    errors.extend(more.into_vec());
    errors
}

/// What a server would refuse in a Deployment. Its template has its defaults.
#[must_use]
pub fn validate_deployment(deployment: &Deployment) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    let path = FieldPath::of("spec");
    metadata(&mut errors, &deployment.metadata, &FieldPath::of("metadata"));
    let spec = &deployment.spec;
    let counts = [
        (spec.replicas, "replicas"),
        (spec.min_ready_seconds, "minReadySeconds"),
        (spec.progress_deadline_seconds, "progressDeadlineSeconds"),
        (spec.revision_history_limit, "revisionHistoryLimit"),
    ];
    for (count, field) in counts {
        not_negative(&mut errors, count, &path.field(field));
    }
    selects(&mut errors, &spec.selector, &spec.template, &path);
    let template = path.field("template");
    if let Some(policy) = restart_policy(&spec.template).filter(|policy| *policy != "Always") {
        errors.unsupported(&template.field("spec").field("restartPolicy"), policy, &["Always"]);
    }
    if spec.template.spec.as_ref().is_some_and(|spec| spec.active_deadline_seconds.is_some()) {
        let at = template.field("spec").field("activeDeadlineSeconds");
        errors.forbidden(&at, "activeDeadlineSeconds in Deployment is not Supported");
    }
    let mut errors = errors.into_vec();
    errors.extend(validate_pod_template(&spec.template, &template));
    errors
}

fn not_negative(errors: &mut Errors, count: Option<i32>, path: &FieldPath) {
    if let Some(count) = count.filter(|count| *count < 0) {
        errors.invalid(path, count, "must be greater than or equal to 0");
    }
}

fn restart_policy(template: &PodTemplateSpec) -> Option<&str> {
    template.spec.as_ref()?.restart_policy.as_deref()
}

/// A controller that does not select its own Pods would make them for ever.
fn selects(errors: &mut Errors, selector: &LabelSelector, template: &PodTemplateSpec, path: &FieldPath) {
    let empty = BTreeMap::new();
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref()).unwrap_or(&empty);
    let at = path.field("selector");
    if selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
    {
        errors.required(&at, "a selector that matches the labels of the template");
        return;
    }
    let mut matches = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    for (i, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let values = expression.values.as_deref().unwrap_or_default();
        let found = labels.get(&expression.key);
        matches &= match expression.operator.as_str() {
            "In" => found.is_some_and(|value| values.contains(value)),
            "NotIn" => found.is_none_or(|value| !values.contains(value)),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            other => {
                let at = at.field("matchExpressions").index(i).field("operator");
                errors.unsupported(&at, other, &["DoesNotExist", "Exists", "In", "NotIn"]);
                true
            }
        };
    }
    if !matches {
        let detail = "`selector` does not match template `labels`";
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        errors.invalid(&path.field("template").field("metadata").field("labels"), labels.join(","), detail);
    }
}
