//! Makes, limits, weighs and removes the groups of Pods. Blocks.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use minke_core::cgroup::{self, Hierarchies, NoController, Write, class_of, together};
use minke_core::runtime::{LinuxResources, error_chain};

use rustix::process::{Pid, Signal, kill_process};

use super::parent_for;
use crate::CgroupDriver;

/// Why a Pod's group can't be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
    /// A limit needs a controller that isn't there.
    #[error(transparent)]
    NoController(#[from] NoController),
    /// The kernel refuses to make it.
    #[error("can't make the Pod's cgroup {path}; cgroups must be mounted read-write and belong to this user")]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses a limit.
    #[error("can't write {value:?} to {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl GroupError {
    /// Whether the machine's set-up is at fault, rather than the Pod or chance.
    pub(crate) fn is_not_permitted(&self) -> bool {
        match self {
            Self::NoController(_) | Self::Make { .. } => true,
            Self::Write { .. } => false,
        }
    }
}

/// The cgroups of this machine, as far as Pods on the runtime are concerned.
#[derive(Debug)]
pub(crate) struct Groups {
    driver: CgroupDriver,
    /// `None`: none is visible here; the runtime has its own.
    machine: Option<Machine>,
    /// Groups whose sandbox is being made. They are empty, and needed: neither they nor what is above them goes. Also the
    /// lock under which groups come and go.
    making: Mutex<Vec<PathBuf>>,
}

#[derive(Debug)]
struct Machine {
    hierarchies: Hierarchies,
    /// Where a group has directories: every hierarchy that is mounted, those without limits as well, because runtimes
    /// put containers into all of them.
    roots: Vec<PathBuf>,
}

