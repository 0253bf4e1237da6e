//! Keeps the weight of a group that holds nothing but Pods (`<root>/burstable`): what its Pods ask for together.

use minke_core::cgroup::{LEAST_SHARES, class_of, together};

use super::embedded::Inner;
use super::state::lock;
use crate::cgroup::Cgroup;

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
        .map(|c| (c.cgroup_parent.as_str(), c.resources.cpu_shares.unwrap_or(LEAST_SHARES)))
        .collect();
    // Several attempts of one Pod share its group.
    pods.sort_unstable();
    pods.dedup_by_key(|(group, _)| *group);
    let shares = together(pods.into_iter().map(|(_, shares)| shares));
    if let Err(error) = Cgroup::new(&inner.hierarchies, class).set_shares(shares) {
        tracing::debug!(class, shares, error = minke_core::runtime::error_chain(&error), "can't weigh a group of pods");
    }
}
