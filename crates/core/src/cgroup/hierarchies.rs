//! Which hierarchies a machine has.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One mounted hierarchy of version 1 and its controllers (`cpu,cpuacct` may share one); `name=systemd` has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Its controllers.
    pub names: Vec<String>,
    /// Its mount point.
    pub mount: PathBuf,
}

/// The machine's set-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hierarchies {
    /// Version 1, also as part of a hybrid set-up.
    V1 {
        /// Mounted hierarchies with at least one controller, in the order of their mounts.
        controllers: Vec<Controller>,
        /// Mount point of `name=systemd`, if any.
        systemd: Option<PathBuf>,
    },
    /// Version 2.
    V2 {
        /// Mount point.
        mount: PathBuf,
        /// Controllers on offer at the root.
        controllers: Vec<String>,
    },
}

const V1_CONTROLLERS: [&str; 13] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "hugetlb",
    "net_cls",
    "net_prio",
    "perf_event",
    "rdma",
];

impl Hierarchies {
    /// Understands the text of `/proc/self/mountinfo`; `None` when no hierarchy is mounted. Any hierarchy of version
    /// 1 with a controller makes it version 1: what version 1 holds, version 2 can't have. Which controllers version 2 has
    /// stands elsewhere: [`Hierarchies::offers`].
    #[must_use]
    pub fn parse(mountinfo: &str) -> Option<Self> {
        let mut controllers: Vec<Controller> = Vec::new();
        let mut systemd = None;
        let mut unified = None;
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let Some(mount) = left.split(' ').nth(4) else { continue };
            let mount = PathBuf::from(unescape(mount));
            let mut right = right.split(' ');
            let (Some(kind), _source, Some(options)) = (right.next(), right.next(), right.next()) else { continue };
            match kind {
                "cgroup2" => unified = unified.or(Some(mount)),
                "cgroup" => {
                    let names: Vec<String> =
                        options.split(',').filter(|o| V1_CONTROLLERS.contains(o)).map(str::to_owned).collect();
                    if names.is_empty() {
                        if options.split(',').any(|o| o == "name=systemd") {
                            systemd = systemd.or(Some(mount));
                        }
                    } else if !controllers.iter().any(|c| c.names == names) {
                        controllers.push(Controller { names, mount });
                    }
                }
                _ => {}
            }
        }
        if controllers.is_empty() {
            unified.map(|mount| Self::V2 { mount, controllers: Vec::new() })
        } else {
            Some(Self::V1 { controllers, systemd })
        }
    }

    /// The controllers of version 2, from the text of its root's `cgroup.controllers`. Version 1 has them in its mounts.
    #[must_use]
    pub fn offers(self, text: &str) -> Self {
        match self {
            Self::V1 { .. } => self,
            Self::V2 { mount, .. } => {
                Self::V2 { mount, controllers: text.split_whitespace().map(str::to_owned).collect() }
            }
        }
    }

    /// The directory in which a cgroup has the files of this controller. The path is relative: `minke/pod<uid>`.
    #[must_use]
    pub fn dir(&self, controller: &str, path: &Path) -> Option<PathBuf> {
        match self {
            Self::V1 { .. } => self.v1_mount(controller).map(|mount| mount.join(path)),
            Self::V2 { mount, .. } => Some(mount.join(path)),
        }
    }

    /// Where a controller of version 1 is mounted.
    #[must_use]
    pub fn v1_mount(&self, name: &str) -> Option<&Path> {
        match self {
            Self::V1 { controllers, .. } => {
                controllers.iter().find(|c| c.names.iter().any(|n| n == name)).map(|c| c.mount.as_path())
            }
            Self::V2 { .. } => None,
        }
    }

    /// Every directory that a path of this set-up consists of.
    #[must_use]
    pub fn mounts(&self) -> Vec<&Path> {
        match self {
            Self::V1 { controllers, systemd } => {
                controllers.iter().map(|c| c.mount.as_path()).chain(systemd.as_deref()).collect()
            }
            Self::V2 { mount, .. } => vec![mount],
        }
    }

    /// Whether a controller is on offer.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        match self {
            Self::V1 { .. } => self.v1_mount(controller).is_some(),
            Self::V2 { controllers, .. } => controllers.iter().any(|c| c == controller),
        }
    }
}

/// Undoes mountinfo's octal escapes (`\040` is a space).
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4);
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn hybrid_is_version_1_and_its_unified_mount_is_left_alone() {
        let found = Hierarchies::parse(HYBRID).unwrap();
        assert_eq!(found.v1_mount("cpuacct"), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(found.v1_mount("cpu"), found.v1_mount("cpuacct"));
        assert!(found.has("memory") && !found.has("pids"));
        assert!(found.mounts().contains(&Path::new("/sys/fs/cgroup/systemd")));
        assert!(!found.mounts().contains(&Path::new("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn pure_version_2_and_version_2_beside_only_systemd() {
        let pure = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(matches!(Hierarchies::parse(pure), Some(Hierarchies::V2 { .. })));
        let beside = "1 0 0:1 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n2 0 0:2 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n";
        let Some(Hierarchies::V2 { mount, .. }) = Hierarchies::parse(beside) else { panic!("not version 2") };
        assert_eq!(mount, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_cgroup_has_its_files_where_its_controller_is() {
        let path = Path::new("minke/pod1");
        let v1 = Hierarchies::parse(HYBRID).unwrap().offers("pids");
        assert_eq!(v1.dir("memory", path), Some("/sys/fs/cgroup/memory/minke/pod1".into()));
        assert_eq!((v1.dir("pids", path), v1.has("pids")), (None, false));
        let v2 = Hierarchies::V2 { mount: "/c".into(), controllers: Vec::new() }.offers("cpu memory\n");
        assert_eq!(v2.dir("memory", path), Some("/c/minke/pod1".into()));
        assert!(v2.has("cpu") && !v2.has("pids"));
    }

    #[test]
    fn nothing_mounted_or_nonsense_is_none() {
        assert_eq!(Hierarchies::parse("22 27 0:21 / /proc rw - proc proc rw\n"), None);
        assert_eq!(Hierarchies::parse("- - -\n\n a - cgroup\n"), None);
    }

    #[test]
    fn mount_points_with_spaces_are_unescaped() {
        assert_eq!(unescape("/a\\040b\\134"), "/a b\\");
        assert_eq!(unescape("/a\\9"), "/a\\9");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_understood_or_ignored(text in "\\PC{0,200}") {
            let _ = Hierarchies::parse(&text);
        }
    }
}
