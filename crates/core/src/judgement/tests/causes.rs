//! Every row of the tables: what a cluster shows, and the cause that follows.

use std::time::Duration;

use serde_json::json;

use super::bed::*;
use crate::judgement::{Category, Cause, Presence, Role, Verdict};

/// A test a row: `name: Pod => Cause;` for what nothing heals.
macro_rules! permanent {
    ($($name:ident: $pod:expr => $cause:ident, $category:ident;)*) => { $(
        #[test]
        fn $name() {
            let failure = Judge::default().at_once(&$pod);
            assert_eq!((failure.cause, failure.cause.category()), (Cause::$cause, Category::$category), "{failure}");
        }
    )* };
}

/// The same for what has a budget, in seconds.
macro_rules! transient {
    ($($name:ident: $pod:expr => $cause:ident in $seconds:literal;)*) => { $(
        #[test]
        fn $name() {
            let (budget, failure) = Judge::default().in_time(&$pod);
            assert_eq!((failure.cause, budget), (Cause::$cause, Duration::from_secs($seconds)), "{failure}");
        }
    )* };
}

permanent! {
    waiting_invalid_image_name: app_waits("InvalidImageName", "bad") => InvalidImageName, Configuration;
    waiting_err_image_never_pull: app_waits("ErrImageNeverPull", "policy of Never") => ImageNeverPull, Configuration;
    waiting_signature_validation_failed: app_waits("SignatureValidationFailed", "") => ImageSignature, Configuration;
    waiting_err_image_pull_with_pull_access_denied: app_waits("ErrImagePull", "pull access denied for app") => ImageDenied, Configuration;
    waiting_err_image_pull_with_manifest_unknown: app_waits("ErrImagePull", "manifest unknown") => ImageNotFound, Configuration;
    waiting_crash_loop_without_last_state: app_waits("CrashLoopBackOff", "back-off 10s") => CrashLoop, Program;
    waiting_create_container_config_error_with_missing_object: app_waits("CreateContainerConfigError", "configmap \"x\" not found") => ObjectMissing, Configuration;
    waiting_create_container_config_error_with_missing_key: app_waits("CreateContainerConfigError", "couldn't find key a in Secret ns/s") => ObjectMissing, Configuration;
    waiting_create_container_config_error_run_as_non_root: app_waits("CreateContainerConfigError", "container has runAsNonRoot and image will run as root") => RunAsRoot, Configuration;
    waiting_create_container_config_error_other: app_waits("CreateContainerConfigError", "invalid subPath") => ContainerConfig, Configuration;
    waiting_create_container_error: app_waits("CreateContainerError", "failed to generate spec: bad device") => CreateContainer, Configuration;
    waiting_create_container_error_no_command: app_waits("CreateContainerError", "failed to generate container spec: no command specified") => CommandNotFound, Configuration;
    waiting_run_container_error: app_waits("RunContainerError", "error mounting \"/a\" to rootfs at \"/etc/passwd\": not a directory") => RunContainer, Configuration;
    waiting_run_container_error_command_not_found: app_waits("RunContainerError", "runc create failed: unable to start container process: exec: \"foo\": executable file not found in $PATH: unknown") => CommandNotFound, Configuration;
    waiting_run_container_error_wrong_architecture: app_waits("RunContainerError", "exec /bin/app: exec format error") => WrongArchitecture, Configuration;
    waiting_post_start_hook_error: app_waits("PostStartHookError", "exit 1") => HookFailed, Program;
    waiting_pre_start_hook_error: app_waits("PreStartHookError", "") => HookFailed, Program;
    waiting_pre_create_hook_error: app_waits("PreCreateHookError", "") => HookFailed, Program;
    terminated_with_an_error_while_others_run: app_is(&ended(1, "Error", "boom")) => ContainerFailed, Program;
    terminated_oom_killed: app_is(&ended(137, "OOMKilled", "")) => OomKilled, Program;
    terminated_start_error: app_is(&ended(128, "StartError", "exec: \"x\": executable file not found in $PATH")) => CommandNotFound, Configuration;
    terminated_container_cannot_run: app_is(&ended(126, "ContainerCannotRun", "exec: \"/x\": permission denied")) => CommandNotFound, Configuration;
    terminated_and_nobody_saw_how: app_is(&ended(137, "ContainerStatusUnknown", "")) => ExitUnknown, Infrastructure;
    failed_evicted: failed("Evicted", "The node was low on resource: memory. ") => Evicted, Infrastructure;
    failed_evicted_for_its_own_storage: failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ") => StorageLimit, Program;
    failed_evicted_for_an_empty_dir: failed("Evicted", "Usage of EmptyDir volume \"d\" exceeds the limit \"1Mi\". ") => StorageLimit, Program;
    failed_evicted_for_a_containers_storage: failed("Evicted", "Container app exceeded its local ephemeral storage limit \"1Mi\". ") => StorageLimit, Program;
    failed_preempting: failed("Preempting", "Preempted in order to admit critical pod") => Preempted, Infrastructure;
    failed_node_shutdown: failed("Terminated", "Pod was terminated in response to imminent node shutdown.") => NodeShutdown, Infrastructure;
    failed_node_shutdown_older_word: failed("Shutdown", "Node is shutting, evicting pods") => NodeShutdown, Infrastructure;
    failed_deadline_exceeded: failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline") => DeadlineExceeded, Program;
    failed_out_of_cpu: failed("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu") => OutOfResource, Infrastructure;
    failed_out_of_pods: failed("OutOfpods", "Node didn't have enough resource: pods") => OutOfResource, Infrastructure;
    failed_unexpected_admission_error: failed("UnexpectedAdmissionError", "Pod was rejected: x") => AdmissionRejected, Infrastructure;
    failed_node_affinity: failed("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed") => AdmissionRejected, Infrastructure;
    failed_node_ports: failed("NodePorts", "Pod was rejected: taken") => AdmissionRejected, Infrastructure;
    failed_by_an_unknown_admission: failed("NewReason", "Pod was rejected: for a reason of tomorrow") => AdmissionRejected, Infrastructure;
    failed_sysctl_forbidden: failed("SysctlForbidden", "Pod was rejected: forbidden sysctl") => AdmissionForbidden, Configuration;
    failed_app_armor: failed("AppArmor", "Pod was rejected: Cannot enforce AppArmor") => AdmissionForbidden, Configuration;
    failed_for_reasons_untold: failed("", "") => PodFailed, Infrastructure;
    deletion_timestamp: deleting(app_is(&runs()), 15, 30) => Deleted, Cancelled;
    disruption_with_deletion_preemption: disrupted("PreemptionByScheduler") => Preempted, Infrastructure;
    disruption_with_deletion_taint: disrupted("DeletionByTaintManager") => TaintEvicted, Infrastructure;
    disruption_with_deletion_eviction_api: disrupted("EvictionByEvictionAPI") => ApiEvicted, Infrastructure;
    disruption_with_deletion_pod_gc: disrupted("DeletionByPodGC") => GarbageCollected, Infrastructure;
    disruption_with_deletion_of_others: disrupted("SomethingNew") => Disrupted, Infrastructure;
}

