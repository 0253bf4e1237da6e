//! The Pods of a Deployment, as its newest ReplicaSet would create them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::Pod;

use super::workload::{Owner, pod_from_template};
use crate::defaults::stable_suffix;
use crate::validation::FieldPath;

/// How many Pods a Deployment wants.
pub(super) fn replicas(spec: &DeploymentSpec) -> usize {
    usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0)
}

/// The Pods of a valid Deployment, `<deployment>-<hash of the template>-<five letters>`.
pub(super) fn pods(deployment: &Deployment) -> Vec<Pod> {
    let owner = Owner::of(deployment, "Deployment", "apps/v1");
    let template = &deployment.spec.template;
    let hash = format!("{}{}", stable_suffix(&("template", template)), stable_suffix(&(template, "template")));
    let labels = BTreeMap::from([("pod-template-hash".to_owned(), hash.clone())]);
    (0..replicas(&deployment.spec))
        .map(|index| pod_from_template(template, &owner, &format!("{hash}-{}", letters(index)), &labels))
        .collect()
}

/// Five letters, different for each of the first 14 million indexes.
fn letters(index: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let base = LETTERS.len();
    // A step that shares no factor with 27^5 reaches every number once.
    let mut number = (index.wrapping_mul(1_000_003).wrapping_add(7_654_321)) % base.pow(5);
    let mut text = String::with_capacity(5);
    for _ in 0..5 {
        text.push(char::from(LETTERS[number % base]));
        number /= base;
    }
    text
}

/// The fields that are given and have no effect here, and why. What concerns only updates, of which there are none
/// in one run, goes without saying.
pub(super) fn without_effect(spec: &DeploymentSpec) -> Vec<(FieldPath, &'static str)> {
    let path = FieldPath::of("spec");
    let given = [
        (spec.min_ready_seconds.is_some_and(|seconds| seconds > 0), "minReadySeconds", "a Pod counts once it runs"),
        (spec.progress_deadline_seconds.is_some(), "progressDeadlineSeconds", "use --timeout"),
        (spec.paused == Some(true), "paused", "the Pods are started all the same"),
    ];
    given.into_iter().filter(|(is_given, ..)| *is_given).map(|(_, field, why)| (path.field(field), why)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn replicas_have_different_names() {
        let names: HashSet<String> = (0..20_000).map(letters).collect();
        assert_eq!(names.len(), 20_000);
    }
}
