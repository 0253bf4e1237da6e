//! Container statuses, rule by rule.

use serde_json::json;

use super::bed::*;
use crate::runtime::{ContainerState, Exit, ExitCode};
use crate::status::ProbeResults;

#[test]
fn the_default_is_waiting() {
    assert_eq!(state(&Bed::new(two("Always")).compute(), "a"), "waiting:ContainerCreating");
    let pod = pod(&json!({"initContainers": named(&["i"]), "containers": named(&["a"])}));
    let status = Bed::new(pod).compute();
    assert_eq!(state(&status, "a"), "waiting:PodInitializing");
    assert_eq!(state(&status, "i"), "waiting:PodInitializing");
}

#[test]
fn the_newest_attempt_is_the_state_and_the_one_before_the_last_state() {
    let status = Bed::new(two("Always")).with("a", exited(7)).with("a", exited(3)).with("a", running()).compute();
    assert_eq!(state(&status, "a"), "running");
    assert_eq!(last_state(&status, "a"), "terminated:3:Error");
    let a = of(&status, "a");
    assert_eq!(a.restart_count, 2);
    assert_eq!(a.container_id.as_deref(), Some("minke://a-2"));
    assert_eq!((a.image.as_str(), a.image_id.as_str()), ("a:1", "sha256:1"));
}

#[test]
fn created_is_waiting_and_not_a_failed_start() {
    let status = Bed::new(two("Always")).with("a", ContainerState::Created).compute();
    assert_eq!(state(&status, "a"), "waiting:ContainerCreating");
    assert_eq!(of(&status, "a").restart_count, 0);
}

#[test]
fn allocated_resources_are_those_of_the_spec_once_there_is_a_container() {
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}});
    let pod = pod(&json!({"containers": [{"name": "a", "resources": resources}, {"name": "b"}]}));
    let bed = Bed::new(pod);
    assert_eq!(of(&bed.compute(), "a").allocated_resources, None);
    let status = bed.with("a", running()).with("b", running()).compute();
    let a = of(&status, "a");
    assert_eq!(a.allocated_resources.unwrap()["cpu"].0, "100m");
    assert_eq!(a.resources.unwrap().limits.unwrap()["memory"].0, "64Mi");
    assert_eq!((of(&status, "b").allocated_resources, of(&status, "b").resources), (None, None));
}

#[test]
fn times_are_cut_to_seconds() {
    let status = Bed::new(two("Always")).with("a", running()).compute();
    let started = of(&status, "a").state.unwrap().running.unwrap().started_at.unwrap();
    assert_eq!(started.0, at(10));
    assert_eq!(status.start_time.unwrap().0.subsec_nanosecond(), 0);
}

#[test]
fn reasons_of_exits() {
    for (code, reason, shown) in [
        (0, "", "terminated:0:Completed"),
        (1, "", "terminated:1:Error"),
        (137, "OOMKilled", "terminated:137:OOMKilled"),
        (128, "StartError", "terminated:128:StartError"),
    ] {
        let exit = Exit {
            code: ExitCode::Known(code),
            reason: reason.to_owned(),
            message: String::new(),
            finished_at: at(20),
        };
        let status = Bed::new(two("Never")).with("a", ContainerState::Exited { started_at: None, exit }).compute();
        assert_eq!(state(&status, "a"), shown);
    }
}

#[test]
fn a_lost_exit_code_is_137_and_says_that_it_is_not_known() {
    let status = Bed::new(two("Never")).with("a", ended(ExitCode::Lost)).compute();
    assert_eq!(state(&status, "a"), "terminated:137:ContainerStatusUnknown");
    let message = of(&status, "a").state.unwrap().terminated.unwrap().message.unwrap();
    assert!(message.contains("the exit code is not known"), "{message}");
    assert!(!of(&status, "a").ready);
}

#[test]
fn unknown_after_running_is_137_and_counts_as_a_restart_once() {
    let mut bed = Bed::new(two("Always"));
    bed.add("a", running());
    bed.step();
    bed.set("a", ContainerState::Unknown);
    for _ in 0..3 {
        let status = bed.step();
        assert_eq!(state(&status, "a"), "terminated:137:ContainerStatusUnknown");
        assert_eq!(of(&status, "a").restart_count, 1);
    }
}