transient! {
    waiting_err_image_pull_neutral: app_waits("ErrImagePull", "rpc error") => ImagePullFailed in 60;
    waiting_err_image_pull_with_bare_deadline: app_waits("ErrImagePull", "context deadline exceeded") => ImagePullFailed in 60;
    waiting_image_pull_back_off_neutral: app_waits("ImagePullBackOff", "Back-off pulling image") => ImagePullFailed in 60;
    waiting_err_image_pull_with_no_such_host: app_waits("ErrImagePull", "dial tcp: lookup registry.example: no such host") => RegistryUnavailable in 60;
    waiting_err_image_pull_rate_limited: app_waits("ErrImagePull", "toomanyrequests: slow down") => RegistryRateLimit in 60;
    waiting_registry_unavailable: app_waits("RegistryUnavailable", "it answers 503") => RegistryUnavailable in 60;
    waiting_image_inspect_error: app_waits("ImageInspectError", "Failed to inspect image") => ImageInspect in 60;
    waiting_create_container_config_error_caches: app_waits("CreateContainerConfigError", "failed to sync configmap cache: timed out waiting for the condition") => RuntimeSlow in 60;
    waiting_create_container_error_deadline: app_waits("CreateContainerError", "context deadline exceeded") => RuntimeSlow in 60;
    waiting_run_container_error_deadline: app_waits("RunContainerError", "context deadline exceeded") => RuntimeSlow in 60;
    waiting_create_container_error_reserved_name: app_waits("CreateContainerError", "failed to reserve container name \"x\": name \"x\" is reserved for \"y\"") => RuntimeSlow in 60;
    waiting_create_container_error_snapshot_left_behind: app_waits("CreateContainerError", "failed to rename: rename /r/snapshots/new-1 /r/snapshots/141: file exists") => RuntimeSlow in 60;
    waiting_create_pod_sandbox_error: app_waits("CreatePodSandboxError", "cni failed") => SandboxFailed in 60;
    waiting_for_an_unknown_reason: app_waits("BrandNewReason", "words") => UnknownWaiting in 60;
    phase_unknown: pod(&json!({"phase": "Unknown"})) => NodeLost in 60;
    reason_node_lost: pod(&json!({"phase": "Running", "reason": "NodeLost", "message": "m"})) => NodeLost in 60;
    unready_because_of_its_node: with_condition(app_is(&runs()), "Ready", "False", "NodeNotReady", "", 15) => NodeLost in 60;
    no_node_can_take_the_pod: unschedulable("0/3 nodes are available: 3 Insufficient cpu.") => Unschedulable in 300;
}

