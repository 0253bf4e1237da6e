//! Tables for people.

use std::io::IsTerminal;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;

use super::result::{ContainerKind, ContainerResult, PodResult};
use crate::durations;

/// One row a container, the Pod's own cells only in its first.
pub(crate) fn of_containers(pods: &[PodResult]) -> String {
    let mut table = new(&["POD", "PHASE", "REASON", "CONTAINER", "STATE", "EXIT", "RESTARTS", "STARTED IN"]);
    for pod in pods {
        let name = display_name(pod);
        let mut first = true;
        let took = started_in(pod);
        let mut row = |container: Option<&ContainerResult>| {
            let (pod_cells, took) = if first { ([&*name, &pod.phase, &pod.reason], &*took) } else { ([""; 3], "") };
            first = false;
            let [container, state, exit, restarts] = container.map(container_cells).unwrap_or_default();
            let cells = [pod_cells[0], pod_cells[1], pod_cells[2], &container, &state, &exit, &restarts, took];
            table.add_row(cells);
        };
        if pod.containers.is_empty() {
            row(None);
        }
        pod.containers.iter().for_each(|container| row(Some(container)));
    }
    finish(&table)
}

fn container_cells(container: &ContainerResult) -> [String; 4] {
    let name = match container.kind {
        ContainerKind::Main => container.name.clone(),
        ContainerKind::Init => format!("{} (init)", container.name),
        ContainerKind::Sidecar => format!("{} (sidecar)", container.name),
    };
    let state = match container.reason.as_str() {
        "" | "Completed" => container.state.clone(),
        reason => format!("{}: {reason}", container.state),
    };
    let exit = container.exit_code.map(|c| c.to_string()).unwrap_or_default();
    [name, state, exit, container.restarts.to_string()]
}

/// One row a Pod.
pub(crate) fn of_pods(pods: &[PodResult], wide: bool, now: Timestamp) -> String {
    let mut header = vec!["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    if wide {
        header.extend(["CAUSE", "IP", "UID", "SOURCE", "IMAGES"]);
    }
    let mut table = new(&header);
    for pod in pods {
        let mains = || pod.containers.iter().filter(|c| c.kind != ContainerKind::Init);
        let running = mains().filter(|c| c.state == "Running").count();
        let restarts: i32 = pod.containers.iter().map(|c| c.restarts).sum();
        let age = pod.timings.admitted_at.map(|t| since(t, now)).unwrap_or_default();
        let mut row = vec![
            pod.namespace.clone(),
            pod.name.clone(),
            format!("{running}/{}", mains().count()),
            status(pod),
            restarts.to_string(),
            age,
        ];
        if wide {
            let images: Vec<&str> = pod.containers.iter().map(|c| c.image.as_str()).collect();
            row.extend([
                pod.why.as_ref().map(|why| why.cause.to_string()).unwrap_or_default(),
                pod.pod_ip.clone().unwrap_or_default(),
                pod.uid.clone(),
                pod.manifest.clone().unwrap_or_default(),
                images.join(","),
            ]);
        }
        table.add_row(row);
    }
    finish(&table)
}

/// The one word that says most: what a container waits for or ended with, before the Pod's phase.
fn status(pod: &PodResult) -> String {
    use minke_kubelet::PodStage;
    if pod.stage == Some(PodStage::Terminating) {
        return "Terminating".to_owned();
    }
    if !pod.reason.is_empty() {
        return pod.reason.clone();
    }
    let plain = ["", "Completed", "ContainerCreating", "PodInitializing"];
    let telling = pod.containers.iter().find(|c| c.state != "Running" && !plain.contains(&c.reason.as_str()));
    match telling {
        Some(container) if container.kind == ContainerKind::Init => format!("Init:{}", container.reason),
        Some(container) => container.reason.clone(),
        None => pod.phase.clone(),
    }
}

/// From admission to running.
fn started_in(pod: &PodResult) -> String {
    pod.timings.startup_ms.map(|ms| durations::short(Duration::from_millis(ms))).unwrap_or_default()
}

fn since(time: Timestamp, now: Timestamp) -> String {
    Duration::try_from(now.duration_since(time)).map(durations::age).unwrap_or_else(|_| "0s".to_owned())
}

fn display_name(pod: &PodResult) -> String {
    if pod.namespace == "default" { pod.name.clone() } else { format!("{}/{}", pod.namespace, pod.name) }
}

/// A table without lines, cut to the terminal's width when there is one.
pub(crate) fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.iter().copied());
    if std::io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table
}

/// The table's text with a line end and without blanks at the ends of lines.
pub(crate) fn finish(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::result::TimingsResult;

    fn container(name: &str, kind: ContainerKind, state: &str, reason: &str, exit: Option<i32>) -> ContainerResult {
        ContainerResult {
            name: name.to_owned(),
            kind,
            image: "busybox".to_owned(),
            state: state.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            exit_code: exit,
            restarts: 2,
            started_at: None,
            finished_at: None,
        }
    }

    fn pod(phase: &str, containers: Vec<ContainerResult>) -> PodResult {
        PodResult {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
            phase: phase.to_owned(),
            reason: String::new(),
            message: String::new(),
            pod_ip: Some("10.0.0.2".to_owned()),
            stage: None,
            source: None,
            manifest: None,
            why: None,
            containers,
            timings: TimingsResult {
                admitted_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
                startup_ms: Some(52),
                ..TimingsResult::default()
            },
        }
    }

    #[test]
    fn one_row_a_container_with_the_pod_named_once() {
        use ContainerKind::{Init, Main};
        let containers = vec![
            container("prepare", Init, "Terminated", "Completed", Some(0)),
            container("app", Main, "Waiting", "CrashLoopBackOff", Some(7)),
        ];
        let text = of_containers(&[pod("Running", containers)]);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|l| l.split("  ").filter(|c| !c.is_empty()).map(str::trim).collect()).collect();
        assert_eq!(rows[1], ["shop/web", "Running", "prepare (init)", "Terminated", "0", "2", "52ms"]);
        assert_eq!(rows[2], ["app", "Waiting: CrashLoopBackOff", "7", "2"]);
    }

    #[test]
    fn the_status_word_is_the_most_telling_one() {
        use ContainerKind::{Init, Main};
        let status_of = |containers| status(&pod("Pending", containers));
        assert_eq!(status_of(vec![container("a", Main, "Waiting", "ErrImagePull", None)]), "ErrImagePull");
        assert_eq!(status_of(vec![container("a", Init, "Terminated", "Error", Some(1))]), "Init:Error");
        assert_eq!(status_of(vec![container("a", Main, "Waiting", "ContainerCreating", None)]), "Pending");
        assert_eq!(status_of(vec![container("a", Main, "Running", "", None)]), "Pending");
    }

    #[test]
    fn a_clock_that_went_back_shows_no_negative_age() {
        let now = "2025-12-31T00:00:00Z".parse().unwrap();
        let text = of_pods(&[pod("Running", vec![])], true, now);
        assert!(text.lines().nth(1).unwrap().contains(" 0s "), "{text}");
        assert!(text.contains("10.0.0.2"));
    }
}
