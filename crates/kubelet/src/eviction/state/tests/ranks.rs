//! Whom an eviction meets first, what is said of it, and limits on ephemeral storage.

use super::*;
use crate::eviction::limits::{Limit, exceeded, has_limits};
use crate::eviction::rank::rank;

fn ranked(candidates: &[Candidate], signal: Signal) -> Vec<String> {
    rank(candidates, signal, false).iter().map(|c| c.uid.to_string()).collect()
}

#[test]
fn ordered_by_exceeds_request_memory() {
    let pods = [memory_user("below", -1, 200, 199), memory_user("exceeds", 0, 100, 101)];
    assert_eq!(ranked(&pods, Signal::Memory), ["exceeds", "below"], "even over a lower priority");
}

#[test]
fn ordered_by_priority_then_by_memory_above_the_request() {
    let pods = [
        memory_user("high-far-above", 10, 100, 900),
        memory_user("low-little-above", 0, 100, 101),
        memory_user("low-far-above", 0, 100, 500),
        memory_user("low-asks-nothing", 0, 0, 300),
    ];
    let expected = ["low-far-above", "low-asks-nothing", "low-little-above", "high-far-above"];
    assert_eq!(ranked(&pods, Signal::Memory), expected);
}

#[test]
fn pods_of_which_nothing_is_known_come_first() {
    let mut unknown = memory_user("unknown", 100, 100, 0);
    unknown.used = None;
    let pods = [memory_user("exceeds", 0, 100, 500), unknown];
    for signal in Signal::ALL {
        assert_eq!(ranked(&pods, signal)[0], "unknown", "{signal}");
    }
}

#[test]
fn ordered_by_exceeds_request_disk_then_priority_then_disk() {
    let pods = [
        disk_user("below", 0, 100, 90, 1),
        disk_user("high", 5, 100, 900, 1),
        disk_user("little", 0, 100, 101, 1),
        disk_user("much", 0, 100, 300, 1),
    ];
    for signal in [Signal::Nodefs, Signal::Imagefs] {
        assert_eq!(ranked(&pods, signal), ["much", "little", "high", "below"], "{signal}");
    }
    let by_priority = rank(&pods, Signal::Imagefs, true);
    assert_eq!(by_priority.last().unwrap().uid, uid("high"), "what images have for themselves, no pod uses");
}

#[test]
fn ordered_by_inodes() {
    let pods = [disk_user("few", 0, 900, 900, 10), disk_user("many", 0, 900, 1, 1000), disk_user("none", 0, 0, 1, 0)];
    assert_eq!(ranked(&pods, Signal::NodefsInodes), ["many", "few", "none"]);
}

#[test]
fn ordered_by_priority_process() {
    let with = |name: &str, priority, pids| {
        let mut candidate = memory_user(name, priority, 0, 0);
        candidate.used.as_mut().unwrap().pids = pids;
        candidate
    };
    let pods = [with("high", 1, 5000), with("few", 0, 3), with("many", 0, 300)];
    assert_eq!(ranked(&pods, Signal::Pid), ["many", "few", "high"]);
}

#[test]
fn storage_is_layers_logs_and_directories_on_disk() {
    let mut candidate = disk_user("a", 0, 0, 10, 1);
    let used = candidate.used.as_mut().unwrap();
    used.containers[0].logs = Space { bytes: 5 * MIB, inodes: 2 };
    let space = Space { bytes: 100 * MIB, inodes: 4 };
    let volume = |name: &str, in_memory| VolumeUsed { name: name.to_owned(), in_memory, space };
    used.volumes = vec![volume("disk", false), volume("memory", true)];
    assert_eq!(used.storage(), Space { bytes: 115 * MIB, inodes: 7 });
}

