//! What a cgroup uses, read from its files. Those of its children are counted by the kernel.

use std::fs;
use std::path::Path;

use minke_core::runtime::CgroupUsage;

use super::{Cgroup, Hierarchies};

impl Cgroup<'_> {
    /// What it uses; `None` when it is gone. A controller that the machine lacks leaves its figures at zero.
    #[must_use]
    pub(crate) fn usage(&self) -> Option<CgroupUsage> {
        // Which figures come from which file is as cAdvisor, and so `kubectl top`, has it.
        let names = match self.hierarchies() {
            Hierarchies::V1 { .. } => {
                Names { usage: "memory.usage_in_bytes", inactive_file: "total_inactive_file", rss: "total_rss" }
            }
            Hierarchies::V2 { .. } => Names { usage: "memory.current", inactive_file: "inactive_file", rss: "anon" },
        };
        if !self.dirs().iter().any(|dir| dir.is_dir()) {
            return None;
        }
        let memory = self.dir("memory");
        let stat = memory.as_deref().and_then(|dir| fs::read_to_string(dir.join("memory.stat")).ok());
        let stat = |key: &str| stat.as_deref().and_then(|text| stat_value(text, key)).unwrap_or(0);
        let memory_usage_bytes = memory.as_deref().and_then(|dir| number(&dir.join(names.usage))).unwrap_or(0);
        Some(CgroupUsage {
            cpu_nanos: self.cpu_nanos().unwrap_or(0),
            memory_working_set_bytes: memory_usage_bytes.saturating_sub(stat(names.inactive_file)),
            memory_rss_bytes: stat(names.rss),
            memory_usage_bytes,
            pids: self.dir("pids").and_then(|dir| number(&dir.join("pids.current"))).unwrap_or(0),
        })
    }

    /// Processor time used so far, ns. The cheapest sign of whether anything in it ran.
    #[must_use]
    pub(crate) fn cpu_nanos(&self) -> Option<u64> {
        match self.hierarchies() {
            Hierarchies::V1 { .. } => number(&self.dir("cpuacct")?.join("cpuacct.usage")),
            Hierarchies::V2 { .. } => {
                let text = fs::read_to_string(self.dir("cpu")?.join("cpu.stat")).ok()?;
                stat_value(&text, "usage_usec").map(|micros| micros.saturating_mul(1000))
            }
        }
    }
}

struct Names {
    usage: &'static str,
    inactive_file: &'static str,
    rss: &'static str,
}

/// The only number of a file.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The value of `key` in lines of `key value`.
fn stat_value(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Controller;

    /// A directory for a hierarchy, with files of one cgroup `p` in it.
    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("p")).unwrap();
        for (name, text) in files {
            fs::write(root.path().join("p").join(name), text).unwrap();
        }
        root
    }

    #[test]
    fn version_1_counts_the_children_in_and_the_inactive_file_pages_out() {
        let root = files(&[
            ("cpuacct.usage", "1500000000\n"),
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.stat", "inactive_file 1\nrss 2\ntotal_rss 300\ntotal_inactive_file 400\n"),
            ("pids.current", "7\n"),
        ]);
        let names = ["cpuacct", "memory", "pids"].map(str::to_owned).into();
        let controllers = vec![Controller { names, mount: root.path().to_owned() }];
        let hierarchies = Hierarchies::V1 { controllers, systemd: None };
        let usage = Cgroup::new(&hierarchies, "/p").usage().unwrap();
        let expected = CgroupUsage {
            cpu_nanos: 1_500_000_000,
            memory_working_set_bytes: 600,
            memory_rss_bytes: 300,
            memory_usage_bytes: 1000,
            pids: 7,
        };
        assert_eq!(usage, expected);
        assert_eq!(Cgroup::new(&hierarchies, "/gone").usage(), None);
    }

    #[test]
    fn version_2_has_other_names_and_microseconds() {
        let root = files(&[
            ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
            ("memory.current", "1000\n"),
            ("memory.stat", "anon 300\nfile 700\ninactive_file 1400\n"),
            ("pids.current", "7\n"),
        ]);
        let hierarchies = Hierarchies::V2 { mount: root.path().to_owned(), controllers: vec![] };
        let usage = Cgroup::new(&hierarchies, "/p").usage().unwrap();
        assert_eq!((usage.cpu_nanos, usage.memory_rss_bytes, usage.pids), (1_500_000, 300, 7));
        assert_eq!(usage.memory_working_set_bytes, 0, "more inactive pages than usage, for an instant, is none");
    }

    #[test]
    fn a_controller_that_is_missing_leaves_zeros() {
        let root = files(&[("cpuacct.usage", "9\n")]);
        let controllers = vec![Controller { names: vec!["cpuacct".to_owned()], mount: root.path().to_owned() }];
        let usage = Cgroup::new(&Hierarchies::V1 { controllers, systemd: None }, "/p").usage().unwrap();
        assert_eq!(usage, CgroupUsage { cpu_nanos: 9, ..CgroupUsage::default() });
    }
}
