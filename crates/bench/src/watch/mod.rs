//! The pod watcher: what it asks of an API for many Pods, what it needs for each, how soon it judges what it is told, and how
//! much sooner than a poller it knows of twenty ways to fail.
//!
//! The API is the embedded one, in this process, with its objects in memory; clients come over HTTPS on loopback. The
//! watcher of many Pods is a process of its own (this program, started again), so that its memory is its own. The poller
//! asks for its Pod every three seconds and judges by the same function with the same budgets: only how it looks differs.

mod api;
mod failures;
mod scale;

use std::path::Path;

use crate::failure::Failure;
use crate::report::Row;

/// Many Pods in one process, then each failure beside a poller.
pub(crate) fn measure(pods: &[usize], runs: usize) -> Result<Vec<Row>, Failure> {
    let runtime = crate::pods::runtime()?;
    let mut rows = Vec::new();
    for count in pods {
        rows.extend(runtime.block_on(scale::measure(*count))?);
    }
    rows.extend(runtime.block_on(failures::measure(runs.clamp(1, 3)))?);
    Ok(rows)
}

/// The process that watches so many Pods; says what it saw on its standard output.
pub(crate) fn child(kubeconfig: &Path, pods: usize) -> Result<(), Failure> {
    crate::pods::runtime()?.block_on(scale::child(kubeconfig, pods))
}
