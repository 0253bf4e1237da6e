//! What lies on this machine of Pods, known or not, and its removal. Blocks.
//!
//! Links are never followed: what is a link is not ours. A Pod's directory is renamed before anything of it goes, so
//! that a Pod which comes back at that moment gets a directory of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minke_core::identity::PodUid;
use minke_core::runtime::error_chain;

use crate::housekeeping::Leftover;
use crate::volumes;

/// No uid begins with a dot.
const GONE: &str = ".gone-";
/// What says that somebody may want the Pod: its checkpoint, readable or set aside.
const CHECKPOINTS: [&str; 2] = ["pod.json", "pod.json.torn"];
const CGROUPS: &str = "/sys/fs/cgroup";
/// Where Pods' cgroups are below the root, by their quality of service.
const CLASSES: [&str; 3] = ["", "burstable", "besteffort"];

/// Where to look.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) state: PathBuf,
    /// Directories of logs are named after Pods, but not after agents: only where nobody else has any.
    pub(super) own_logs: Option<PathBuf>,
    /// Relative: `minke`.
    pub(super) cgroup_root: PathBuf,
    pub(super) cgroup_mounts: Vec<PathBuf>,
}

impl Places {
    pub(super) fn new(state: &Path, logs: &Path, cgroup_root: &str) -> Self {
        Self {
            state: state.to_owned(),
            own_logs: logs.starts_with(state).then(|| logs.to_owned()),
            cgroup_root: PathBuf::from(cgroup_root.trim_start_matches('/')),
            cgroup_mounts: cgroup_mounts(Path::new(CGROUPS)),
        }
    }

    fn pod(&self, uid: &PodUid) -> PathBuf {
        self.state.join("pods").join(uid.as_str())
    }

    fn gone(&self, uid: &PodUid) -> PathBuf {
        self.state.join("pods").join(format!("{GONE}{uid}"))
    }

    /// Everything that belongs to a Pod. What can't be read is left for later.
    pub(super) fn find(&self) -> Vec<Leftover> {
        let mut found = Vec::new();
        for name in directories(&self.state.join("pods")) {
            let Ok(uid) = PodUid::new(name.strip_prefix(GONE).unwrap_or(&name)) else { continue };
            let path = self.state.join("pods").join(&name);
            let checkpoint = CHECKPOINTS.iter().any(|file| fs::symlink_metadata(path.join(file)).is_ok());
            found.push(Leftover::Directory { uid, checkpoint: checkpoint && !name.starts_with(GONE) });
        }
        for directory in self.own_logs.iter().flat_map(|logs| directories(logs)) {
            // `<namespace>_<name>_<uid>`; only a uid may hold an underscore.
            let Some(uid) = directory.splitn(3, '_').nth(2).and_then(|uid| PodUid::new(uid).ok()) else { continue };
            found.push(Leftover::Logs { uid, directory });
        }
        for mount in &self.cgroup_mounts {
            for class in CLASSES {
                let parent = self.cgroup_root.join(class);
                for name in directories(&mount.join(&parent)) {
                    let Some(uid) = name.strip_prefix("pod").and_then(|uid| PodUid::new(uid).ok()) else { continue };
                    found.push(Leftover::Cgroup { uid, path: parent.join(name) });
                }
            }
        }
        found
    }

    /// Kills what is left in the cgroups of a Pod, and removes them.
    pub(super) fn remove_cgroups(&self, uid: &PodUid) -> Result<(), String> {
        let groups = CLASSES.map(|class| self.cgroup_root.join(class).join(format!("pod{uid}")));
        let there = |path: &PathBuf| self.cgroup_mounts.iter().any(|mount| mount.join(path).is_dir());
        groups.into_iter().filter(there).try_for_each(|path| self.remove(&Leftover::Cgroup { uid: uid.clone(), path }))
    }

    /// Removes one of them.
    pub(super) fn remove(&self, left: &Leftover) -> Result<(), String> {
        match left {
            Leftover::Directory { uid, .. } => self.remove_directory(uid),
            Leftover::Logs { directory, .. } => match &self.own_logs {
                Some(logs) => absent_is_fine(fs::remove_dir_all(logs.join(directory)))
                    .map_err(|e| format!("can't remove the logs in {directory}: {e}")),
                None => Ok(()),
            },
            Leftover::Cgroup { path, .. } => {
                let dirs = || self.cgroup_mounts.iter().map(|mount| mount.join(path));
                dirs().for_each(|dir| kill_all(&dir));
                dirs().try_for_each(|dir| remove_cgroup(&dir)).map_err(|e| format!("can't remove a cgroup: {e}"))?;
                self.remove_empty_above(path);
                Ok(())
            }
        }
    }

    /// Removes what is empty above a Pod's cgroup, up to the root that is this agent's.
    fn remove_empty_above(&self, path: &Path) {
        for mount in &self.cgroup_mounts {
            let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&self.cgroup_root));
            // Others may be in there.
            let _ = above.map(|above| fs::remove_dir(mount.join(above))).take_while(Result::is_ok).count();
        }
    }

    fn remove_directory(&self, uid: &PodUid) -> Result<(), String> {
        let (path, gone) = (self.pod(uid), self.gone(uid));
        if directories(&self.state.join("pods")).contains(&format!("{GONE}{uid}")) {
            clear(&gone)?;
        }
        if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            return Ok(());
        }
        let failed = |e: io::Error| format!("can't set {} aside: {e}", path.display());
        fs::rename(&path, &gone).map_err(failed)?;
        if CHECKPOINTS.iter().any(|file| gone.join(file).exists()) {
            // Taken on at this very moment.
            return fs::rename(&gone, &path).map_err(failed);
        }
        clear(&gone)
    }
}

