//! A Pod's row: how many containers are ready, one word for its status, how often it restarted and when last.
//!
//! The word is, from the weakest to the strongest: the phase; the status's reason; a scheduling gate; the first init
//! container that is not done; what the containers say, the first one last; `Terminating`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{age, condition, list, since, text, text_or, time};

/// What the containers add up to.
#[derive(Debug, Default)]
struct Sum {
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Sum {
    fn add_restarts(&mut self, status: &Value) {
        self.restarts = self.restarts.saturating_add(status["restartCount"].as_i64().unwrap_or(0));
        self.last_restart = self.last_restart.max(time(&status["lastState"]["terminated"]["finishedAt"]));
    }
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status, metadata) = (&pod["spec"], &pod["status"], &pod["metadata"]);
    let inits = list(&spec["initContainers"]);
    let sidecars = inits.iter().filter(|container| container["restartPolicy"] == "Always").count();
    let total = list(&spec["containers"]).len() + sidecars;
    let (word, sum) = word(pod);
    let restarts = match sum.last_restart {
        Some(last) if sum.restarts != 0 => format!("{} ({} ago)", sum.restarts, since(last, now)),
        _ => sum.restarts.to_string(),
    };
    let gates = list(&spec["readinessGates"]);
    let open = gates.iter().filter(|gate| condition(&status["conditions"], text(&gate["conditionType"])) == Some(true));
    let gates_cell = if gates.is_empty() { "<none>".to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        text(&metadata["name"]).into(),
        format!("{}/{total}", sum.ready).into(),
        word.into(),
        restarts.into(),
        age(&metadata["creationTimestamp"], now).into(),
        text_or(&status["podIPs"][0]["ip"], "<none>").into(),
        text_or(&spec["nodeName"], "<none>").into(),
        text_or(&status["nominatedNodeName"], "<none>").into(),
        gates_cell.into(),
    ]
}

/// What the row of a finished Pod says beside its cells.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let message = match pod["status"]["phase"].as_str()? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": pod["status"]["phase"], "message": message}]))
}

fn word(pod: &Value) -> (String, Sum) {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(&status["phase"]);
    let mut word = text_or(&status["reason"], phase).to_owned();
    let gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
    if list(&status["conditions"]).iter().any(gated) {
        word = "SchedulingGated".to_owned();
    }
    let (init, mut sum, sidecars) = inits(spec, status);
    let initialized = condition(&status["conditions"], "Initialized") == Some(true);
    let initializing = init.is_some();
    if let Some(init) = init {
        word = init;
    }
    if !initializing || initialized {
        sum = Sum { ready: sum.ready, ..sidecars };
        word = mains(status, word, &mut sum);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if text(&status["reason"]) == "NodeLost" {
            word = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            word = "Terminating".to_owned();
        }
    }
    (word, sum)
}

/// The word of the first init container that is not done, all that they add up to, and the restarts of sidecars alone.
fn inits(spec: &Value, status: &Value) -> (Option<String>, Sum, Sum) {
    let specs = list(&spec["initContainers"]);
    let (mut sum, mut sidecars) = (Sum::default(), Sum::default());
    for (at, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
        let sidecar = specs.iter().any(|spec| spec["name"] == container["name"] && spec["restartPolicy"] == "Always");
        sum.add_restarts(container);
        if sidecar {
            sidecars.add_restarts(container);
        }
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        if !terminated.is_null() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            sum.ready += usize::from(container["ready"] == true);
            continue;
        }
        let word = match text(&waiting["reason"]) {
            _ if !terminated.is_null() => format!("Init:{}", ended(terminated)),
            "" | "PodInitializing" => format!("Init:{at}/{}", specs.len()),
            reason => format!("Init:{reason}"),
        };
        return (Some(word), sum, sidecars);
    }
    (None, sum, sidecars)
}

