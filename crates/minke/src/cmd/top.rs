//! `minke top`: what Pods use now, and what is left of the machine. Two samples make a rate.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use minke_core::runtime::ContainerId;
use minke_kubelet::eviction::{Level, Signal};
use minke_kubelet::{NodeReport, PodUse};
use serde::Serialize;

use crate::client::Client;
use crate::durations;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, document, stdout, table};

/// Show what Pods use: processor, memory, processes, disk
#[derive(Debug, Args)]
#[command(
    after_help = "CPU is in thousandths of a core, as in requests. Memory is what can't be reclaimed without loss. \
                        Disk is what containers wrote, their logs, and emptyDirs."
)]
pub(crate) struct TopArgs {
    /// Only these: a name, namespace/name, or the beginning of a uid
    #[arg(value_name = "POD")]
    pods: Vec<String>,
    /// One row a container
    #[arg(long)]
    containers: bool,
    /// Time between the two samples that the processor's use is taken from
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = durations::duration)]
    interval: Duration,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Top {
    pods: Vec<PodTop>,
    node: NodeTop,
}

/// What something uses.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Use {
    /// Thousandths of a core; absent when it does not run, or began between the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_millis: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<u64>,
    disk_bytes: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct PodTop {
    namespace: String,
    name: String,
    uid: String,
    #[serde(flatten)]
    used: Use,
    containers: Vec<ContainerTop>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct ContainerTop {
    name: String,
    #[serde(flatten)]
    used: Use,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct NodeTop {
    /// The machine's conditions that are true.
    conditions: Vec<&'static str>,
    /// What is left, by eviction signal.
    signals: BTreeMap<&'static str, Level>,
}

/// Prints what Pods use.
pub(crate) async fn run(args: &TopArgs, client: &Client) -> Outcome {
    let Some(mut connection) = client.connect_running().await? else {
        eprintln!("no pods: no agent runs here");
        return Ok(Exit::Reached);
    };
    let (first, _) = connection.usage().await?;
    let keys: Vec<_> = first.iter().map(|p| p.key.clone()).collect();
    let wanted = super::select_all(&args.pods, &keys)?;
    tokio::time::sleep(args.interval.max(Duration::from_millis(10))).await;
    let (mut second, node) = connection.usage().await?;
    second.retain(|p| wanted.is_empty() || wanted.contains(&p.key));
    let top = top(&first, &second, &node);
    let text = match args.output {
        Format::Json => document(&top, false)?,
        Format::Yaml => document(&top, true)?,
        Format::Table | Format::Wide => shown(&top, args.containers),
    };
    stdout::print(&text)?;
    Ok(Exit::Reached)
}

/// Thousandths of a core between two samples.
fn millis(before: Option<(Duration, u64)>, after: Option<(Duration, u64)>) -> Option<u64> {
    let ((began, first), (ended, last)) = (before?, after?);
    let nanos = u64::try_from(ended.checked_sub(began)?.as_nanos()).ok().filter(|n| *n > 0)?;
    Some((u128::from(last.checked_sub(first)?) * 1000).div_ceil(u128::from(nanos)).try_into().unwrap_or(u64::MAX))
}

fn top(first: &[PodUse], second: &[PodUse], node: &NodeReport) -> Top {
    let pods = second.iter().map(|now| pod(first.iter().find(|p| p.key.uid == now.key.uid), now)).collect();
    let signals = node.levels.iter().map(|(signal, level)| (signal.as_str(), *level)).collect();
    Top { pods, node: NodeTop { conditions: node.pressure.iter().map(|p| p.as_str()).collect(), signals } }
}

fn pod(before: Option<&PodUse>, now: &PodUse) -> PodTop {
    let sample = |pod: &PodUse| Some((pod.at, pod.cgroup?.cpu_nanos));
    let one = |pod: &PodUse, id: &ContainerId| {
        let (_, container) = pod.containers.iter().find(|(_, c)| c.id == *id)?;
        Some((pod.at, container.cgroup?.cpu_nanos))
    };
    let containers = now.containers.iter().filter(|(_, c)| c.cgroup.is_some()).map(|(logs, container)| ContainerTop {
        name: container.name.clone(),
        used: Use {
            cpu_millis: millis(before.and_then(|b| one(b, &container.id)), one(now, &container.id)),
            memory_bytes: container.cgroup.map(|c| c.memory_working_set_bytes),
            pids: container.cgroup.map(|c| c.pids),
            disk_bytes: logs.saturating_add(container.writable_bytes.unwrap_or(0)),
        },
    });
    // Ended instances of a container share its logs, which count once.
    let mut logs: BTreeMap<&str, u64> = BTreeMap::new();
    logs.extend(now.containers.iter().map(|(bytes, c)| (c.name.as_str(), *bytes)));
    let written = now.containers.iter().filter_map(|(_, c)| c.writable_bytes);
    PodTop {
        namespace: now.key.namespace.to_string(),
        name: now.key.name.to_string(),
        uid: now.key.uid.to_string(),
        used: Use {
            cpu_millis: millis(before.and_then(sample), sample(now)),
            memory_bytes: now.cgroup.map(|c| c.memory_working_set_bytes),
            pids: now.cgroup.map(|c| c.pids),
            disk_bytes: logs.into_values().chain(written).chain([now.volume_bytes]).fold(0, u64::saturating_add),
        },
        containers: containers.collect(),
    }
}

/// Bytes with three digits or so, in binary units.
fn bytes(bytes: u64) -> String {
    let units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut rest, mut unit) = (bytes, 0);
    while (rest >= 10_240 || (rest >= 1024 && rest % 1024 == 0)) && unit + 1 < units.len() {
        rest = rest.div_ceil(1024);
        unit += 1;
    }
    format!("{rest}{}", units[unit])
}

fn cells(used: &Use) -> [String; 4] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        or_dash(used.cpu_millis.map(|m| format!("{m}m"))),
        or_dash(used.memory_bytes.map(bytes)),
        or_dash(used.pids.map(|n| n.to_string())),
        bytes(used.disk_bytes),
    ]
}

