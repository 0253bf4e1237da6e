//! What the machine has. The one file of admission that reads the system.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use minke_core::resources::{Amount, ResourceList};

/// The machine, as admission sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its name, lower case.
    pub name: String,
    /// What Pods may use together: `cpu`, `memory`, `ephemeral-storage`.
    pub allocatable: ResourceList,
    /// Most Pods at a time.
    pub max_pods: usize,
    /// Its labels, for node selectors: `kubernetes.io/os`, `kubernetes.io/arch`, `kubernetes.io/hostname`.
    pub labels: BTreeMap<String, String>,
}

/// Memory of the machine in bytes. Limits on our own cgroup don't count: Pods live beside it, not in it.
///
/// # Errors
/// `/proc/meminfo` can't be read.
pub fn memory_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let total = total_memory(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no MemTotal in /proc/meminfo"))?;
    Ok(total)
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Gathers the facts. `state_directory` is where volumes and images live; its file system is the ephemeral storage.
///
/// # Errors
/// Something can't be read, with its path.
pub fn read_machine(name: &str, state_directory: &Path, max_pods: usize) -> io::Result<Machine> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let storage = rustix::fs::statvfs(state_directory)?;
    let amount = |units: u64| Amount::from_units(i64::try_from(units).unwrap_or(i64::MAX));
    let allocatable = ResourceList::from([
        ("cpu".to_owned(), amount(u64::try_from(cpus).unwrap_or(1))),
        ("memory".to_owned(), amount(memory_bytes()?)),
        ("ephemeral-storage".to_owned(), amount(storage.f_blocks.saturating_mul(storage.f_frsize))),
    ]);
    Ok(Machine { name: name.to_owned(), allocatable, max_pods, labels: labels(name) })
}

fn labels(name: &str) -> BTreeMap<String, String> {
    // Kubernetes uses Go's names of architectures.
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let pairs = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", arch), ("kubernetes.io/hostname", name)];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_memory_from_meminfo() {
        assert_eq!(total_memory("MemTotal:       24623700 kB\nMemFree: 1 kB\n"), Some(24_623_700 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_something() {
        let machine = read_machine("here", Path::new("/"), 110).unwrap();
        assert!(machine.allocatable.values().all(|amount| *amount > Amount::ZERO));
        assert_eq!(machine.labels["kubernetes.io/os"], "linux");
    }
}