fn disrupted(reason: &str) -> k8s_openapi::api::core::v1::Pod {
    deleting(with_condition(app_is(&runs()), "DisruptionTarget", "True", reason, "why", 14), 15, 30)
}

fn unschedulable(message: &str) -> k8s_openapi::api::core::v1::Pod {
    let pod = pod_with(&json!({"nodeName": ""}), &json!({"phase": "Pending"}));
    with_condition(pod, "PodScheduled", "False", "Unschedulable", message, 20)
}

#[test]
fn evidence_has_container_image_code_signal_message_and_node() {
    let failure = Judge::default().at_once(&app_is(&ended(139, "Error", "boom\n")));
    let evidence = failure.evidence;
    assert_eq!((evidence.container.as_deref(), evidence.role), (Some("app"), Some(Role::Main)));
    assert_eq!((evidence.image.as_deref(), evidence.node.as_deref()), (Some(IMAGE), Some("n1")));
    assert_eq!((evidence.exit_code, evidence.signal), (Some(139), Some(11)));
    assert_eq!((evidence.reason.as_str(), evidence.message.as_str()), ("Error", "boom"));
    let oom = Judge::default().at_once(&app_is(&ended(137, "OOMKilled", ""))).evidence;
    assert_eq!(oom.memory_limit.as_deref(), Some("64Mi"));
}

#[test]
fn unknown_waiting_reasons_are_told_verbatim() {
    let (_, failure) = Judge::default().in_time(&app_waits("BrandNewReason", "words of tomorrow"));
    assert_eq!(
        failure.to_string(),
        "UnknownWaiting: container app (image registry.example/app:1): BrandNewReason: words of tomorrow"
    );
}

#[test]
fn a_scheduling_gate_holds_for_ever_unless_told_otherwise() {
    let pod = pod_with(&json!({"nodeName": ""}), &json!({"phase": "Pending"}));
    let pod = with_condition(pod, "PodScheduled", "False", "SchedulingGated", "", 20);
    let verdict = Judge::default().see(&pod);
    assert!(
        matches!(&verdict, Verdict::Waiting { why: Some(why), until: None, .. } if why.cause == Cause::SchedulingGated),
        "{verdict:?}"
    );
}

#[test]
fn a_claim_that_does_not_exist_is_no_matter_of_room() {
    let pod = unschedulable("0/1 nodes are available: persistentvolumeclaim \"data\" not found.");
    assert_eq!(cause(&pod), Cause::VolumeMissing);
}

#[test]
fn a_pod_that_no_scheduler_looks_at_is_unschedulable_in_the_end() {
    let pod = pod_with(&json!({"nodeName": ""}), &json!({"phase": "Pending"}));
    let mut judge = Judge::default();
    assert!(matches!(judge.see(&pod), Verdict::Waiting { why: None, until: Some(_), .. }));
    judge.after(300_000);
    assert_eq!(judge.at_once(&pod).cause, Cause::Unschedulable);
}

#[test]
fn an_init_container_that_fails_is_named_with_its_code() {
    let init = [container("setup", &ended(3, "Error", "no disk"))];
    let failure = Judge::default().at_once(&pod(&json!({"phase": "Failed", "initContainerStatuses": init})));
    assert_eq!((failure.cause, failure.evidence.exit_code), (Cause::InitFailed, Some(3)));
    assert_eq!((failure.evidence.container.as_deref(), failure.evidence.role), (Some("setup"), Some(Role::Init)));
}

#[test]
fn ends_of_sidecars_fail_nothing() {
    let mut judge = Judge::default();
    let status = json!({"phase": "Running",
        "initContainerStatuses": [container("setup", &ended(0, "Completed", "")), container("proxy", &ended(1, "Error", ""))],
        "containerStatuses": [container("app", &runs()), container("helper", &runs())]});
    judge.see(&pod(&status));
    assert!(!judge.after(10_000).see(&pod(&status)).is_final());
}