#[test]
fn eviction_message_in_upstreams_words() {
    let mut candidate = memory_user("a", 0, 100, 300);
    let observed = memory(53);
    let message = |candidate: &Candidate, threshold| eviction_message(candidate, &threshold, &observed);
    assert_eq!(
        message(&candidate, hard_memory()),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 53Mi. Container c was using \
         300Mi, request is 100Mi, has larger consumption of memory. "
    );
    candidate.used.as_mut().unwrap().containers[0].memory_bytes = Some(50 * MIB);
    assert_eq!(
        message(&candidate, hard_memory()),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 53Mi. "
    );
    let inodes = Threshold::hard(Signal::NodefsInodes, ThresholdValue::Quantity(5));
    assert_eq!(message(&candidate, inodes), "The node was low on resource: inodes. ");
    let disk = disk_user("a", 0, 1, 3, 1);
    let nodefs = Threshold::hard(Signal::Nodefs, ThresholdValue::Quantity(5));
    assert_eq!(
        message(&disk, nodefs),
        "The node was low on resource: ephemeral-storage. Container c was using 3Mi, request is 1Mi, has larger \
         consumption of ephemeral-storage. "
    );
}

fn limited(limits: &Value, volumes: &Value, used: Used) -> Candidate {
    let containers = json!([
        {"name": "a", "resources": {"limits": limits["a"]}},
        {"name": "b", "resources": {"limits": limits["b"]}},
    ]);
    let pod = pod("p", 0, json!({"containers": containers, "volumes": volumes}));
    Candidate { uid: uid("p"), pod, used: Some(used) }
}

fn uses(name: &str, writable: u64, logs: u64) -> ContainerUsed {
    let space = |mib: u64| Space { bytes: mib * MIB, inodes: 1 };
    ContainerUsed { name: name.to_owned(), memory_bytes: None, writable: space(writable), logs: space(logs) }
}

fn held(disk: u64, memory: u64) -> Vec<VolumeUsed> {
    let volume = |name: &str, in_memory, mib: u64| VolumeUsed {
        name: name.to_owned(),
        in_memory,
        space: Space { bytes: mib * MIB, inodes: 1 },
    };
    vec![volume("v", false, disk), volume("m", true, memory)]
}

#[test]
fn local_storage_eviction() {
    let storage = |amount: &str| json!({"ephemeral-storage": amount});
    let volumes = json!([
        {"name": "v", "emptyDir": {"sizeLimit": "100Mi"}},
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "0.1Gi"}},
    ]);
    let both = json!({"a": storage("1Gi"), "b": storage("500M")});
    let with = |containers: Vec<ContainerUsed>, volumes_held| {
        let used = Used { containers, volumes: volumes_held, ..Used::default() };
        exceeded(&limited(&both, &volumes, used))
    };
    assert_eq!(with(vec![uses("a", 900, 100)], held(100, 1)), None);
    let empty_dir = "Usage of EmptyDir volume \"v\" exceeds the limit \"100Mi\". ";
    assert_eq!(with(vec![], held(101, 1)), Some((Limit::EmptyDir, empty_dir.to_owned())));
    let (limit, message) = with(vec![], held(0, 200)).unwrap();
    assert_eq!(limit, Limit::EmptyDir, "{message}");
    let (limit, message) = with(vec![uses("a", 900, 100), uses("b", 440, 0)], held(100, 100)).unwrap();
    assert_eq!(limit, Limit::Pod, "{message}");
    assert!(
        message.starts_with("Pod ephemeral local storage usage exceeds the total limit of containers "),
        "{message}"
    );
    let container = "Container b exceeded its local ephemeral storage limit \"500M\". ";
    assert_eq!(with(vec![uses("b", 470, 10)], held(0, 0)), Some((Limit::Container, container.to_owned())));
}

#[test]
fn only_pods_with_limits_are_measured_at_every_look() {
    let with = |limits: &Value, volumes: &Value| has_limits(&limited(limits, volumes, Used::default()).pod);
    assert!(!with(&json!({}), &json!([{"name": "v", "emptyDir": {}}])));
    assert!(!with(&json!({"a": {"memory": "1Gi"}}), &json!([{"name": "v", "emptyDir": {"sizeLimit": "0"}}])));
    assert!(with(&json!({"a": {"ephemeral-storage": "1Gi"}}), &json!([])));
    assert!(with(&json!({}), &json!([{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}])));
}