#[test]
fn unknown_without_a_past_waits() {
    let status = Bed::new(two("Always")).with("a", ContainerState::Unknown).compute();
    assert_eq!(state(&status, "a"), "waiting:ContainerCreating");
}

#[test]
fn a_running_container_that_vanished_was_lost() {
    let mut bed = Bed::new(two("Always"));
    bed.add("a", running());
    bed.step();
    bed.runtime.containers.clear();
    for _ in 0..3 {
        let status = bed.step();
        assert_eq!(state(&status, "a"), "waiting:ContainerCreating");
        assert_eq!(last_state(&status, "a"), "terminated:137:ContainerStatusUnknown");
        assert_eq!(of(&status, "a").restart_count, 1);
    }
}

#[test]
fn a_vanished_container_of_a_pod_that_is_being_deleted_was_not_restarted() {
    let mut bed = Bed::new(two("Always"));
    bed.add("a", running());
    bed.step();
    bed.runtime.containers.clear();
    bed.pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(50)));
    assert_eq!(of(&bed.step(), "a").restart_count, 0);
}

#[test]
fn how_a_container_ended_stays_when_the_runtime_forgets_it() {
    let mut bed = Bed::new(two("Never"));
    bed.add("a", exited(5));
    bed.step();
    bed.runtime.containers.clear();
    assert_eq!(state(&bed.step(), "a"), "terminated:5:Error");
}

#[test]
fn restart_counts_never_go_back() {
    let mut bed = Bed::new(two("Always"));
    for _ in 0..4 {
        bed.add("a", exited(1));
    }
    assert_eq!(of(&bed.step(), "a").restart_count, 3);
    bed.runtime.containers.clear();
    bed.add("a", running());
    assert_eq!(of(&bed.step(), "a").restart_count, 3);
}

#[test]
fn a_container_that_can_not_be_started_again_waits_with_the_reason() {
    let mut bed = Bed::new(two("Always")).with("a", exited(1));
    bed.waits("a", "CrashLoopBackOff");
    bed.waits("b", "ErrImagePull");
    let status = bed.compute();
    assert_eq!(state(&status, "a"), "waiting:CrashLoopBackOff");
    assert_eq!(last_state(&status, "a"), "terminated:1:Error");
    assert_eq!(state(&status, "b"), "waiting:ErrImagePull");
    let waiting = of(&status, "b").state.unwrap().waiting.unwrap();
    assert_eq!(waiting.message.as_deref(), Some("why ErrImagePull"));
}

#[test]
fn a_reason_to_wait_does_not_hide_what_is_over_or_runs() {
    let mut never = Bed::new(two("Never")).with("a", exited(1)).with("b", running());
    never.waits("a", "CrashLoopBackOff");
    never.waits("b", "CrashLoopBackOff");
    let status = never.compute();
    assert_eq!(state(&status, "a"), "terminated:1:Error");
    assert_eq!(state(&status, "b"), "running");

    let mut stopped = Bed::new(two("Always")).with("a", exited(1));
    stopped.waits("a", "CrashLoopBackOff");
    stopped.is_terminal = true;
    assert_eq!(state(&stopped.compute(), "a"), "terminated:1:Error");
}

#[test]
fn a_finished_init_container_does_not_wait() {
    let pod = pod(&json!({"restartPolicy": "Always", "initContainers": named(&["i"]), "containers": named(&["a"])}));
    let mut bed = Bed::new(pod).with("i", exited(0));
    bed.waits("i", "RunContainerError");
    assert_eq!(state(&bed.compute(), "i"), "terminated:0:Completed");
}

#[test]
fn lost_init_containers_count_as_completed_once_regular_ones_exist() {
    let spec = json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": named(&["a"]),
    });
    let bed = Bed::new(pod(&spec)).with("a", running());
    let status = bed.compute();
    assert_eq!(state(&status, "i"), "terminated:0:Completed");
    assert_eq!(state(&status, "s"), "waiting:PodInitializing");
    assert!(of(&status, "i").ready);
}

