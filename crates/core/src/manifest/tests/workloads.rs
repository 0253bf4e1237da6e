//! The Pods of Jobs and Deployments.

use serde_json::{Value, json};

use super::*;

fn job_text(spec: &str, template: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: sum, namespace: ns}}\nspec:\n{spec}  template:\n    metadata: {{labels: {{app: sum}}, annotations: {{x: z}}}}\n    spec:\n      restartPolicy: Never\n{template}      containers: [{{name: c, image: i}}]\n"
    )
}

fn group(manifests: &Manifests) -> &PodGroup {
    assert_eq!(manifests.groups.len(), 1);
    &manifests.groups[0]
}

fn names(group: &PodGroup) -> Vec<&str> {
    group.pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn a_job_is_as_many_pods_as_completions_in_waves_of_parallelism() {
    let cases = [
        ("", 1, 1),
        ("  parallelism: 3\n", 3, 3),
        ("  completions: 5\n", 5, 1),
        ("  completions: 5\n  parallelism: 2\n", 5, 2),
        ("  completions: 2\n  parallelism: 9\n", 2, 2),
        ("  completions: 0\n", 0, 1),
    ];
    for (spec, pods, parallelism) in cases {
        let manifests = good(job_text(spec, ""));
        let group = group(&manifests);
        assert_eq!((group.pods.len(), group.parallelism), (pods, parallelism), "{spec:?}");
        assert_eq!((group.origin, group.namespace.as_str(), group.name.as_str()), (Origin::Job, "ns", "sum"));
        let expected: Vec<String> = (0..pods).map(|i| format!("sum-{i}")).collect();
        assert_eq!(names(group), expected);
    }
}

#[test]
fn a_jobs_pod_has_upstreams_labels_and_its_own_uid() {
    let manifests = good(job_text("  completions: 2\n", ""));
    let group = group(&manifests);
    let pod = serde_json::to_value(&*group.pods[1]).unwrap();
    let owner = &pod["metadata"]["ownerReferences"][0];
    let uid = owner["uid"].as_str().unwrap();
    assert_eq!(
        *owner,
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": uid, "controller": true, "blockOwnerDeletion": true})
    );
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "sum", "batch.kubernetes.io/job-name": "sum", "job-name": "sum",
            "batch.kubernetes.io/controller-uid": uid, "controller-uid": uid})
    );
    assert_eq!(pod["metadata"]["annotations"], json!({"x": "z"}));
    assert_eq!(pod["metadata"]["namespace"], "ns");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30, "defaults are filled in");
    assert_ne!(group.pods[0].metadata.uid, group.pods[1].metadata.uid);
    assert_eq!(good(job_text("  completions: 2\n", "")), manifests, "the same again");
}

#[test]
fn an_indexed_job_tells_each_pod_its_index() {
    let manifests = good(job_text(
        "  completions: 2\n  completionMode: Indexed\n",
        "      initContainers: [{name: i, image: i, env: [{name: JOB_COMPLETION_INDEX, value: mine}]}]\n",
    ));
    let pod = serde_json::to_value(&*group(&manifests).pods[1]).unwrap();
    let key = "batch.kubernetes.io/job-completion-index";
    assert_eq!(pod["metadata"]["labels"][key], "1");
    assert_eq!(pod["metadata"]["annotations"][key], "1");
    assert_eq!(pod["spec"]["hostname"], "sum-1");
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1",
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
    );
    assert_eq!(pod["spec"]["initContainers"][0]["env"][0]["value"], "mine", "what is there stays");
}

#[test]
fn fields_of_a_job_without_effect_are_named() {
    let manifests = good(job_text("  backoffLimit: 4\n  ttlSecondsAfterFinished: 9\n  activeDeadlineSeconds: 8\n", ""));
    let found = lines(&manifests.warnings);
    assert_eq!(
        found,
        [
            "m.yaml:5:17: spec.backoffLimit: has no effect here: a Pod that fails is not replaced by another one",
            "m.yaml:6:28: spec.ttlSecondsAfterFinished: has no effect here: finished Pods stay until removed",
            "m.yaml:7:26: spec.activeDeadlineSeconds: has no effect here: set it in the template, or use --timeout",
        ]
    );
}

#[test]
fn a_suspended_job_has_no_pods_and_says_so() {
    for spec in ["  suspend: true\n  completions: 3\n", "  parallelism: 0\n  completions: 3\n"] {
        let manifests = good(job_text(spec, ""));
        assert_eq!(group(&manifests).pods.len(), 0);
        assert!(manifests.warnings[0].message.contains("none of"), "{:?}", manifests.warnings);
    }
}