#[test]
fn a_sidecar_that_starts_is_no_failed_init_container() {
    let status = json!({"phase": "Pending", "initContainerStatuses": [
        container("setup", &ended(0, "Completed", "")), container("proxy", &runs())]});
    assert!(matches!(Judge::default().see(&pod(&status)), Verdict::Waiting { why: None, .. }));
}

#[test]
fn a_sidecar_in_a_crash_loop_holds_the_pod_up() {
    let init =
        [container("setup", &ended(0, "Completed", "")), container("proxy", &waits("CrashLoopBackOff", "back-off"))];
    let failure = Judge::default().at_once(&pod(&json!({"phase": "Pending", "initContainerStatuses": init})));
    assert_eq!((failure.cause, failure.evidence.role), (Cause::CrashLoop, Some(Role::Sidecar)));
}

#[test]
fn a_crash_loop_tells_how_the_container_ends() {
    let looped = |last: serde_json::Value| {
        let mut status = container("app", &waits("CrashLoopBackOff", "back-off 10s"));
        status["lastState"] = last;
        status["restartCount"] = json!(2);
        pod_with(&json!({"restartPolicy": "Always"}), &json!({"phase": "Running", "containerStatuses": [status]}))
    };
    let failure = Judge::default().at_once(&looped(ended(7, "Error", "no database")));
    assert_eq!(
        (failure.cause, failure.evidence.exit_code, failure.evidence.restarts),
        (Cause::CrashLoop, Some(7), Some(2))
    );
    assert_eq!(failure.evidence.message, "back-off 10s: no database");
    assert_eq!(cause(&looped(ended(137, "OOMKilled", ""))), Cause::OomKilled);
    assert_eq!(
        cause(&looped(ended(128, "StartError", "exec: \"x\": executable file not found in $PATH"))),
        Cause::CommandNotFound
    );
}

#[test]
fn services_end_with_a_note_and_not_with_the_pod() {
    let mut judge = Judge::default();
    judge.policy.services.insert("helper".to_owned());
    let statuses = [container("app", &runs()), container("helper", &ended(137, "OOMKilled", ""))];
    let running = with_condition(
        pod(&json!({"phase": "Running", "containerStatuses": statuses,
        "initContainerStatuses": [container("setup", &ended(0, "Completed", "")), container("proxy", &runs())]})),
        "Ready",
        "True",
        "",
        "",
        5,
    );
    let Verdict::Healthy(healthy) = judge.see(&running) else { panic!("{:?}", judge.see(&running)) };
    assert_eq!(healthy.notes[0].cause, Cause::OomKilled);
    let statuses = [container("app", &ended(0, "Completed", "")), container("helper", &ended(1, "Error", ""))];
    assert_eq!(judge.see(&pod(&json!({"phase": "Failed", "containerStatuses": statuses}))), Verdict::Succeeded);
}

#[test]
fn ephemeral_containers_are_never_looked_at() {
    let mut status =
        json!({"phase": "Running", "containerStatuses": [container("app", &runs()), container("helper", &runs())]});
    status["ephemeralContainerStatuses"] = json!([container("debug", &waits("ErrImagePull", "not found"))]);
    assert!(!matches!(Judge::default().see(&pod(&status)), Verdict::Doomed { .. } | Verdict::Failed(_)));
}

#[test]
fn a_container_that_is_ready_and_says_that_it_waits_is_not_looked_at() {
    let mut status = container("app", &waits("CrashLoopBackOff", ""));
    status["ready"] = json!(true);
    let verdict = Judge::default().see(&pod(&json!({"phase": "Running", "containerStatuses": [status]})));
    assert!(!matches!(verdict, Verdict::Doomed { .. }), "{verdict:?}");
}

#[test]
fn a_container_started_again_against_its_policy_is_the_end() {
    let mut status = container("app", &runs());
    status["restartCount"] = json!(1);
    status["lastState"] = ended(137, "Error", "");
    assert_eq!(
        cause(&pod(&json!({"phase": "Running", "containerStatuses": [status.clone()]}))),
        Cause::RestartedDespiteNever
    );
    let allowed =
        pod_with(&json!({"restartPolicy": "OnFailure"}), &json!({"phase": "Running", "containerStatuses": [status]}));
    assert!(!matches!(Judge::default().see(&allowed), Verdict::Doomed { .. }));
}

#[test]
fn an_end_that_is_followed_by_a_start_is_none() {
    let statuses = [container("app", &ended(1, "Error", "")), container("helper", &runs())];
    let pod =
        pod_with(&json!({"restartPolicy": "OnFailure"}), &json!({"phase": "Running", "containerStatuses": statuses}));
    assert!(matches!(Judge::default().see(&pod), Verdict::Waiting { why: None, .. }));
}