#[test]
fn a_lost_init_container_does_not_throw_the_pod_back() {
    let spec = json!({"restartPolicy": "Always", "initContainers": named(&["i"]), "containers": named(&["a"])});
    let mut bed = Bed::new(pod(&spec)).with("a", running());
    bed.waits("i", "CrashLoopBackOff");
    assert_eq!(bed.phase(), "Running");
}

#[test]
fn ready_and_started_without_probes() {
    let spec = json!({"initContainers": named(&["i"]), "containers": named(&["a", "b"])});
    let bed = Bed::new(pod(&spec)).with("i", exited(0)).with("a", running()).with("b", exited(0));
    let status = bed.compute();
    let flags = |name| (of(&status, name).ready, of(&status, name).started);
    assert_eq!(flags("i"), (true, Some(false)));
    assert_eq!(flags("a"), (true, Some(true)));
    assert_eq!(flags("b"), (false, Some(false)));
}

#[test]
fn ready_and_started_with_probes() {
    for (started, ready, expected) in [
        (None, Some(false), (false, Some(true))),
        (None, Some(true), (true, Some(true))),
        (Some(false), Some(true), (false, Some(false))),
        (Some(true), None, (true, Some(true))),
    ] {
        let mut bed = Bed::new(two("Always")).with("a", running());
        bed.probes.insert("a".to_owned(), ProbeResults { started, ready, condemned: None });
        let a = of(&bed.compute(), "a");
        assert_eq!((a.ready, a.started), expected, "{started:?} {ready:?}");
    }
}

#[test]
fn statuses_are_sorted_by_name_and_init_containers_keep_their_order() {
    let spec = json!({"initContainers": named(&["z", "y"]), "containers": named(&["c", "a", "b"])});
    let status = Bed::new(pod(&spec)).compute();
    let names = |list: Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| -> Vec<String> {
        list.into_iter().flatten().map(|s| s.name).collect()
    };
    assert_eq!(names(status.container_statuses), ["a", "b", "c"]);
    assert_eq!(names(status.init_container_statuses), ["z", "y"]);
}

#[test]
fn termination_messages_are_shown_and_cut() {
    let mut bed = Bed::new(two("Never"));
    let id = bed.add("a", exited(1));
    bed.messages.insert(id.clone(), "bye".to_owned());
    let message = |bed: &Bed| of(&bed.compute(), "a").state.unwrap().terminated.unwrap().message.unwrap();
    assert_eq!(message(&bed), "bye");
    bed.messages.insert(id, "ü".repeat(9000));
    assert_eq!(message(&bed).len(), 4096);
}

#[test]
fn termination_messages_share_twelve_kibibytes() {
    let names: Vec<String> = (0..7).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bed = Bed::new(pod(&json!({"restartPolicy": "Never", "containers": named(&names)})));
    for name in &names {
        let id = bed.add(name, exited(1));
        bed.messages.insert(id, "x".repeat(5000));
    }
    let status = bed.compute();
    let length = |name: &&str| of(&status, name).state.unwrap().terminated.unwrap().message.unwrap().len();
    assert!(names.iter().map(length).sum::<usize>() <= 12 * 1024);
    assert_eq!(length(&"c0"), 12 * 1024 / 7);
}

#[test]
fn addresses_of_pod_and_host() {
    let mut bed = Bed::new(two("Always"));
    bed.runtime.ips = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    let status = bed.step();
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.0.0.2"), Some("192.0.2.1")));
    assert_eq!(status.pod_ips.unwrap().len(), 2);
    bed.runtime.ips.clear();
    assert_eq!(bed.step().pod_ip.as_deref(), Some("10.0.0.2"), "kept when the network is gone");
}

#[test]
fn start_time_is_set_once() {
    let mut bed = Bed::new(two("Always"));
    let first = bed.step().start_time;
    bed.now = at(9999);
    assert_eq!(bed.step().start_time, first);
}
