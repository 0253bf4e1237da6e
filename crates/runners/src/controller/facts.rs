//! What a Pod's status says of its runner. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::judges::{View, first_sight};
use crate::engine::Seen;
use crate::ids::Slot;
use crate::life::{EndClass, Ended, Outlook, PodFacts, Record};
use crate::set::RUNNER_CONTAINER;

/// A Pod whose grace is over by so much and whose containers still seem to run is on a node that is lost.
const LOST: SignedDuration = SignedDuration::from_mins(1);

/// The Pod as the engine of its set knows it, for who sees it once; `None`: it is none of the set's own.
#[must_use]
pub fn seen(set: &str, pod: &Pod, now: Timestamp) -> Option<Seen> {
    let slot = Slot::of_pod(set, pod.metadata.name.as_deref()?)?;
    seen_as(slot, pod, first_sight(pod, now), now)
}

/// The Pod of a slot, with what its judge says of it.
pub(super) fn seen_as(slot: Slot, pod: &Pod, view: View, now: Timestamp) -> Option<Seen> {
    let none = BTreeMap::new();
    let record = Record::parse(pod.metadata.annotations.as_ref().unwrap_or(&none));
    Some(Seen { slot, record, facts: facts_as(pod, view, now)? })
}

/// What the Pod says to who sees it once; `None`: it was never in a cluster.
#[must_use]
pub fn facts(pod: &Pod, now: Timestamp) -> Option<PodFacts> {
    facts_as(pod, first_sight(pod, now), now)
}

fn facts_as(pod: &Pod, view: View, now: Timestamp) -> Option<PodFacts> {
    let uid = pod.metadata.uid.clone()?;
    let status = pod.status.as_ref();
    let scheduled = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    let running_since = runner(pod)
        .and_then(|container| container.state.as_ref()?.running.as_ref())
        .map(|running| running.started_at.as_ref().map_or(now, |time| time.0));
    let deleting_since = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let ended = ended(pod, &view, scheduled, now);
    let overdue = deleting_since.is_some_and(|end| end + LOST <= now);
    let node_lost = ended.is_none() && scheduled && (reason == "NodeLost" || overdue);
    let outlook = match view {
        View::Settled(outlook) => outlook,
        View::Settling(fault) => Outlook::Troubled(fault),
    };
    Some(PodFacts { uid, scheduled, running_since, deleting_since, ended, node_lost, outlook })
}

/// When the facts change although the Pod does not.
#[must_use]
pub(super) fn changes_at(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let overdue = pod.metadata.deletion_timestamp.as_ref()?.0 + LOST;
    (now < overdue).then_some(overdue)
}

fn runner(pod: &Pod) -> Option<&ContainerStatus> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    containers.iter().find(|container| container.name == RUNNER_CONTAINER)
}