/// Unmounts and removes a directory that was set aside.
fn clear(gone: &Path) -> Result<(), String> {
    volumes::tear_down(gone).map_err(|e| error_chain(&e))?;
    absent_is_fine(fs::remove_dir_all(gone)).map_err(|e| format!("can't remove {}: {e}", gone.display()))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The names of real directories in a directory.
fn directories(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let real = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(real).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The hierarchies: one on version 2; on version 1 and hybrid one a directory.
fn cgroup_mounts(root: &Path) -> Vec<PathBuf> {
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    directories(root).into_iter().map(|name| root.join(name)).collect()
}

/// Nothing of the runtime is in there; what still runs has lost everybody who could stop it in an orderly way.
fn kill_all(cgroup: &Path) {
    for pid in fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    directories(cgroup).iter().for_each(|child| kill_all(&cgroup.join(child)));
}

fn remove_cgroup(cgroup: &Path) -> io::Result<()> {
    for child in directories(cgroup) {
        remove_cgroup(&cgroup.join(child))?;
    }
    absent_is_fine(fs::remove_dir(cgroup))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bed {
        root: tempfile::TempDir,
        places: Places,
    }

    impl Bed {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let state = root.path().join("state");
            let mut places = Places::new(&state, &state.join("logs"), "/minke");
            places.cgroup_mounts = vec![root.path().join("cg/cpu"), root.path().join("cg/pids")];
            let bed = Self { root, places };
            fs::create_dir_all(state.join("pods")).unwrap();
            bed
        }

        fn make(&self, path: &str) -> PathBuf {
            let path = self.root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            path
        }

        fn found(&self) -> Vec<Leftover> {
            let mut found = self.places.find();
            found.sort();
            found.dedup();
            found
        }
    }

    fn uid(s: &str) -> PodUid {
        PodUid::new(s).unwrap()
    }

    #[test]
    fn everything_of_pods_is_found_and_nothing_else() {
        let bed = Bed::new();
        bed.make("state/pods/a/volumes");
        fs::write(bed.make("state/pods/b").join("pod.json.torn"), "{").unwrap();
        bed.make("state/pods/.gone-c");
        bed.make("state/logs/default_web_u_1");
        bed.make("state/logs/other");
        bed.make("cg/cpu/minke/burstable/podb/container");
        bed.make("cg/pids/minke/pode");
        bed.make("cg/pids/kubepods/podf");
        std::os::unix::fs::symlink(bed.root.path(), bed.root.path().join("state/pods/link")).unwrap();
        let directory = |s, checkpoint| Leftover::Directory { uid: uid(s), checkpoint };
        assert_eq!(
            bed.found(),
            [
                directory("a", false),
                directory("b", true),
                directory("c", false),
                Leftover::Logs { uid: uid("u_1"), directory: "default_web_u_1".to_owned() },
                Leftover::Cgroup { uid: uid("b"), path: "minke/burstable/podb".into() },
                Leftover::Cgroup { uid: uid("e"), path: "minke/pode".into() },
            ]
        );
    }

    #[test]
    fn logs_in_a_shared_directory_are_not_ours() {
        let places = Places::new(Path::new("/var/lib/minke"), Path::new("/var/log/pods"), "/minke");
        assert_eq!(places.own_logs, None);
    }

    #[test]
    fn each_kind_is_removed_and_links_lead_nowhere() {
        let bed = Bed::new();
        let outside = bed.make("outside");
        fs::write(outside.join("precious"), "x").unwrap();
        let volumes = bed.make("state/pods/a/volumes");
        std::os::unix::fs::symlink(&outside, volumes.join("link")).unwrap();
        bed.make("state/pods/.gone-c/volumes");
        std::os::unix::fs::symlink(&outside, bed.make("state/logs/default_web_u").join("link")).unwrap();
        bed.make("cg/cpu/minke/burstable/podb/container");
        bed.make("cg/pids/minke/burstable/podb/container");
        for left in bed.found() {
            bed.places.remove(&left).unwrap();
            bed.places.remove(&left).unwrap();
        }
        assert_eq!(bed.found(), []);
        assert!(outside.join("precious").exists());
        assert!(bed.root.path().join("cg/cpu").exists() && !bed.root.path().join("cg/cpu/minke").exists());
    }

    #[test]
    fn the_cgroups_of_a_pod_go_and_those_of_others_stay() {
        let bed = Bed::new();
        bed.make("cg/cpu/minke/burstable/poda/container");
        bed.make("cg/pids/minke/burstable/poda");
        bed.make("cg/cpu/minke/burstable/podb");
        bed.places.remove_cgroups(&uid("a")).unwrap();
        bed.places.remove_cgroups(&uid("a")).unwrap();
        assert_eq!(bed.found(), [Leftover::Cgroup { uid: uid("b"), path: "minke/burstable/podb".into() }]);
        assert!(!bed.root.path().join("cg/pids/minke").exists(), "what is empty goes");
    }

    #[test]
    fn a_directory_that_got_a_checkpoint_meanwhile_stays_as_it_is() {
        let bed = Bed::new();
        let directory = bed.make("state/pods/a");
        fs::write(directory.join("pod.json"), "{}").unwrap();
        bed.places.remove(&Leftover::Directory { uid: uid("a"), checkpoint: false }).unwrap();
        assert!(directory.join("pod.json").exists());
    }
}
