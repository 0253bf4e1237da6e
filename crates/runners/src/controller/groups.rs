//! What is known of runner groups: which repositories each is open to, and when that is asked again. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::demand::{Access, SetKey};
use crate::set::RunnerSet;

/// What is known is believed for so long.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// It is asked again so soon when nobody has answered.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// A group of an organization, as a credential sees it: its sets share the answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    namespace: String,
    secret: String,
    url: Option<String>,
    organization: String,
    number: Option<u64>,
}

impl GroupKey {
    /// The group of a set; `None`: only organizations' groups are restricted to repositories. (An enterprise's are restricted
    /// to organizations, and these may restrict them further.)
    pub(super) fn of(key: &SetKey, set: &RunnerSet) -> Option<Self> {
        let github = &set.spec.github;
        Some(Self {
            namespace: key.namespace.clone(),
            secret: github.credentials_secret.clone(),
            url: github.url.clone(),
            organization: github.organization.as_ref()?.to_lowercase(),
            number: github.group_id,
        })
    }
}

#[derive(Debug, Clone)]
struct Known {
    access: Access,
    /// When it is asked again; `None`: the question is on its way.
    next: Option<Timestamp>,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<GroupKey, Known>);

impl Groups {
    /// Whom a group is open to, as far as that is known.
    pub(super) fn access(&self, group: &GroupKey) -> Access {
        self.0.get(group).map(|known| known.access.clone()).unwrap_or_default()
    }

    /// Those of the groups that are to be asked for now; each is on its way then. What belongs to no set is forgotten.
    pub(super) fn due(&mut self, groups: BTreeSet<GroupKey>, now: Timestamp) -> Vec<GroupKey> {
        self.0.retain(|group, _| groups.contains(group));
        let mut due = Vec::new();
        for group in groups {
            let known = self.0.entry(group.clone()).or_insert(Known { access: Access::All, next: Some(now) });
            if known.next.is_some_and(|next| next <= now) {
                known.next = None;
                due.push(group);
            }
        }
        due
    }

    /// The answer; `None`: there was none, and what was known holds. Whether that changes anything.
    pub(super) fn answered(&mut self, group: &GroupKey, access: Option<Access>, now: Timestamp) -> bool {
        let Some(known) = self.0.get_mut(group) else { return false };
        known.next = Some(now + if access.is_some() { FRESH } else { AGAIN });
        let changed = access.as_ref().is_some_and(|access| *access != known.access);
        known.access = access.unwrap_or_else(|| known.access.clone());
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn group(number: u64) -> GroupKey {
        let [namespace, secret, organization] = ["ci", "github", "octo"].map(str::to_owned);
        GroupKey { namespace, secret, url: None, organization, number: Some(number) }
    }

    #[test]
    fn a_group_is_asked_for_once_and_again_when_the_answer_is_old() {
        let mut groups = Groups::default();
        let both = || BTreeSet::from([group(1), group(2)]);
        assert_eq!(groups.due(both(), NOW), [group(1), group(2)]);
        assert_eq!(groups.due(both(), NOW + FRESH), [], "both questions are on their way");
        let lib = Access::only(["octo/lib"]);
        assert!(groups.answered(&group(1), Some(lib.clone()), NOW));
        assert!(!groups.answered(&group(2), None, NOW), "nobody has answered");
        assert_eq!(groups.due(both(), NOW + AGAIN), [group(2)]);
        assert_eq!(groups.due(both(), NOW + FRESH), [group(1)]);
        assert!(!groups.answered(&group(1), Some(lib.clone()), NOW + FRESH), "as it was");
        assert_eq!((groups.access(&group(1)), groups.access(&group(2))), (lib, Access::All));
    }

    #[test]
    fn what_was_known_holds_while_the_forge_is_away_and_is_forgotten_with_the_last_set() {
        let mut groups = Groups::default();
        groups.due(BTreeSet::from([group(1)]), NOW);
        groups.answered(&group(1), Some(Access::only(["octo/lib"])), NOW);
        groups.answered(&group(1), None, NOW + FRESH);
        assert!(!groups.access(&group(1)).allows("octo/app"));
        groups.due(BTreeSet::new(), NOW + FRESH);
        assert_eq!(groups.access(&group(1)), Access::All);
        assert!(!groups.answered(&group(1), Some(Access::only(["x/y"])), NOW), "an answer that comes too late");
    }
}
