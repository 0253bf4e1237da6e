//! Reads which hierarchies this machine has.

use std::fs;
use std::path::Path;

use super::{CgroupError, Hierarchies};

/// Reads the machine's set-up.
///
/// # Errors
/// Nothing is mounted.
pub(crate) fn detect() -> Result<Hierarchies, CgroupError> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|source| CgroupError::Io { action: "read", path: path.to_owned(), source })
    };
    let found = Hierarchies::parse(&read(Path::new("/proc/self/mountinfo"))?).ok_or(CgroupError::NoHierarchy)?;
    match &found {
        Hierarchies::V1 { .. } => Ok(found),
        Hierarchies::V2 { mount, .. } => {
            let offered = read(&mount.join("cgroup.controllers"))?;
            Ok(found.offers(&offered))
        }
    }
}
