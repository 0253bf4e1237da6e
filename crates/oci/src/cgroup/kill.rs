//! Killing everything in a cgroup, whatever it forks meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::group::children;
use super::{Cgroup, CgroupError, Hierarchies};

/// How often processes are looked for again before they count as unkillable; with the pauses below about ten seconds.
const ROUNDS: u32 = 1000;

impl Cgroup<'_> {
    /// Sends SIGKILL to every process and does not wait. On version 1 the group is frozen meanwhile so that a fork
    /// bomb stands still; where there is no freezer the caller's repetition has to win the race.
    pub(crate) fn kill(&self) {
        match self.hierarchies() {
            Hierarchies::V2 { .. } => {
                let killed = self.dir("").is_some_and(|dir| fs::write(dir.join("cgroup.kill"), "1").is_ok());
                if !killed {
                    self.signal_all();
                }
            }
            Hierarchies::V1 { .. } => {
                let freezer = self.dir("freezer");
                if let Some(dir) = &freezer {
                    let _ = fs::write(dir.join("freezer.state"), "FROZEN");
                }
                self.signal_all();
                if let Some(dir) = &freezer {
                    thaw(dir);
                }
            }
        }
    }

    /// Kills every process, waits until none is left. Zombies whose parent lives elsewhere count as gone once the
    /// kernel took them out of the group.
    ///
    /// # Errors
    /// [`CgroupError::WontDie`] after about ten seconds.
    pub(crate) fn kill_and_wait(&self) -> Result<(), CgroupError> {
        for _ in 0..ROUNDS {
            if self.pids().is_empty() {
                return Ok(());
            }
            self.kill();
            pause();
        }
        match self.pids() {
            pids if pids.is_empty() => Ok(()),
            pids => Err(CgroupError::WontDie { path: self.dir("memory").unwrap_or_default(), pids }),
        }
    }

    /// Sends a signal to every process.
    fn signal_all(&self) {
        for pid in self.pids().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A frozen process dies only when thawed; children that froze themselves too.
fn thaw(dir: &Path) {
    let _ = fs::write(dir.join("freezer.state"), "THAWED");
    children(dir).iter().for_each(|child: &PathBuf| thaw(child));
}

/// Waits 10 ms in the kernel: this runs in the shim and on blocking threads, where no timer of a runtime exists.
fn pause() {
    let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let _ = rustix::event::poll(&mut [], Some(&timeout));
}