#[test]
fn a_jobs_pods_may_not_restart_always() {
    for policy in ["      restartPolicy: Always\n", ""] {
        let text = job_text("", "").replace("      restartPolicy: Never\n", policy);
        let found = errors(text);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .ends_with("spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""),
            "{found:?}"
        );
    }
}

#[test]
fn problems_in_a_template_have_its_path() {
    let text = job_text("  completionMode: Indexed\n", "      dnsPolicy: Cluster\n      restartpolicy: x\n");
    let found = errors(text);
    assert_eq!(
        found,
        [
            r#"m.yaml:11:7: spec.template.spec.restartpolicy: unknown field "restartpolicy" (did you mean "restartPolicy"?)"#
        ]
    );
    let text = job_text("  completionMode: Indexed\n", "      dnsPolicy: Cluster\n");
    let found = errors(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("m.yaml:4:1: spec.completions: Required value"), "{found:?}");
    assert!(
        found[1].starts_with("m.yaml:10:18: spec.template.spec.dnsPolicy: Unsupported value: \"Cluster\""),
        "{found:?}"
    );
}

fn deployment_text(replicas: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n{replicas}  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web, tier: front}}}}\n    spec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

#[test]
fn a_deployment_is_its_replicas() {
    for (replicas, count) in [("", 1), ("  replicas: 3\n", 3), ("  replicas: 0\n", 0)] {
        let manifests = good(deployment_text(replicas));
        let group = group(&manifests);
        assert_eq!((group.pods.len(), group.parallelism), (count, count.max(1)));
        assert_eq!(group.origin, Origin::Deployment);
    }
    let manifests = good(deployment_text("  replicas: 3\n"));
    let pod = serde_json::to_value(&*group(&manifests).pods[0]).unwrap();
    let hash = pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "tier": "front", "pod-template-hash": hash}));
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with(&format!("web-{hash}-")) && name.len() == "web-".len() + hash.len() + 6, "{name}");
    assert_eq!(pod["metadata"]["namespace"], "default");
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    let other = good(deployment_text("  replicas: 3\n").replace("image: i", "image: j"));
    let other: Value = serde_json::to_value(&*group(&other).pods[0]).unwrap();
    assert_ne!(other["metadata"]["labels"]["pod-template-hash"], hash, "the hash follows the template");
}

#[test]
fn a_selector_must_match_the_template() {
    let cases = [
        ("{matchLabels: {app: other}}", false),
        ("{matchExpressions: [{key: app, operator: In, values: [web, x]}]}", true),
        ("{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}", false),
        ("{matchExpressions: [{key: tier, operator: Exists}, {key: gone, operator: DoesNotExist}]}", true),
        ("{matchExpressions: [{key: app, operator: Near}]}", false),
        ("{}", false),
    ];
    for (selector, matches) in cases {
        let text = deployment_text("").replace("{matchLabels: {app: web}}", selector);
        assert_eq!(parse_one(text).is_ok(), matches, "{selector}");
    }
    let text = deployment_text("").replace("{matchLabels: {app: web}}", "{matchLabels: {app: other}}");
    assert_eq!(
        errors(text),
        [
            "m.yaml:7:16: spec.template.metadata.labels: Invalid value: \"app=web,tier=front\": `selector` does not match template `labels`"
        ]
    );
}

#[test]
fn a_deployments_pods_only_restart_always() {
    let text = deployment_text("")
        .replace("spec: {containers", "spec: {restartPolicy: Never, activeDeadlineSeconds: 3, containers");
    let found = errors(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0]
            .contains("spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"")
    );
    assert!(found[1].contains("spec.template.spec.activeDeadlineSeconds: Forbidden"));
}

#[test]
fn absurd_numbers_of_pods_are_refused_before_they_are_made() {
    let found = errors(deployment_text("  replicas: 2000000000\n"));
    assert_eq!(found, ["m.yaml:5:13: spec.replicas: with these 2000000000 Pods there would be more than 10000"]);
    let found = errors(job_text("  completions: 2000000000\n", ""));
    assert_eq!(found.len(), 1);
}

#[test]
fn a_pod_named_like_a_jobs_pod_is_a_duplicate() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: sum-0, namespace: ns}\nspec: {containers: [{name: c, image: i}]}\n";
    let found = errors(format!("{}{pod}", job_text("", "")));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("duplicate Pod \"ns/sum-0\"; the first is at m.yaml:3:18"), "{found:?}");
}
