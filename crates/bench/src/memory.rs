//! What idle Pods cost.

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::instance::{Instance, manifest};
use crate::process::{Process, Sizes};
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

/// Shims and agent with that many Pods, a few seconds after they were started.
pub(crate) fn measure(minke: &Path, pods: usize) -> Result<Vec<Row>, Failure> {
    let instance = Instance::new(minke)?;
    instance.run(&manifest("idle", pods))?;
    crate::pods::runtime()?.block_on(async { tokio::time::sleep(Duration::from_secs(5)).await });
    let (shims, agents) = (instance.shims(), instance.agents());
    if shims.len() != pods || agents.len() != 1 {
        let found = format!("{} shims and {} agents are there for {pods} pods", shims.len(), agents.len());
        return Err(Failure::Unexpected(found));
    }
    let row = |what: String, processes: &[Process], size: fn(Sizes) -> f64, aim| {
        let sizes = processes.iter().filter_map(Process::sizes).map(size).collect();
        let none = || Failure::Unexpected(format!("no process to weigh for {what}"));
        let ours = Sample::new(Unit::KibiBytes, sizes).ok_or_else(none)?;
        Ok(Row { what, ours, peer: Peer::Nobody, aim })
    };
    Ok(vec![
        row(format!("shim, proportional size ({pods} Pods)"), &shims, |s| s.proportional, "≤ 1.5 MiB each")?,
        row(format!("agent, proportional size ({pods} Pods)"), &agents, |s| s.proportional, "≤ 40 MiB")?,
        row(format!("agent, resident size ({pods} Pods)"), &agents, |s| s.resident, "≤ 40 MiB")?,
    ])
}