impl Groups {
    /// Those of the machine.
    pub(crate) fn of_this_machine(driver: CgroupDriver) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let machine = Hierarchies::parse(&mounts).map(|hierarchies| {
            let roots = match &hierarchies {
                Hierarchies::V2 { mount, .. } => vec![mount.clone()],
                Hierarchies::V1 { .. } => hybrid_roots(&mounts),
            };
            let offered = match &hierarchies {
                Hierarchies::V2 { mount, .. } => fs::read_to_string(mount.join("cgroup.controllers")),
                Hierarchies::V1 { .. } => Ok(String::new()),
            };
            Machine { hierarchies: hierarchies.offers(&offered.unwrap_or_default()), roots }
        });
        if machine.is_none() {
            tracing::warn!("no cgroups are mounted here: limits on Pods as a whole are not set");
        }
        Self { driver, machine, making: Mutex::default() }
    }

    /// The machine, if its groups are ours to make.
    fn ours(&self) -> Option<&Machine> {
        match self.driver {
            CgroupDriver::Cgroupfs => self.machine.as_ref(),
            CgroupDriver::Systemd => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a Pod's group with its limits, and weighs the class around it. Idempotent. From now on it stays although it
    /// is empty, whatever this returns, until as many [`Groups::made`].
    pub(crate) fn make(&self, path: &str, limits: &LinuxResources) -> Result<(), GroupError> {
        let Some(relative) = relative(path) else { return Ok(()) };
        let mut making = self.lock();
        making.push(relative.to_owned());
        let Some(machine) = self.ours() else { return Ok(()) };
        let writes = cgroup::limits(&machine.hierarchies, limits)?;
        // Who removes what is left of another Pod takes away what is empty above it, perhaps at this moment.
        let vanished = |error: &GroupError| matches!(error, GroupError::Make { source, .. } if source.kind() == io::ErrorKind::NotFound);
        match machine.make_directories(relative) {
            Err(error) if vanished(&error) => machine.make_directories(relative)?,
            made => made?,
        }
        machine.limit(relative, &writes)?;
        machine.weigh(path);
        Ok(())
    }

    /// The sandbox is there, or will not be.
    pub(crate) fn made(&self, path: &str) {
        let mut making = self.lock();
        if let Some(at) = making.iter().position(|making| Some(making.as_path()) == relative(path)) {
            making.swap_remove(at);
        }
    }

    /// Kills what is left in the group of a container or sandbox, whose id is in the group's name. Whether there was
    /// anything: then look again.
    pub(crate) fn kill(&self, path: &str, id: &str) -> bool {
        let Some(machine) = &self.machine else { return false };
        let name = parent_for(path, self.driver);
        let Some(relative) = relative(&name).filter(|_| !id.is_empty()) else { return false };
        let pids: BTreeSet<i32> = machine.of(relative, id).flat_map(|dir| members(&dir)).collect();
        kill_all(&pids);
        !pids.is_empty()
    }

    /// Kills what is left in the group of a Pod that has no sandbox any more, nor one that is being made. Whether there was
    /// anything: then look again. Nothing but the group tells of it: a runtime that is killed while it makes a sandbox
    /// forgets it.
    pub(crate) fn kill_pod(&self, path: &str) -> bool {
        let Some(machine) = &self.machine else { return false };
        let name = parent_for(path, self.driver);
        let Some(relative) = relative(&name) else { return false };
        // Held, so that none begins to be made meanwhile.
        let making = self.lock();
        if making.iter().any(|making| Some(making.as_path()) == self::relative(path)) {
            return false;
        }
        let pids: BTreeSet<i32> = machine.roots.iter().flat_map(|root| members(&root.join(relative))).collect();
        kill_all(&pids);
        if pids.is_empty() {
            machine.roots.iter().for_each(|root| remove_below(&root.join(relative)));
        }
        !pids.is_empty()
    }

    /// Removes the group of a container or sandbox that is gone, which its shim had to remove and did not live to. What
    /// still has processes stays.
    pub(crate) fn clear(&self, path: &str, id: &str) {
        let Some(machine) = &self.machine else { return };
        let name = parent_for(path, self.driver);
        let Some(relative) = relative(&name).filter(|_| !id.is_empty()) else { return };
        machine.of(relative, id).for_each(|group| remove_below(&group));
    }

    /// Removes what is left of a Pod's group in every hierarchy, and what is empty above it. What still has processes
    /// stays.
    pub(crate) fn remove(&self, path: &str) {
        let Some(machine) = &self.machine else { return };
        let name = parent_for(path, self.driver);
        let Some(relative) = relative(&name) else { return };
        let making = self.lock();
        if making.iter().any(|making| Some(making.as_path()) == self::relative(path)) {
            return;
        }
        for root in &machine.roots {
            remove_upwards(root, relative);
        }
        if self.ours().is_some() {
            machine.weigh(path);
        }
    }
}

/// The directories in a directory.
fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// The processes of a group and of those below it.
fn members(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let below = directories(group).into_iter().flat_map(|child| members(&child));
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).chain(below).collect()
}

/// Below the root of a hierarchy, and not the root itself.
fn relative(path: &str) -> Option<&Path> {
    let relative = Path::new(path.trim_matches('/'));
    let below = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    (relative.components().next().is_some() && relative.components().all(below)).then_some(relative)
}

/// Every mount of cgroups, of either version, once.
fn hybrid_roots(mountinfo: &str) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let kind = right.split(' ').next().unwrap_or_default();
        let Some(mount) = left.split(' ').nth(4) else { continue };
        if matches!(kind, "cgroup" | "cgroup2") && !roots.iter().any(|root| root == Path::new(mount)) {
            roots.push(mount.into());
        }
    }
    roots
}

