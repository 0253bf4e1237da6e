//! Other programs: running them, timing them, finding and weighing them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|source| Failure::Start { program: program.clone(), source })?;
    let output = child.wait_with_output().map_err(|source| Failure::Start { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::Ended { program, status: output.status.to_string(), errors })
}

/// Runs a program and returns how long it took. Its output goes to a file, as pipes kept open by what it leaves in the
/// background would be waited for.
pub(crate) fn time(command: &mut Command) -> Result<Duration, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = |source| Failure::Start { program: program.clone(), source };
    let log = tempfile::tempfile().map_err(start)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.try_clone().map_err(start)?);
    let begun = Instant::now();
    let status = command.status().map_err(start)?;
    let taken = begun.elapsed();
    if status.success() {
        return Ok(taken);
    }
    use std::io::{Read as _, Seek as _};
    let mut errors = String::new();
    let mut log = log;
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut errors));
    Err(Failure::Ended { program, status: status.to_string(), errors: errors.trim().to_owned() })
}

/// Where a program is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// A process of ours.
#[derive(Debug)]
pub(crate) struct Process {
    directory: PathBuf,
    /// Its arguments, program first.
    pub(crate) arguments: Vec<String>,
}

impl Process {
    /// This one.
    pub(crate) fn own() -> Self {
        Self { directory: PathBuf::from("/proc/self"), arguments: Vec::new() }
    }

    /// The one with this number.
    pub(crate) fn of(pid: impl std::fmt::Display) -> Self {
        Self { directory: PathBuf::from(format!("/proc/{pid}")), arguments: Vec::new() }
    }

    /// Every process one of whose arguments contains a path.
    pub(crate) fn mentioning(path: &Path) -> Vec<Self> {
        let path = path.to_string_lossy().into_owned();
        let own = std::process::id().to_string();
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let mut found = Vec::new();
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy() != own) {
            let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
            let arguments: Vec<String> = line
                .split(|byte| *byte == 0)
                .filter(|argument| !argument.is_empty())
                .map(|argument| String::from_utf8_lossy(argument).into_owned())
                .collect();
            if arguments.iter().any(|argument| argument.contains(&path)) {
                found.push(Self { directory: entry.path(), arguments });
            }
        }
        found
    }

    /// Processor time so far, of threads that have ended as well; `None` when it has just ended.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.directory.join("stat")).ok()?;
        // The name in brackets may hold anything; user and system time are the 14th and 15th field of all.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second()))
    }

    /// Proportional and resident size in KiB; `None` when it has just ended.
    pub(crate) fn sizes(&self) -> Option<Sizes> {
        let text = fs::read_to_string(self.directory.join("smaps_rollup")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        Some(Sizes { proportional: field("Pss:")?, resident: field("Rss:")? })
    }
}

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Shared pages divided among those who share them.
    pub(crate) proportional: f64,
    pub(crate) resident: f64,
}
