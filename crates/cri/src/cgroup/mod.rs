//! The cgroup of a Pod: how a runtime is told of it, and what is left of it afterwards.
//!
//! Runtimes make a container's cgroup below the Pod's and remove that alone. The kubelet removes the Pod's; here it is
//! done when the sandbox has been removed.

use std::io;
use std::path::{Path, PathBuf};

use crate::CgroupDriver;

const ROOT: &str = "/sys/fs/cgroup";

/// The Pod's cgroup as the runtime's driver names it. systemd's slices are named by their whole path, with `-` between
/// the parts and `_` for a `-` within one, as the kubelet does it.
pub(crate) fn parent_for(path: &str, driver: CgroupDriver) -> String {
    match driver {
        CgroupDriver::Cgroupfs => path.to_owned(),
        CgroupDriver::Systemd => {
            let mut name = String::new();
            let mut all = String::new();
            for part in path.split('/').filter(|part| !part.is_empty()) {
                if !name.is_empty() {
                    name.push('-');
                }
                name.push_str(&part.replace('-', "_"));
                all.push('/');
                all.push_str(&name);
                all.push_str(".slice");
            }
            all
        }
    }
}

/// Removes what is left of a Pod's cgroup in every hierarchy. What still has processes stays; so does what is above.
pub(crate) fn remove(path: &str, driver: CgroupDriver) {
    remove_below(Path::new(ROOT), &parent_for(path, driver));
}

fn remove_below(root: &Path, path: &str) {
    let relative = path.trim_matches('/');
    // Not a hierarchy's root, and nowhere else.
    if relative.is_empty() || relative.split('/').any(|part| part == "..") {
        return;
    }
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    for directory in std::iter::once(root.to_owned()).chain(hierarchies).map(|root: PathBuf| root.join(relative)) {
        match std::fs::remove_dir(&directory) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => tracing::debug!(cgroup = %directory.display(), %error, "a Pod's cgroup could not be removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_named_as_the_kubelet_names_them() {
        let path = "/minke-1a2b/besteffort/pod12-34";
        assert_eq!(parent_for(path, CgroupDriver::Cgroupfs), path);
        assert_eq!(
            parent_for(path, CgroupDriver::Systemd),
            "/minke_1a2b.slice/minke_1a2b-besteffort.slice/minke_1a2b-besteffort-pod12_34.slice"
        );
    }

    #[test]
    fn what_is_empty_goes_and_what_is_not_stays() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for made in ["memory/m/pod1", "cpu/m/pod1/busy", "m/pod1"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        remove_below(root.path(), "/m/pod1");
        assert!(!at("memory/m/pod1").exists() && !at("m/pod1").exists());
        assert!(at("cpu/m/pod1/busy").exists() && at("memory/m").exists());
        remove_below(root.path(), "/");
        remove_below(&at("m"), "/../memory/m");
        assert!(at("memory/m").exists() && root.path().exists());
    }
}