/// How a container has ended: its reason, or its signal or code.
fn ended(terminated: &Value) -> String {
    match (text(&terminated["reason"]), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn mains(status: &Value, mut word: String, sum: &mut Sum) -> String {
    let mut running = false;
    let mut failed = None;
    for container in list(&status["containerStatuses"]).iter().rev() {
        sum.add_restarts(container);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            word = waiting.to_owned();
        } else if !state["terminated"].is_null() {
            word = ended(&state["terminated"]);
            if state["terminated"]["exitCode"].as_i64().unwrap_or(0) != 0 {
                failed = Some(word.clone());
            }
        } else if container["ready"] == true && !state["running"].is_null() {
            running = true;
            sum.ready += 1;
        }
    }
    if word != "Completed" {
        return word;
    }
    // Some are done and some are not: the Pod goes on.
    match failed {
        _ if running && condition(&status["conditions"], "Ready") == Some(true) => "Running".to_owned(),
        Some(failed) => failed,
        None if running => "NotReady".to_owned(),
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn container(name: &str, state: &Value) -> Value {
        json!({"name": name, "state": state, "ready": !state["running"].is_null(), "restartCount": 0})
    }

    fn running() -> Value {
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    }

    fn ended_with(code: i64, reason: &str) -> Value {
        json!({"terminated": {"exitCode": code, "reason": reason}})
    }

    fn waiting(reason: &str) -> Value {
        json!({"waiting": {"reason": reason}})
    }

    /// READY and STATUS of a Pod with these statuses.
    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    fn shown(phase: &str, inits: &[(&str, Value)], mains: &[Value], more: Value) -> (String, String) {
        let names: Vec<Value> = (0..mains.len()).map(|n| json!({"name": format!("m{n}")})).collect();
        let init_specs: Vec<Value> = inits
            .iter()
            .enumerate()
            .map(|(n, (policy, _))| json!({"name": format!("i{n}"), "restartPolicy": policy}))
            .collect();
        let init_statuses: Vec<Value> = inits
            .iter()
            .enumerate()
            .map(|(n, (policy, state))| {
                let mut status = container(&format!("i{n}"), state);
                status["started"] = (*policy == "Always" && !state["running"].is_null()).into();
                status
            })
            .collect();
        let statuses: Vec<Value> =
            mains.iter().enumerate().map(|(n, state)| container(&format!("m{n}"), state)).collect();
        let mut pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": names, "initContainers": init_specs},
            "status": {"phase": phase, "containerStatuses": statuses, "initContainerStatuses": init_statuses},
        });
        pod = crate::patch::merge_patch(&pod, &more);
        let cells = cells(&pod, now());
        (text(&cells[1]).to_owned(), text(&cells[2]).to_owned())
    }

    fn expect(found: impl Into<(String, String)>, ready: &str, word: &str) {
        assert_eq!(found.into(), (ready.to_owned(), word.to_owned()));
    }

    #[test]
    fn the_status_is_one_word_for_all_containers() {
        let none = || json!({});
        expect(shown("Running", &[], &[running()], none()), "1/1", "Running");
        expect(shown("Pending", &[], &[waiting("ContainerCreating")], none()), "0/1", "ContainerCreating");
        expect(shown("Running", &[], &[waiting("CrashLoopBackOff"), running()], none()), "1/2", "CrashLoopBackOff");
        expect(shown("Running", &[], &[running(), ended_with(1, "Error")], none()), "1/2", "Error");
        expect(shown("Succeeded", &[], &[ended_with(0, "Completed")], none()), "0/1", "Completed");
        expect(shown("Failed", &[], &[ended_with(7, "")], none()), "0/1", "ExitCode:7");
        let signal = json!({"terminated": {"exitCode": 137, "signal": 9}});
        expect(shown("Failed", &[], &[signal], none()), "0/1", "Signal:9");
        expect(shown("Failed", &[], &[], json!({"status": {"reason": "Evicted"}})), "0/0", "Evicted");
    }

    #[test]
    fn completed_gives_way_to_what_still_runs_or_failed() {
        let done = || ended_with(0, "Completed");
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        expect(shown("Running", &[], &[done(), running()], ready), "1/2", "Running");
        expect(shown("Running", &[], &[done(), running()], json!({})), "1/2", "NotReady");
        expect(shown("Failed", &[], &[done(), ended_with(2, "Error")], json!({})), "0/2", "Error");
    }

    #[test]
    fn init_containers_come_first() {
        let wait = || waiting("PodInitializing");
        let done = || ("", ended_with(0, "Completed"));
        expect(shown("Pending", &[("", running()), ("", wait())], &[wait()], json!({})), "0/1", "Init:0/2");
        expect(shown("Pending", &[done(), ("", wait())], &[wait()], json!({})), "0/1", "Init:1/2");
        expect(shown("Pending", &[("", ended_with(1, "Error"))], &[wait()], json!({})), "0/1", "Init:Error");
        expect(shown("Pending", &[("", ended_with(3, ""))], &[wait()], json!({})), "0/1", "Init:ExitCode:3");
        let back_off = ("", waiting("CrashLoopBackOff"));
        expect(shown("Pending", &[back_off], &[wait()], json!({})), "0/1", "Init:CrashLoopBackOff");
        expect(shown("Running", &[done()], &[running()], json!({})), "1/1", "Running");
    }

    #[test]
    fn sidecars_count_as_containers() {
        expect(shown("Running", &[("Always", running())], &[running()], json!({})), "2/2", "Running");
        let not_started = ("Always", waiting("PodInitializing"));
        expect(shown("Pending", &[not_started], &[waiting("PodInitializing")], json!({})), "0/2", "Init:0/1");
    }

    #[test]
    fn deletion_is_seen_unless_the_pod_is_over() {
        let deleted = || json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        expect(shown("Running", &[], &[running()], deleted()), "1/1", "Terminating");
        expect(shown("Succeeded", &[], &[ended_with(0, "Completed")], deleted()), "0/1", "Completed");
        let lost = crate::patch::merge_patch(&deleted(), &json!({"status": {"reason": "NodeLost"}}));
        expect(shown("Running", &[], &[running()], lost), "1/1", "Unknown");
        let gated = json!({"status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}});
        expect(shown("Pending", &[], &[], gated), "0/0", "SchedulingGated");
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:59:00Z"},
            "spec": {"containers": [{"name": "a"}], "nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
            "status": {
                "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "g", "status": "True"}],
                "containerStatuses": [{
                    "name": "a", "restartCount": 3, "ready": true, "state": running(),
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:57:00Z"}},
                }],
            },
        });
        let cells = cells(&pod, now());
        assert_eq!(
            cells[3..],
            [json!("3 (3m ago)"), json!("60s"), json!("10.0.0.1"), json!("n"), json!("<none>"), json!("1/2")]
        );
    }

    #[test]
    fn rows_of_finished_pods_say_so() {
        assert_eq!(conditions(&json!({"status": {"phase": "Running"}})), None);
        let failed = conditions(&json!({"status": {"phase": "Failed"}})).unwrap();
        assert_eq!(failed[0]["reason"], "Failed");
    }
}
