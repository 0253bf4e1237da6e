//! What an API refuses or fails, told to people once and not for each of a thousand Pods; with the rule that is missing, if it is one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use minke_core::identity::PodKey;

use crate::node::rbac::missing_rule;

/// Most rules that are remembered: an API has that many kinds of permission for a node, and no more.
const RULES: usize = 64;

/// What was told already. Shared by all who ask one API.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// The last failure of each kind of call, until one succeeds.
    failing: BTreeMap<&'static str, String>,
    rules: BTreeSet<String>,
}

impl Told {
    /// Whether it is news that such a call fails in these words.
    fn is_news(&mut self, call: &'static str, words: &str) -> bool {
        if self.failing.get(call).is_some_and(|last| last == words) {
            return false;
        }
        self.failing.insert(call, words.to_owned());
        true
    }

    /// The rule that is missing, if these words tell of one that was not told yet.
    fn rule(&mut self, words: &str) -> Option<String> {
        let rule = missing_rule(words)?;
        (self.rules.len() < RULES && self.rules.insert(rule.clone())).then_some(rule)
    }
}

impl Refusals {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call failed and is made again; for a Pod, if it was about one.
    pub(crate) fn failed(&self, call: &'static str, pod: Option<&PodKey>, words: &str) {
        let pod = pod.map(tracing::field::display);
        if self.told().is_news(call, words) {
            tracing::warn!(pod, error = words, "can't {call}; it is tried again");
        } else {
            tracing::debug!(pod, error = words, "can't {call}; it is tried again");
        }
        self.refused(words);
    }

    /// Tells which permission is missing, if these words of the API's say so.
    pub(crate) fn refused(&self, words: &str) {
        if let Some(rule) = self.told().rule(words) {
            tracing::warn!("a permission is missing; this would give it:\n{rule}");
        }
    }

    /// Such a call succeeded.
    pub(crate) fn succeeded(&self, call: &'static str) {
        if self.told().failing.remove(call).is_some() {
            tracing::info!("can {call} again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_news_once_until_it_is_over() {
        let refusals = Refusals::default();
        let news = |call, words| refusals.told().is_news(call, words);
        assert!(news("list", "down") && !news("list", "down"));
        assert!(news("write", "down"), "another call");
        assert!(news("list", "forbidden") && !news("list", "forbidden"));
        refusals.succeeded("list");
        assert!(news("list", "forbidden") && !news("write", "down"));
    }

    #[test]
    fn a_missing_permission_is_told_once_however_many_pods_want_it() {
        let mut told = Told::default();
        let words = |pod: &str, verb: &str| {
            format!(
                "patch pod status failed: 403: pods \"{pod}\" is forbidden: User \"u\" cannot {verb} resource \"pods/status\" \
                 in API group \"\" in the namespace \"ns\""
            )
        };
        let rule = told.rule(&words("a", "patch")).unwrap();
        assert!(rule.contains("verbs: [\"patch\"]") && rule.contains("namespace ns"), "{rule}");
        assert_eq!(told.rule(&words("b", "patch")), None);
        assert!(told.rule(&words("b", "get")).is_some());
        assert_eq!(told.rule("500: out of order"), None);
    }
}