/// As upstream's buckets have it: the phase, or the runner's container although others run on, or a deletion before any
/// node had it. A bad end is none before its cause has settled.
fn ended(pod: &Pod, view: &View, scheduled: bool, now: Timestamp) -> Option<Ended> {
    let status = pod.status.as_ref();
    let exit = runner(pod).and_then(|container| container.state.as_ref()?.terminated.as_ref());
    let at = exit.and_then(|exit| exit.finished_at.as_ref()).map_or(now, |time| time.0);
    let code = exit.map(|exit| exit.exit_code);
    let class = match (status.and_then(|status| status.phase.as_deref()).unwrap_or_default(), code) {
        // Its containers are not told: nobody will tell any more.
        ("Succeeded", None) | (_, Some(0)) => EndClass::Success,
        ("Succeeded" | "Failed", _) | (_, Some(_)) => match view {
            View::Settling(_) => return None,
            View::Settled(outlook) => outlook.hopeless().map_or(EndClass::Runner, |fault| EndClass::of(fault.cause)),
        },
        (_, None) if pod.metadata.deletion_timestamp.is_some() && !scheduled => {
            return Some(Ended { class: EndClass::Infrastructure, at: now });
        }
        (_, None) => return None,
    };
    Some(Ended { class, at })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    pub(in crate::controller) fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "linux-3", "uid": "u"},
            "spec": {"containers": [{"name": "runner"}], "nodeName": "n", "restartPolicy": "Never"},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                 "state": {"running": {"startedAt": "2027-01-15T07:00:00Z"}}},
            ]},
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn exit(code: i32) -> Value {
        json!({"terminated": {"exitCode": code, "finishedAt": "2027-01-15T07:30:00Z"}})
    }

    fn class(pod: &Pod) -> Option<EndClass> {
        facts(pod, NOW).unwrap().ended.map(|ended| ended.class)
    }

    #[test]
    fn a_running_pod_is_on_a_node_and_has_not_ended() {
        let facts = facts(&pod(|_| {}), NOW).unwrap();
        assert!(facts.scheduled && facts.running_since == Some("2027-01-15T07:00:00Z".parse().unwrap()));
        assert_eq!((facts.ended, facts.deleting_since, facts.node_lost), (None, None, false));
    }

    /// The buckets of A.2: completed by its phase, by its runner's container alone, or deleted before it had a node.
    #[test]
    fn a_pod_has_ended_when_upstream_counts_it_as_completed() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change, EndClass); 9] = [
            ("its sidecar runs on", |p| p["status"]["containerStatuses"][0]["state"] = exit(0), EndClass::Success),
            ("crashed", |p| p["status"]["containerStatuses"][0]["state"] = exit(137), EndClass::Runner),
            ("succeeded", |p| p["status"] = json!({"phase": "Succeeded"}), EndClass::Success),
            ("failed", |p| p["status"] = json!({"phase": "Failed"}), EndClass::Runner),
            (
                "refused",
                |p| p["status"] = json!({"phase": "Failed", "reason": "NodeAffinity"}),
                EndClass::Infrastructure,
            ),
            ("evicted", |p| p["status"] = json!({"phase": "Failed", "reason": "Evicted"}), EndClass::Infrastructure),
            (
                "out of something",
                |p| p["status"] = json!({"phase": "Failed", "reason": "OutOfcpu"}),
                EndClass::Infrastructure,
            ),
            (
                "drained while it ran",
                |p| {
                    p["status"]["containerStatuses"][0]["state"] = exit(143);
                    p["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
                },
                EndClass::Infrastructure,
            ),
            (
                "deleted before it had a node",
                |p| {
                    p["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
                    p["spec"]["nodeName"] = Value::Null;
                    p["status"] = json!({"phase": "Pending"});
                },
                EndClass::Infrastructure,
            ),
        ];
        for (name, change, expected) in cases {
            assert_eq!(class(&pod(change)), Some(expected), "{name}");
        }
        for phase in ["Pending", "Unknown", ""] {
            assert_eq!(class(&pod(|p| p["status"] = json!({"phase": phase}))), None, "{phase}");
        }
    }

    /// The kubelet's word comes after the container's end: exit code 137 is not the runner's doing.
    #[test]
    fn a_bad_end_is_told_when_its_cause_has_settled() {
        let mut judges = super::super::judges::Judges::default();
        let mut class = |pod: &Pod, now| {
            let view = judges.look(Slot(3), pod, now);
            seen_as(Slot(3), pod, view, now).unwrap().facts.ended.map(|ended| ended.class)
        };
        let killed = pod(|p| p["status"]["containerStatuses"][0]["state"] = exit(137));
        let evicted = pod(|p| {
            p["status"]["containerStatuses"][0]["state"] = exit(137);
            p["status"]["phase"] = json!("Failed");
            p["status"]["reason"] = json!("Evicted");
        });
        assert_eq!(class(&killed, NOW), None);
        assert_eq!(class(&evicted, NOW + SignedDuration::from_millis(120)), None);
        assert_eq!(class(&evicted, NOW + SignedDuration::from_millis(200)), Some(EndClass::Infrastructure));
    }

    /// ARC 1307, 1369, 1575, 3010: the node is gone, the containers seem to run, and nobody will ever say otherwise.
    #[test]
    fn a_pod_that_outlives_its_grace_is_on_a_lost_node() {
        let pod = pod(|p| p["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
        let end: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
        assert!(!facts(&pod, end).unwrap().node_lost, "its grace is just over");
        assert_eq!(changes_at(&pod, end), Some(end + LOST));
        assert!(facts(&pod, end + LOST).unwrap().node_lost);
        assert_eq!(changes_at(&pod, end + LOST), None);
    }

    #[test]
    fn only_the_sets_own_names_are_its_pods() {
        assert_eq!(seen("linux", &pod(|_| {}), NOW).unwrap().slot, Slot(3));
        assert!(seen("windows", &pod(|_| {}), NOW).is_none());
        assert!(seen("linux", &pod(|_| {}), NOW).unwrap().record.is_err(), "nothing is written on it");
    }
}