fn kill_all(pids: &BTreeSet<i32>) {
    for pid in pids.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Removes a directory and all below it, as far as they are groups without processes.
fn remove_below(group: &Path) {
    directories(group).iter().for_each(|child| remove_below(child));
    let _ = fs::remove_dir(group);
}

/// Removes a directory and its parents, as far as they are empty.
fn remove_upwards(root: &Path, relative: &Path) {
    for path in relative.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        let directory = root.join(path);
        match fs::remove_dir(&directory) {
            Ok(()) => {}
            // The parents may still be there.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => {
                if path == relative {
                    tracing::debug!(cgroup = %directory.display(), %error, "a Pod's cgroup could not be removed");
                }
                return;
            }
        }
    }
}

impl Machine {
    /// The groups of a container or sandbox below this one, in every hierarchy: its id is in their names.
    fn of<'a>(&'a self, relative: &'a Path, id: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        let groups = self.roots.iter().flat_map(move |root| directories(&root.join(relative)));
        groups.filter(move |dir| dir.file_name().is_some_and(|name| name.to_string_lossy().contains(id)))
    }

    fn make_directories(&self, relative: &Path) -> Result<(), GroupError> {
        for root in &self.roots {
            let mut path = root.clone();
            for part in relative.components() {
                // On version 2 each group must pass its controllers on; where it can't, the limit's file is missing.
                if let Hierarchies::V2 { controllers, .. } = &self.hierarchies {
                    for controller in controllers {
                        let _ = fs::write(path.join("cgroup.subtree_control"), format!("+{controller}"));
                    }
                }
                path.push(part);
                match fs::create_dir(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(source) => return Err(GroupError::Make { path, source }),
                }
            }
        }
        Ok(())
    }

    /// Which of two files that bound each other comes first depends on what was there before, so what is refused is tried
    /// again after the others.
    fn limit(&self, relative: &Path, writes: &[Write]) -> Result<(), GroupError> {
        let refused: Vec<&Write> = writes.iter().filter(|write| self.write(relative, write).is_err()).collect();
        refused.into_iter().try_for_each(|write| self.write(relative, write))
    }

    fn write(&self, relative: &Path, write: &Write) -> Result<(), GroupError> {
        let Some(directory) = self.hierarchies.dir(write.controller, relative) else { return Ok(()) };
        let path = directory.join(&write.file);
        match write_existing(&path, &write.value) {
            Ok(()) => Ok(()),
            Err(error) if write.optional && is_not_there(&error) => Ok(()),
            Err(source) => Err(GroupError::Write { path, value: write.value.clone(), source }),
        }
    }

    /// The class of a Pod weighs what its Pods ask for together, as their own groups say. A weight is a wish between
    /// neighbours, so that nothing fails for it.
    fn weigh(&self, path: &str) {
        let Some(class) = class_of(path) else { return };
        let Some(directory) = self.hierarchies.dir("cpu", Path::new(class)) else { return };
        let version_2 = matches!(self.hierarchies, Hierarchies::V2 { .. });
        let file = if version_2 { "cpu.weight" } else { "cpu.shares" };
        let pods = fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let of_pods = pods.filter_map(|pod| fs::read_to_string(pod.join(file)).ok()?.trim().parse::<u64>().ok());
        let asked = of_pods.map(|value| if version_2 { cgroup::shares(value) } else { value });
        let shares = together(asked).min(262_144);
        let value = if version_2 { cgroup::weight(shares) } else { shares };
        if let Err(error) = write_existing(&directory.join(file), &value.to_string()) {
            tracing::debug!(class, shares, error = error_chain(&error), "can't weigh a group of Pods");
        }
    }
}

/// Cgroups have the files that they have: none is made.
fn write_existing(path: &Path, value: &str) -> io::Result<()> {
    use std::io::Write as _;
    fs::File::options().write(true).open(path)?.write_all(value.as_bytes())
}

