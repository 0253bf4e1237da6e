//! The groups that hold nothing but Pods (`<root>/burstable`), and what they weigh: what their Pods ask for together.
//!
//! Without it a single Pod that asks for nothing would get as much of a busy processor as all that ask for something
//! together: between groups only their own weights count. Upstream computes the same from requests, once a minute
//! (`pkg/kubelet/cm/qos_container_manager_linux.go`); here it follows each Pod.

use std::path::Path;

/// The least weight, that of a Pod that asks for nothing.
pub const LEAST_SHARES: u64 = 2;

/// The group around a Pod's own, relative; `None` when that is the root of all Pods, which Guaranteed Pods are in.
#[must_use]
pub fn class_of(cgroup_parent: &str) -> Option<&str> {
    let parent = Path::new(cgroup_parent.trim_matches('/')).parent()?;
    (parent.components().count() > 1).then(|| parent.to_str()).flatten()
}

/// The weight of Pods with these weights together: many that ask for nothing ask for nothing.
pub fn together(shares: impl Iterator<Item = u64>) -> u64 {
    shares.fold(LEAST_SHARES, |sum, one| sum.saturating_add(one.saturating_sub(LEAST_SHARES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_below_the_root_of_pods_have_a_weight() {
        assert_eq!(class_of("/minke/burstable/pod1"), Some("minke/burstable"));
        assert_eq!(class_of("/minke/pod1"), None);
        assert_eq!(class_of("pod1"), None);
        assert_eq!(class_of(""), None);
    }

    #[test]
    fn pods_weigh_what_they_ask_for_together() {
        assert_eq!(together([].into_iter()), 2);
        assert_eq!(together([2, 2, 2].into_iter()), 2, "a hundred that ask for nothing are as light as one");
        assert_eq!(together([512, 2, 1024].into_iter()), 1534);
        assert_eq!(together([u64::MAX, 512].into_iter()), u64::MAX);
    }
}
