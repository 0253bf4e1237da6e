//! A set does not move to another scope: its runners are registered where it was, and asked about them another scope says that
//! there are none, as if all had ended.

use std::sync::Arc;

use super::types::{GitHubScope, RunnerSet};
use super::validate::settings_or_none;
use crate::engine::Settings;

/// What is told of a change that moves a set. The schema refuses it with the same words; this is for clusters that have an
/// older one.
pub const MOVES: &str = "spec.github: url, repository, organization and enterprise can't be changed, since runners are \
                         registered there: make another RunnerSet, and delete this one";

fn scope(github: &GitHubScope) -> [Option<&str>; 4] {
    let GitHubScope { url, repository, organization, enterprise, group_id: _, credentials_secret: _ } = github;
    [url, repository, organization, enterprise].map(|part| part.as_deref())
}

/// Whether a change moves the set to another scope. Another set of the same name does not: its runners are its own.
#[must_use]
pub fn moves(old: &RunnerSet, new: &RunnerSet) -> bool {
    old.metadata.uid == new.metadata.uid && scope(&old.spec.github) != scope(&new.spec.github)
}

/// The changed set, where it was.
fn unmoved(old: &RunnerSet, new: &RunnerSet) -> Arc<RunnerSet> {
    let mut set = new.clone();
    let GitHubScope { group_id, credentials_secret, .. } = set.spec.github;
    set.spec.github = GitHubScope { group_id, credentials_secret, ..old.spec.github.clone() };
    Arc::new(set)
}

/// A set that has changed, and what the engine needs to know of it. One that would move stays where it was, for its runners do:
/// asked of another scope, all of them would seem to be gone.
///
/// # Errors
///
/// All that is wrong with it, in words.
pub fn changed(old: &RunnerSet, new: Arc<RunnerSet>) -> (Arc<RunnerSet>, Result<Settings, String>) {
    if !moves(old, &new) {
        let settings = settings_or_none(&new);
        return (new, settings);
    }
    let set = unmoved(old, &new);
    let settings =
        if set.metadata.deletion_timestamp.is_some() { settings_or_none(&set) } else { Err(MOVES.to_owned()) };
    (set, settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests::set;

    #[test]
    fn another_scope_is_a_move_and_another_group_or_credential_is_none() {
        let old = set();
        let mut new = set();
        new.spec.github.group_id = Some(7);
        new.spec.github.credentials_secret = "other".to_owned();
        assert!(!moves(&old, &new));
        new.spec.github.organization = Some("elsewhere".to_owned());
        assert!(moves(&old, &new));
        let back = unmoved(&old, &new);
        assert!(!moves(&old, &back) && back.spec.github.group_id == Some(7));
        new.metadata.uid = Some("another".to_owned());
        assert!(!moves(&old, &new), "it is another set of the same name");
    }
}
