//! What the machine has. The one file of admission that reads the system.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use minke_core::resources::{Amount, ResourceList};

use super::less_reserved;

/// The machine, as admission sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its name, lower case.
    pub name: String,
    /// What Pods may use together: `cpu`, `memory`, `ephemeral-storage`.
    pub allocatable: ResourceList,
    /// Most Pods at a time.
    pub max_pods: usize,
    /// Its labels, for node selectors: `kubernetes.io/os`, `kubernetes.io/arch`, `kubernetes.io/hostname`, and those
    /// that its owner gave it.
    pub labels: BTreeMap<String, String>,
}

/// What the machine's owner says of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeOptions {
    /// Labels beside those that every machine has; of the same name, these count.
    pub labels: BTreeMap<String, String>,
    /// What is kept for programs that are no Pods: `cpu`, `memory`, `ephemeral-storage`.
    pub reserved: ResourceList,
    /// Most processes and threads of one Pod; `None`: as many as the kernel lets it.
    pub pod_max_pids: Option<i64>,
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
/// Pods may use what is there, less what is reserved and what eviction keeps free (`free`), as upstream.
///
/// # Errors
/// Something can't be read.
pub fn read_machine(
    name: &str,
    state_directory: &Path,
    max_pods: usize,
    options: &NodeOptions,
    free: &dyn Fn(&ResourceList) -> ResourceList,
) -> io::Result<Machine> {
    let capacity = read_basics(state_directory)?;
    let pages = huge_pages(Path::new("/sys/kernel/mm/hugepages"));
    let in_pages: Amount = pages.values().copied().sum();
    let kept_free = free(&capacity);
    let mut allocatable = less_reserved(less_reserved(capacity, &options.reserved), &kept_free);
    // Huge pages are taken out of memory when the machine starts.
    allocatable = less_reserved(allocatable, &ResourceList::from([("memory".to_owned(), in_pages)]));
    allocatable.extend(pages);
    let mut labels = labels(name);
    labels.extend(options.labels.clone());
    Ok(Machine { name: name.to_owned(), allocatable, max_pods, labels })
}

/// All that the machine has, with nothing taken off: `cpu`, `memory`, `ephemeral-storage`, huge pages.
///
/// # Errors
/// Something can't be read.
pub fn read_capacity(state_directory: &Path) -> io::Result<ResourceList> {
    let mut capacity = read_basics(state_directory)?;
    capacity.extend(huge_pages(Path::new("/sys/kernel/mm/hugepages")));
    Ok(capacity)
}

fn read_basics(state_directory: &Path) -> io::Result<ResourceList> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let storage = rustix::fs::statvfs(state_directory)?;
    let amount = |units: u64| Amount::from_units(i64::try_from(units).unwrap_or(i64::MAX));
    Ok(ResourceList::from([
        ("cpu".to_owned(), amount(u64::try_from(cpus).unwrap_or(1))),
        ("memory".to_owned(), amount(memory_bytes()?)),
        ("ephemeral-storage".to_owned(), amount(storage.f_blocks.saturating_mul(storage.f_frsize))),
    ]))
}

/// The huge pages that the kernel has set aside, by resource name.
fn huge_pages(directory: &Path) -> ResourceList {
    let size = |entry: fs::DirEntry| {
        let kilobytes: i64 =
            entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages: i64 = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        let bytes = kilobytes.checked_mul(1024)?;
        let total = Amount::from_units(bytes.checked_mul(pages)?);
        (pages > 0).then(|| (format!("hugepages-{}", Amount::from_units(bytes).to_binary()), total))
    };
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(size).collect()
}

/// The machine's architecture by Go's name for it, which Kubernetes uses.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    let arch = architecture();
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
        let none = |_: &ResourceList| ResourceList::new();
        let machine = read_machine("here", Path::new("/"), 110, &NodeOptions::default(), &none).unwrap();
        assert!(machine.allocatable.values().all(|amount| *amount > Amount::ZERO));
        assert_eq!(machine.labels["kubernetes.io/os"], "linux");
    }

    #[test]
    fn what_is_reserved_or_kept_free_is_not_for_pods() {
        let none = |_: &ResourceList| ResourceList::new();
        let whole = read_machine("here", Path::new("/"), 110, &NodeOptions::default(), &none).unwrap();
        let amount = |text: &str| Amount::parse(text).unwrap();
        let options = NodeOptions {
            labels: BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]),
            reserved: ResourceList::from([
                ("cpu".to_owned(), amount("100m")),
                ("memory".to_owned(), amount("64Mi")),
                ("ephemeral-storage".to_owned(), amount("100E")),
            ]),
            pod_max_pids: None,
        };
        let free = |capacity: &ResourceList| {
            assert_eq!(capacity["cpu"], whole.allocatable["cpu"]);
            ResourceList::from([("memory".to_owned(), amount("36Mi"))])
        };
        let machine = read_machine("here", Path::new("/"), 110, &options, &free).unwrap();
        assert_eq!(machine.allocatable["cpu"], whole.allocatable["cpu"] - amount("100m"));
        assert_eq!(machine.allocatable["memory"], whole.allocatable["memory"] - amount("100Mi"));
        assert_eq!(machine.allocatable["ephemeral-storage"], Amount::ZERO);
        assert_eq!(machine.labels["disk"], "ssd");
    }

    #[test]
    fn huge_pages_by_size() {
        let root = tempfile::tempdir().unwrap();
        for (name, pages) in [("hugepages-2048kB", "3"), ("hugepages-1048576kB", "0"), ("other", "9")] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("nr_hugepages"), pages).unwrap();
        }
        let found = huge_pages(root.path());
        assert_eq!(found, ResourceList::from([("hugepages-2Mi".to_owned(), Amount::parse("6Mi").unwrap())]));
    }
}
