//! From a manifest to running Pods.

use std::path::Path;

use crate::failure::Failure;
use crate::instance::{Instance, manifest};
use crate::podman::Podman;
use crate::report::{Peer, Row};
use crate::sample::Sample;

const PEER: &str = "podman play kube";

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(Failure::runtime("can't start the async runtime"))
}

/// One Pod, with and without an agent that runs already; 20 Pods; 50 Pods.
pub(crate) fn measure(minke: &Path, runs: usize) -> Result<Vec<Row>, Failure> {
    let instance = Instance::new(minke)?;
    let podman = Podman::new()?;
    let mut rows = vec![warm(&instance, podman.as_ref(), runs)?];
    let few = runs.div_ceil(3);
    for (count, runs, aim) in [(1, runs, "≤ 0.25×"), (20, few, "≤ 0.8 s, ≤ 0.2×"), (50, few, "≤ 3 s")] {
        rows.push(cold(&instance, podman.as_ref(), count, runs, aim)?);
    }
    Ok(rows)
}

/// One Pod while the agent supervises another.
fn warm(instance: &Instance, podman: Option<&Podman>, runs: usize) -> Result<Row, Failure> {
    instance.run(&manifest("keep", 1))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        ours.push(instance.run(&manifest("pod", 1))?);
        instance.remove(&["pod-0"])?;
        if let Some(podman) = podman {
            theirs.push(podman.run(&manifest("pod", 1))?);
            podman.remove_all()?;
        }
    }
    instance.remove_all()?;
    instance.wait_for_the_end()?;
    row("1 Pod → Running, agent there".to_owned(), &ours, &theirs, "≤ 60 ms, ≤ 0.25×")
}

/// Pods with nothing running before: the agent and the bridge are made as well.
fn cold(
    instance: &Instance,
    podman: Option<&Podman>,
    count: usize,
    runs: usize,
    aim: &'static str,
) -> Result<Row, Failure> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let pods = manifest("pod", count);
    for _ in 0..runs {
        ours.push(instance.run(&pods)?);
        instance.remove_all()?;
        instance.wait_for_the_end()?;
        if let Some(podman) = podman {
            theirs.push(podman.run(&pods)?);
            podman.remove_all()?;
        }
    }
    row(format!("{count} Pod{} → Running, from nothing", if count == 1 { "" } else { "s" }), &ours, &theirs, aim)
}

fn row(
    what: String,
    ours: &[std::time::Duration],
    theirs: &[std::time::Duration],
    aim: &'static str,
) -> Result<Row, Failure> {
    let none = || Failure::Unexpected(format!("nothing was measured for {what}"));
    let ours = Sample::of_times(ours).ok_or_else(none)?;
    let peer = match Sample::of_times(theirs) {
        Some(sample) => Peer::Measured { name: PEER.to_owned(), sample },
        None => Peer::NotInstalled { name: PEER.to_owned() },
    };
    Ok(Row { what, ours, peer, aim })
}