fn shown(top: &Top, containers: bool) -> String {
    let mut header = vec!["NAMESPACE", "NAME", "CPU", "MEMORY", "PIDS", "DISK"];
    if containers {
        header.insert(2, "CONTAINER");
    }
    let mut rows = table::new(&header);
    for pod in &top.pods {
        let name = || [pod.namespace.clone(), pod.name.clone()];
        if containers {
            for container in &pod.containers {
                let row = name().into_iter().chain([container.name.clone()]).chain(cells(&container.used));
                rows.add_row(row.collect::<Vec<_>>());
            }
        } else {
            rows.add_row(name().into_iter().chain(cells(&pod.used)).collect::<Vec<_>>());
        }
    }
    table::finish(&rows) + &machine(&top.node)
}

/// The machine in one line.
fn machine(node: &NodeTop) -> String {
    let mut parts = Vec::new();
    for (signal, what) in [(Signal::Memory, "memory"), (Signal::Nodefs, "disk")] {
        if let Some(Level { available, capacity }) = node.signals.get(signal.as_str()) {
            parts.push(format!("{} of {} {what} left", bytes(*available), bytes(*capacity)));
        }
    }
    parts.extend(node.conditions.iter().map(|c| format!("under {c}")));
    if parts.is_empty() { String::new() } else { format!("\nmachine: {}\n", parts.join(", ")) }
}

