//! The weight of a group that holds nothing but Pods (`<root>/burstable`): what its Pods ask for together.
//!
//! Without it a single Pod that asks for nothing would get as much of a busy processor as all that ask for something
//! together: between groups only their own weights count. Upstream computes the same from requests, once a minute
//! (`pkg/kubelet/cm/qos_container_manager_linux.go`); here it follows each Pod.

use std::path::Path;

use super::embedded::Inner;
use super::state::lock;
use crate::cgroup::Cgroup;

/// The least weight, that of a Pod that asks for nothing.
const LEAST: u64 = 2;

/// The group around a Pod's own; `None` when that is the root of all Pods, which Guaranteed Pods are in.
fn class_of(cgroup_parent: &str) -> Option<&str> {
    let parent = Path::new(cgroup_parent.trim_matches('/')).parent()?;
    (parent.components().count() > 1).then(|| parent.to_str()).flatten()
}

/// The weight of Pods with these weights together: many that ask for nothing ask for nothing.
fn together(shares: impl Iterator<Item = u64>) -> u64 {
    shares.fold(LEAST, |sum, one| sum.saturating_add(one.saturating_sub(LEAST)))
}

/// Sets the weight of the group around this Pod's own, after the Pod came or went. Blocking; a weight is a wish
/// between neighbours, so that nothing fails for it.
pub(super) fn weigh(inner: &Inner, cgroup_parent: &str) {
    let Some(class) = class_of(cgroup_parent) else { return };
    // Counted and written in one go: whoever writes last has seen all that came before.
    let _one_at_a_time = lock(&inner.weighing);
    let sandboxes = inner.sandboxes();
    let configs = sandboxes.iter().map(|s| &s.record.config);
    let mut pods: Vec<(&str, u64)> = configs
        .filter(|c| class_of(&c.cgroup_parent) == Some(class))
        .map(|c| (c.cgroup_parent.as_str(), c.resources.cpu_shares.unwrap_or(LEAST)))
        .collect();
    // Several attempts of one Pod share its group.
    pods.sort_unstable();
    pods.dedup_by_key(|(group, _)| *group);
    let shares = together(pods.into_iter().map(|(_, shares)| shares));
    if let Err(error) = Cgroup::new(&inner.hierarchies, class).set_shares(shares) {
        tracing::debug!(class, shares, error = minke_core::runtime::error_chain(&error), "can't weigh a group of pods");
    }
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
