//! Space for images, containers and logs, against the thresholds of eviction. Pure.

use minke_kubelet::eviction::{Level as Space, Observations, Signal, Threshold};

use super::facts::Disk;
use super::{Check, Runtime};
use crate::cmd::node::default_thresholds;

const NAME: &str = "disk";

/// Whether Pods would be evicted right away: by a service, and by an agent that a command starts.
pub(super) fn space(disk: Option<&Disk>) -> Check {
    let Some(disk) = disk else {
        return Check::skipped(NAME, "the disk of the state directory can't be looked at", "look at --state-dir");
    };
    if disk.overlay {
        let found =
            format!("{} lies on an overlay file system, where no overlay can be made", disk.directory.display());
        return Check::fail(NAME, found, "put --state-dir on another file system, for example a volume")
            .of(Runtime::Embedded);
    }
    let levels = [(Signal::Nodefs, disk.bytes), (Signal::NodefsInodes, disk.inodes), (Signal::Imagefs, disk.bytes)];
    let seen = Observations { levels: levels.into(), ..Observations::default() };
    let met = |thresholds: Vec<Threshold>| thresholds.into_iter().find(|t| t.is_met(&seen, false));
    let found = format!("{} on the disk of {}", words(disk), disk.directory.display());
    let advice = "make room: minke image prune removes images that nothing uses";
    match (default_thresholds(true).map(met), default_thresholds(false).map(met)) {
        (Ok(Some(threshold)), _) => {
            let found = format!("{found}: Pods are evicted at once ({})", threshold.signal.as_str());
            Check::fail(NAME, found, advice)
        }
        (_, Ok(Some(threshold))) => {
            let found = format!("{found}: a service evicts Pods at once ({})", threshold.signal.as_str());
            Check::warn(NAME, found, format!("{advice}; or minke agent --eviction-hard"))
        }
        (Ok(None), Ok(None)) => Check::ok(NAME, found),
        (Err(_), _) | (_, Err(_)) => Check::skipped(NAME, found, ""),
    }
}

fn words(disk: &Disk) -> String {
    let share = |space: Space| (u128::from(space.available) * 100).checked_div(u128::from(space.capacity));
    let percent = |space: Space| share(space).map_or_else(|| "?".to_owned(), |share| share.to_string());
    format!(
        "{} MiB ({} %) and {} % of the inodes free",
        disk.bytes.available >> 20,
        percent(disk.bytes),
        percent(disk.inodes)
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn free_space_against_both_kinds_of_agents() {
        let gib = 1 << 30;
        for (available, inodes, level) in [
            (50 * gib, 90, Level::Ok),
            (9 * gib, 90, Level::Warn),
            (50 * gib, 4, Level::Warn),
            (gib / 2, 90, Level::Fail),
            (50 * gib, 0, Level::Fail),
        ] {
            let disk = Disk {
                directory: "/var/lib".into(),
                bytes: Space { available, capacity: 100 * gib },
                inodes: Space { available: inodes, capacity: 100 },
                overlay: false,
            };
            let check = space(Some(&disk));
            assert_eq!(check.result, level, "{check:?}");
            assert_eq!(space(Some(&Disk { overlay: true, ..disk })).result, Level::Fail);
        }
        assert_eq!(space(None).result, Level::Skipped);
    }

    #[test]
    fn a_disk_without_inodes_of_its_own_is_no_problem() {
        let none = Space { available: 0, capacity: 0 };
        let bytes = Space { available: 50 << 30, capacity: 100 << 30 };
        let disk = Disk { directory: "/".into(), bytes, inodes: none, overlay: false };
        assert!(words(&disk).contains("? % of the inodes"), "{}", words(&disk));
    }
}