#[test]
fn events_tell_of_sandboxes_and_volumes_while_nothing_has_begun() {
    let creating = app_waits("ContainerCreating", "");
    let with = |reason: &str, message: &str| Judge { events: vec![event(reason, message, 5)], ..Judge::default() };
    let slow = [
        ("FailedCreatePodSandBox", "plugin type=\"bridge\" failed: no addresses", Cause::SandboxFailed, 60),
        ("FailedAttachVolume", "Multi-Attach error for volume \"v\"", Cause::VolumeAttach, 120),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"v\": driver name x not found in the list",
            Cause::VolumeMount,
            120,
        ),
        ("FailedMount", "failed to sync secret cache: timed out waiting for the condition", Cause::VolumeMount, 120),
    ];
    for (reason, message, cause, seconds) in slow {
        let (budget, failure) = with(reason, message).in_time(&creating);
        assert_eq!((failure.cause, budget.as_secs()), (cause, seconds), "{message}");
    }
    let at_once = [
        ("FailedCreatePodSandBox", "no runtime for \"kata\" is configured", Cause::RuntimeClassMissing),
        (
            "FailedCreatePodSandBox",
            "the runtime does not support user namespaces: not supported",
            Cause::UserNamespaces,
        ),
        ("FailedMount", "MountVolume.SetUp failed for volume \"v\" : configmap \"x\" not found", Cause::VolumeMissing),
        ("FailedMount", "hostPath type check failed: /x is not a directory", Cause::VolumeMissing),
        ("FailedMount", "references non-existent secret key: a", Cause::VolumeMissing),
    ];
    for (reason, message, cause) in at_once {
        assert_eq!(with(reason, message).at_once(&creating).cause, cause, "{message}");
    }
    let verdict = with("FailedMount", "configmap \"x\" not found").see(&app_is(&runs()));
    assert!(!matches!(verdict, Verdict::Doomed { .. }), "a cured event counts: {verdict:?}");
}

#[test]
fn a_kill_by_a_probe_is_told_as_such() {
    let killed = event("Killing", "Container app failed liveness probe", 9);
    let failure = Judge { events: vec![killed], ..Judge::default() }.at_once(&app_is(&ended(137, "Error", "")));
    assert_eq!(failure.cause, Cause::LivenessFailed);
    let other = event("Killing", "Container app2 failed liveness probe", 9);
    let failure = Judge { events: vec![other], ..Judge::default() }.at_once(&app_is(&ended(137, "Error", "")));
    assert_eq!(failure.cause, Cause::ContainerFailed);
}

#[test]
fn a_node_that_is_silent_is_suspected_and_then_lost() {
    let mut judge = Judge { node: Some(node("Unknown", &[])), ..Judge::default() };
    assert_eq!(judge.waits_for(&app_is(&runs())).cause, Cause::NodeLost);
    judge.node = Some(node("True", &[]));
    assert!(!matches!(judge.after(50_000).see(&app_is(&runs())), Verdict::Waiting { why: Some(_), .. }));
    judge.node = Some(node("Unknown", &[]));
    let (budget, failure) = judge.in_time(&app_is(&runs()));
    assert_eq!((failure.cause, budget.as_secs()), (Cause::NodeLost, 60));
}

#[test]
fn a_node_that_is_about_to_go_is_an_early_warning() {
    for taint in ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn"] {
        let mut judge = Judge { node: Some(node("True", &[taint])), ..Judge::default() };
        let verdict = judge.see(&app_is(&runs()));
        assert!(
            matches!(&verdict, Verdict::Doomed { why, until: None } if why.cause == Cause::NodeGoing),
            "{verdict:?}"
        );
        judge.node = Some(node("True", &["dedicated"]));
        assert!(!matches!(judge.see(&app_is(&runs())), Verdict::Doomed { .. }));
    }
}

#[test]
fn a_pod_that_is_gone_was_deleted_and_one_with_another_uid_took_its_place() {
    for (presence, cause) in [(Presence::Gone, Cause::Deleted), (Presence::Replaced, Cause::Replaced)] {
        let mut judge = Judge::default();
        judge.see_as(&app_is(&runs()), presence);
        let verdict = judge.after(200).see_as(&app_is(&runs()), presence);
        assert!(matches!(&verdict, Verdict::Failed(f) if f.cause == cause), "{verdict:?}");
    }
}

#[test]
fn ones_own_deletion_is_told_apart() {
    let mut judge = Judge { own_deletion: true, ..Judge::default() };
    assert_eq!(judge.at_once(&disrupted("EvictionByEvictionAPI")).cause, Cause::OwnDeletion);
}
