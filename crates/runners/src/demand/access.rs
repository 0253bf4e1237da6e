//! Which repositories a runner group is open to: a runner of the group gets no other's jobs, so those want none of it.

use std::collections::BTreeSet;

/// Whose jobs the runners of a group may get, within their scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Access {
    /// Those of all repositories. Also as long as nobody knows better: a runner too many is gone in a minute, and a job that
    /// is not counted waits for ever.
    #[default]
    All,
    /// Those of these repositories alone.
    Only(BTreeSet<String>),
}

impl Access {
    /// Access for these repositories alone, `owner/name`. The forge's names have no case.
    pub fn only<S: AsRef<str>>(repositories: impl IntoIterator<Item = S>) -> Self {
        Self::Only(repositories.into_iter().map(|name| name.as_ref().to_lowercase()).collect())
    }

    /// Whether a job of this repository, in lower case, may get one of its runners.
    #[must_use]
    pub fn allows(&self, repository: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(repositories) => repositories.contains(repository),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case() {
        let access = Access::only(["Octo/App"]);
        assert!(access.allows("octo/app") && !access.allows("octo/lib") && Access::All.allows("octo/lib"));
        assert!(!Access::only(<[&str; 0]>::default()).allows("octo/app"), "a group that is open to nobody");
    }
}
