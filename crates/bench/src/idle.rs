//! What the agent costs while its Pods do nothing: processor time and memory by number of Pods and way of noticing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;
use crate::instance::{Instance, manifest};
use crate::report::{Peer, Row};
use crate::sample::{Sample, Unit};

/// The values of `minke agent --relist`, and what they are.
const MODES: [(&str, &str); 3] = [
    ("generic", "relist each second"),
    ("hinted", "relist each second, and events"),
    ("evented", "events, adaptive relist"),
];
/// After the last start, before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// One row of time and one of memory for each number of Pods and each way.
pub(crate) fn measure(minke: &Path, counts: &[usize], span: Duration) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &count in counts {
        for (mode, words) in MODES {
            let (share, sizes) = one(minke, count, mode, span)?;
            let row = |what: &str, unit, value, aim| {
                let none = || Failure::Unexpected("nothing was measured".to_owned());
                let ours = Sample::new(unit, vec![value]).ok_or_else(none)?;
                Ok(Row { what: format!("{count} idle Pods, {words}: {what}"), ours, peer: Peer::Nobody, aim })
            };
            rows.push(row("agent's share of a core", Unit::Percent, share, "≤ 0.5 % at 110, evented")?);
            rows.push(row("agent, resident", Unit::KibiBytes, sizes.resident, "≤ 30 MiB at 110")?);
        }
    }
    Ok(rows)
}

fn one(minke: &Path, count: usize, mode: &str, span: Duration) -> Result<(f64, crate::process::Sizes), Failure> {
    let instance = Instance::new(minke)?;
    let mut command = instance.command();
    command.args(["agent", "--relist", mode]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut agent = command.spawn().map_err(|source| Failure::Start { program: "minke agent".to_owned(), source })?;
    let measured = (|| {
        let sleep = |time| -> Result<(), Failure> {
            crate::pods::runtime()?.block_on(async { tokio::time::sleep(time).await });
            Ok(())
        };
        instance.wait_for_the_start()?;
        if count > 0 {
            instance.run(&manifest("idle", count))?;
        }
        sleep(SETTLE)?;
        let gone = || Failure::Unexpected("the agent ended while it was measured".to_owned());
        let process = instance.agents().into_iter().next().ok_or_else(gone)?;
        let before = process.cpu_time().ok_or_else(gone)?;
        let begun = Instant::now();
        sleep(span)?;
        let used = process.cpu_time().ok_or_else(gone)?.saturating_sub(before);
        let share = used.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        let sizes = process.sizes().ok_or_else(gone)?;
        instance.remove_all()?;
        Ok((share, sizes))
    })();
    let pid = i32::try_from(agent.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let _ = agent.wait();
    measured
}