/// Tells on standard error what the machine is short of.
pub(crate) async fn tell_pressure(client: &Client) -> Result<(), Failure> {
    let Some(mut connection) = client.connect_running().await? else { return Ok(()) };
    let node = connection.node().await?;
    if let Some(silence) = &node.runtime_silence {
        eprintln!(
            "the container runtime has not answered for {} s ({}): start it again, or look into its log. What runs goes on; \
             pods are shown as they were seen last",
            silence.lasts.as_secs(),
            silence.why
        );
    }
    let conditions: Vec<&str> = node.pressure.iter().map(|p| p.as_str()).collect();
    if !conditions.is_empty() {
        eprintln!("the machine is under {}; `minke top` shows what is left", conditions.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use minke_core::identity::{PodKey, PodUid};
    use minke_core::runtime::{CgroupUsage, ContainerUsage};
    use minke_kubelet::admission::Pressure;

    use super::*;

    fn sample(at: u64, cpu_ms: u64) -> PodUse {
        let cgroup = |cpu_ms: u64| CgroupUsage {
            cpu_nanos: cpu_ms * 1_000_000,
            memory_working_set_bytes: 30 << 20,
            pids: 3,
            ..CgroupUsage::default()
        };
        let container = |id: &str, cgroup| ContainerUsage {
            id: ContainerId(id.to_owned()),
            name: "c".to_owned(),
            cgroup,
            writable_bytes: Some(1 << 20),
            writable_inodes: Some(9),
        };
        PodUse {
            key: PodKey::new("shop", "web", PodUid::new("u1").unwrap()),
            at: Duration::from_secs(at),
            cgroup: Some(cgroup(cpu_ms)),
            containers: vec![(5 << 20, container("new", Some(cgroup(cpu_ms / 2)))), (5 << 20, container("old", None))],
            volume_bytes: 2 << 20,
        }
    }

    fn node(pressure: Vec<Pressure>) -> NodeReport {
        let level = Level { available: 21 << 30, capacity: 23 << 30 };
        NodeReport { pressure, levels: [(Signal::Memory, level)].into(), runtime_silence: None }
    }

    #[test]
    fn two_samples_make_a_rate() {
        let found = top(&[sample(10, 1000)], &[sample(12, 1500)], &node(vec![]));
        let pod = &found.pods[0];
        assert_eq!((pod.used.cpu_millis, pod.used.pids), (Some(250), Some(3)));
        assert_eq!(pod.used.disk_bytes, 9 << 20, "two layers, logs once, the volume");
        assert_eq!(pod.containers.len(), 1, "only those that run");
        assert_eq!(pod.containers[0].used.cpu_millis, Some(125));
        assert_eq!(pod.containers[0].used.disk_bytes, 6 << 20);
    }

    #[test]
    fn a_pod_that_is_new_or_began_again_has_no_rate_yet() {
        assert_eq!(top(&[], &[sample(12, 1500)], &node(vec![])).pods[0].used.cpu_millis, None);
        let again = top(&[sample(10, 1500)], &[sample(12, 3)], &node(vec![]));
        assert_eq!(again.pods[0].used.cpu_millis, None, "counters that went back are another cgroup's");
        assert_eq!(millis(Some((Duration::ZERO, 0)), Some((Duration::ZERO, 5))), None);
    }

    #[test]
    fn a_row_a_pod_or_a_container_and_the_machine() {
        let found = top(&[sample(10, 1000)], &[sample(12, 1500)], &node(vec![Pressure::Memory]));
        let rows = |text: &str| -> Vec<Vec<String>> {
            text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
        };
        let pods = rows(&shown(&found, false));
        assert_eq!(pods[1], ["shop", "web", "250m", "30Mi", "3", "9Mi"]);
        assert_eq!(pods[3].join(" "), "machine: 21Gi of 23Gi memory left, under MemoryPressure");
        let containers = rows(&shown(&found, true));
        assert_eq!(containers[1], ["shop", "web", "c", "125m", "30Mi", "3", "6Mi"]);
    }

    #[test]
    fn bytes_for_people() {
        for (n, text) in [
            (0, "0B"),
            (9999, "9999B"),
            (10_240, "10Ki"),
            (30 << 20, "30Mi"),
            ((30 << 20) + 1, "31Mi"),
            (u64::MAX, "16Ei"),
        ] {
            assert_eq!(bytes(n), text, "{n}");
        }
    }
}
