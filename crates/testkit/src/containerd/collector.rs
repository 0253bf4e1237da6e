//! In place of containerd's collector: takes away what a containerd that was killed left in its own way.
//!
//! Killed between giving a snapshot its directory and writing that down, it gives the next snapshot the same number, finds the
//! directory there ("failed to rename …/new-1 …/57: file exists") and can make nothing more, by whomever, until its collector
//! comes by, which may be hours. An administrator would remove the directory; so does this.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// See the module. Outlives the borrow of its containerd, which may be killed and started meanwhile.
#[derive(Debug)]
pub struct Collector {
    pub(super) root: PathBuf,
    pub(super) log: PathBuf,
    /// Written when the containerd that runs was started.
    pub(super) started: PathBuf,
}

impl Collector {
    /// Removes what is in the way by what the log says; how much that was.
    ///
    /// # Errors
    /// When such a directory can't be removed.
    pub fn clear(&self) -> io::Result<usize> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let modified = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let Some(started) = modified(&self.started) else { return Ok(0) };
        let mut cleared = 0;
        for directory in text.lines().filter_map(in_its_way) {
            // A snapshot of this number that was made since is none of those: only what is older than the process is.
            if directory.starts_with(&self.root) && modified(directory).is_some_and(|made| made < started) {
                std::fs::remove_dir_all(directory)?;
                cleared += 1;
            }
        }
        Ok(cleared)
    }

    /// Does so again and again until it is dropped, and tells.
    pub async fn run(&self) {
        loop {
            match self.clear() {
                Ok(0) => {}
                Ok(_) => println!("containerd was killed while it named a snapshot: what was in its way is removed"),
                Err(error) => println!("what is in the way of containerd can't be removed: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The directory of a snapshot that stands in the way, if this line of the log tells of one.
fn in_its_way(line: &str) -> Option<&Path> {
    let (before, _) = line.split_once("failed to rename: rename ")?.1.split_once(": file exists")?;
    let directory = Path::new(before.rsplit(' ').next()?);
    let number = directory.file_name()?.to_str()?.parse::<u64>().is_ok();
    (number && directory.parent()?.file_name()? == "snapshots").then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(root: &Path, number: &str) -> String {
        let snapshots = root.join("io.containerd.snapshotter.v1.overlayfs/snapshots");
        let snapshots = snapshots.display();
        format!(
            "level=error msg=\"RunPodSandbox failed\" error=\"rpc error: code = Unknown desc = failed to create: failed to \
             rename: rename {snapshots}/new-318 {snapshots}/{number}: file exists\"\n"
        )
    }

    #[test]
    fn what_an_earlier_containerd_left_in_the_way_goes_and_nothing_newer() {
        let root = tempfile::tempdir().unwrap();
        let snapshots = root.path().join("io.containerd.snapshotter.v1.overlayfs/snapshots");
        for name in ["56/fs", "57/fs", "metadata"] {
            std::fs::create_dir_all(snapshots.join(name)).unwrap();
        }
        let log = root.path().join("log");
        std::fs::write(&log, line(root.path(), "57") + &line(root.path(), "metadata") + &line(Path::new("/x"), "1"))
            .unwrap();
        let started = root.path().join("started");
        std::fs::write(&started, "").unwrap();
        let collector = Collector { root: root.path().to_owned(), log, started: started.clone() };
        let at = |seconds| std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let set = |path: &Path, seconds| std::fs::File::open(path).unwrap().set_modified(at(seconds)).unwrap();
        set(&started, 100);
        assert_eq!(collector.clear().unwrap(), 0, "all of it is newer than the containerd");
        set(&snapshots.join("57"), 99);
        assert_eq!(collector.clear().unwrap(), 1);
        assert!(!snapshots.join("57").exists() && snapshots.join("56").exists() && snapshots.join("metadata").exists());
        assert_eq!(collector.clear().unwrap(), 0, "it is gone, and the line is still there");
    }

    #[test]
    fn other_lines_tell_of_nothing() {
        for text in ["", "failed to rename: rename a b: no such file", "failed to rename: rename : file exists"] {
            assert_eq!(in_its_way(text), None, "{text}");
        }
    }
}
