//! The processes that a containerd leaves when it dies, and their cgroups. All from `/proc` and the cgroup file systems.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Whether this process is a shim of the containerd at this socket.
fn is_shim(pid: i32, socket: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    program.contains("containerd-shim") && words.any(|word| Path::new(word.as_ref()) == socket)
}

/// What follows this word on the command line of a process.
pub(super) fn argument(pid: i32, name: &str) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.find(|word| word == name)?;
    words.next().map(|word| word.into_owned())
}

/// All processes, with their parents.
fn parents() -> BTreeMap<i32, i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, a parenthesis as well.
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// The shims of the containerd at this socket that are alive.
pub(super) fn shims(socket: &Path) -> Vec<i32> {
    parents().into_keys().filter(|pid| is_shim(*pid, socket)).collect()
}

/// The shims of the containerd at this socket, and everything that descends from them, children first.
pub(super) fn with_descendants(shims: &[i32]) -> Vec<i32> {
    let parents = parents();
    let mut found = shims.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child));
        next += 1;
    }
    found.reverse();
    found
}

/// Directories of this cgroup in every hierarchy, those below first.
pub(super) fn cgroups(path: &str) -> Vec<PathBuf> {
    let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let roots = mounted
        .lines()
        .filter(|line| line.split(" - ").nth(1).is_some_and(|rest| rest.starts_with("cgroup")))
        .filter_map(|line| line.split(' ').nth(4));
    let mut found = Vec::new();
    for root in roots {
        let top = Path::new(root).join(path.trim_start_matches('/'));
        if top.is_dir() && !found.contains(&top) {
            below(&top, &mut found);
        }
    }
    found
}

fn below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&entry.path(), found);
        }
    }
    found.push(directory.to_owned());
}

/// The processes of these cgroups.
pub(super) fn members(cgroups: &[PathBuf]) -> Vec<i32> {
    let texts = cgroups.iter().filter_map(|dir| std::fs::read_to_string(dir.join("cgroup.procs")).ok());
    let mut pids: Vec<i32> =
        texts.flat_map(|text| text.lines().filter_map(|l| l.parse().ok()).collect::<Vec<_>>()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Kills processes and waits for their ends, at most 5 s each.
pub(super) fn kill_and_wait(pids: &[i32]) {
    let mut fds = Vec::new();
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // Opened first: what is killed may be another process by the time it is waited for.
        let fd = pidfd_open(pid, PidfdFlags::empty());
        if kill_process(pid, Signal::KILL).is_ok() {
            fds.extend(fd);
        }
    }
    for fd in &fds {
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&patience));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_descends_from_its_parent() {
        let own = std::process::id().cast_signed();
        let parent = parents()[&own];
        let family = with_descendants(&[parent]);
        assert_eq!(family.last(), Some(&parent));
        assert!(family.contains(&own), "{family:?}");
        assert_eq!(shims(Path::new("/no/such.sock")), Vec::<i32>::new());
    }

    #[test]
    fn a_cgroup_that_is_nowhere_has_no_members() {
        assert_eq!(members(&cgroups("/no/such/cgroup")), Vec::<i32>::new());
    }
}
