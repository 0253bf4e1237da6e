//! The cgroup of a Pod, which CRI leaves to the kubelet: its name, its limits, its removal.
//!
//! Runtimes make a container's cgroup below the Pod's and remove that alone. As the kubelet does, the Pod's own is made
//! before its sandbox, with the limits on the Pod as a whole, and the group of its class is weighed; when the sandbox was
//! removed it goes, and so does what is empty above it. Where systemd makes the groups, it alone may write them: they get
//! their names and nothing else.

mod groups;

use crate::CgroupDriver;

pub(crate) use groups::Groups;

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
}
