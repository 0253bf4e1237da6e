//! What the machine must offer.

use std::fs;

use caps::{CapSet, Capability};

use super::OpenError;
use crate::cgroup::{Hierarchies, detect};

/// Checks everything that can be known before the first container.
pub(super) fn check() -> Result<Hierarchies, OpenError> {
    if !rustix::process::geteuid().is_root() {
        return Err(OpenError::NotRoot);
    }
    let effective = caps::read(None, CapSet::Effective).unwrap_or_default();
    for (capability, name) in [
        (Capability::CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
        (Capability::CAP_SETUID, "CAP_SETUID"),
        (Capability::CAP_SETGID, "CAP_SETGID"),
        (Capability::CAP_SETPCAP, "CAP_SETPCAP"),
        (Capability::CAP_CHOWN, "CAP_CHOWN"),
        (Capability::CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
        (Capability::CAP_KILL, "CAP_KILL"),
    ] {
        if !effective.contains(&capability) {
            let advice = "inside a container start that one privileged or with this capability added";
            return Err(OpenError::NoCapability { capability: name, advice });
        }
    }
    // A module that is not loaded yet is not listed, but asking for the file system loads it.
    let listed = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !listed.lines().any(|l| l.split_whitespace().last() == Some("overlay")) {
        rustix::mount::fsopen("overlay", rustix::mount::FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|_| OpenError::NoOverlay)?;
    }
    detect().map_err(|e| OpenError::Cgroups(Box::new(e)))
}