/// The kernel is built without it, or has it and no use for it (swap that is not accounted for).
fn is_not_there(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use minke_core::cgroup::Controller;

    use super::*;

    /// A machine of directories, with the files that a kernel would make.
    struct Bed {
        root: tempfile::TempDir,
        groups: Groups,
    }

    impl Bed {
        fn new(driver: CgroupDriver) -> Self {
            let root = tempfile::tempdir().unwrap();
            let mounts = ["cpu", "memory", "unified"].map(|name| root.path().join(name));
            mounts.iter().for_each(|mount| fs::create_dir(mount).unwrap());
            let controller = |name: &str| Controller { names: vec![name.to_owned()], mount: root.path().join(name) };
            let controllers = vec![controller("cpu"), controller("memory")];
            let hierarchies = Hierarchies::V1 { controllers, systemd: None };
            let machine = Some(Machine { hierarchies, roots: mounts.to_vec() });
            Self { groups: Groups { driver, machine, making: Mutex::default() }, root }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        /// The kernel's part.
        fn files(&self, group: &str, shares: u64) {
            for (controller, file) in [("cpu", "cpu.shares"), ("memory", "memory.limit_in_bytes")] {
                let directory = self.at(controller).join(group);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join(file), shares.to_string()).unwrap();
            }
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.at(path)).unwrap()
        }
    }

    fn asks(shares: u64) -> LinuxResources {
        LinuxResources { cpu_shares: Some(shares), memory_limit_bytes: Some(4096), ..LinuxResources::default() }
    }

    #[test]
    fn a_pods_group_is_limited_and_its_class_weighs_what_its_pods_ask_for() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        for group in ["m/burstable", "m/burstable/pod1", "m/burstable/pod2"] {
            bed.files(group, 2);
        }
        bed.groups.make("/m/burstable/pod1", &asks(512)).unwrap();
        bed.groups.make("/m/burstable/pod2", &asks(1024)).unwrap();
        assert_eq!(bed.read("cpu/m/burstable/pod1/cpu.shares"), "512");
        assert_eq!(bed.read("memory/m/burstable/pod2/memory.limit_in_bytes"), "4096");
        assert_eq!(bed.read("cpu/m/burstable/cpu.shares"), "1534");
        assert!(bed.at("unified/m/burstable/pod1").is_dir(), "containers will be in there as well");
        assert!(matches!(bed.groups.make("/m/burstable/pod3", &asks(1)), Err(GroupError::Write { .. })));
        let pids = LinuxResources { pids_limit: Some(9), ..LinuxResources::default() };
        let error = bed.groups.make("/m/burstable/pod1", &pids).unwrap_err();
        assert!(error.is_not_permitted() && error.to_string().contains("pids"), "{error}");
    }

    #[test]
    fn what_is_empty_goes_with_everything_empty_above_it() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        for made in ["memory/m/best/pod1", "cpu/m/best/pod1/busy", "unified/m/best/pod1", "unified/m/best/pod2"] {
            fs::create_dir_all(bed.at(made)).unwrap();
        }
        bed.groups.remove("/m/best/pod1");
        assert!(!bed.at("memory/m").exists(), "the last one takes the instance's root along");
        assert!(bed.at("cpu/m/best/pod1/busy").exists(), "what is in use stays");
        assert!(!bed.at("unified/m/best/pod1").exists() && bed.at("unified/m/best/pod2").exists());
        for hostile in ["/", "", "..", "/../memory", "/m/../.."] {
            bed.groups.remove(hostile);
        }
        assert!(bed.at("memory").exists() && bed.root.path().exists(), "hierarchies are nobody's to remove");
    }

    #[test]
    fn groups_of_what_is_gone_go_and_those_beside_them_stay() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        for made in ["cpu/m/pod1/gone/below", "memory/m/pod1/gone", "cpu/m/pod1/lives"] {
            fs::create_dir_all(bed.at(made)).unwrap();
        }
        bed.groups.clear("/m/pod1", "");
        assert!(bed.at("cpu/m/pod1/gone/below").exists());
        bed.groups.clear("/m/pod1", "gone");
        assert!(!bed.at("cpu/m/pod1/gone").exists() && !bed.at("memory/m/pod1/gone").exists());
        assert!(bed.at("cpu/m/pod1/lives").exists());
    }

    #[test]
    fn a_group_whose_sandbox_is_being_made_stays() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        for _ in 0..2 {
            bed.groups.make("/m/pod1", &LinuxResources::default()).unwrap();
        }
        bed.groups.remove("/m/pod1");
        bed.groups.made("/m/pod1");
        bed.groups.remove("/m/pod1");
        assert!(bed.at("cpu/m/pod1").is_dir(), "the sandbox before it was removed meanwhile");
        bed.groups.made("/m/pod1");
        bed.groups.remove("/m/pod1");
        assert!(!bed.at("cpu/m").exists());
        bed.groups.made("/m/pod1");
        assert!(bed.groups.lock().is_empty());
    }

    #[test]
    fn what_a_container_left_running_is_killed_and_nothing_else() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        for group in ["cpu/m/pod1/c1", "cpu/m/pod1/c2", "memory/m/pod1/c1/below"] {
            fs::create_dir_all(bed.at(group)).unwrap();
        }
        fs::write(bed.at("memory/m/pod1/c1/below/cgroup.procs"), format!("{}\n0\nx\n", child.id())).unwrap();
        for (path, id) in [("/m/pod1", "c2"), ("/m/pod2", "c1"), ("/m/pod1", ""), ("/", "c1"), ("/m/../m/pod1", "c1")] {
            assert!(!bed.groups.kill(path, id), "{path} {id}");
        }
        assert!(child.try_wait().unwrap().is_none(), "it was none of these");
        assert!(bed.groups.kill("/m/pod1", "c1"));
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn what_a_pod_without_a_sandbox_left_running_is_killed_unless_one_is_being_made() {
        let bed = Bed::new(CgroupDriver::Cgroupfs);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::create_dir_all(bed.at("cpu/m/pod1/forgotten")).unwrap();
        let members = bed.at("cpu/m/pod1/forgotten/cgroup.procs");
        fs::write(&members, format!("{}\n", child.id())).unwrap();
        bed.groups.make("/m/pod1", &LinuxResources::default()).unwrap();
        assert!(!bed.groups.kill_pod("/m/pod1"), "a sandbox is being made in it");
        bed.groups.made("/m/pod1");
        for hostile in ["/", "", "/m/..", "/m/pod2"] {
            assert!(!bed.groups.kill_pod(hostile), "{hostile}");
        }
        assert!(child.try_wait().unwrap().is_none());
        assert!(bed.groups.kill_pod("/m/pod1"));
        assert!(!child.wait().unwrap().success());
        fs::remove_file(members).unwrap();
        assert!(!bed.groups.kill_pod("/m/pod1"));
        assert!(!bed.at("cpu/m/pod1").exists());
    }

    #[test]
    fn systemd_makes_its_slices_itself() {
        let bed = Bed::new(CgroupDriver::Systemd);
        bed.groups.make("/m/pod1", &asks(1)).unwrap();
        bed.groups.made("/m/pod1");
        assert!(!bed.at("cpu/m").exists() && !bed.at("cpu/m.slice").exists());
        fs::create_dir_all(bed.at("cpu/m.slice/m-pod1.slice")).unwrap();
        bed.groups.remove("/m/pod1");
        assert!(!bed.at("cpu/m.slice").exists(), "and what it left is removed");
    }

    #[test]
    fn every_mount_of_either_version_is_a_root() {
        let text = "31 30 0:27 / /c/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                    34 30 0:30 / /c/unified rw - cgroup2 cgroup2 rw\n35 30 0:30 / /c/unified rw - cgroup2 cgroup2 rw\n\
                    22 27 0:21 / /proc rw - proc proc rw\njunk\n";
        assert_eq!(hybrid_roots(text), [PathBuf::from("/c/cpu,cpuacct"), PathBuf::from("/c/unified")]);
    }
}
