//! Options as typed.

use minke_core::judgement::{Budget, Limit};

use crate::durations;
use crate::exit::Failure;

/// `--budget`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BudgetOption {
    /// Which.
    pub(super) budget: Budget,
    /// How long.
    pub(super) limit: Limit,
}

impl BudgetOption {
    /// Reads `pull=30s`, `schedule=never`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let names = || Budget::ALL.iter().map(|b| b.as_str()).collect::<Vec<_>>().join(", ");
        let (name, limit) =
            text.split_once('=').ok_or_else(|| format!("write NAME=DURATION; there are: {}", names()))?;
        let budget = Budget::parse(name).ok_or_else(|| format!("no budget {name:?}; there are: {}", names()))?;
        let limit = match limit {
            "never" => Limit::Never,
            limit => Limit::After(durations::duration(limit)?),
        };
        Ok(Self { budget, limit })
    }
}

/// Reads `web`, `pod/web`, `pods/web`, `default/web`.
pub(super) fn pod(text: &str, namespace: &str) -> Result<(String, String), Failure> {
    let bad = || Failure::usage(format!("{text:?} is not a pod: write NAME, pod/NAME or NAMESPACE/NAME"));
    let (namespace, name) = match text.split_once('/') {
        None | Some(("pod" | "pods" | "po", _)) => (namespace, text.rsplit('/').next().unwrap_or_default()),
        Some((namespace, name)) => (namespace, name),
    };
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    if plain(namespace) && plain(name) { Ok((namespace.to_owned(), name.to_owned())) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn budgets_are_read_by_name() {
        let read = |text| BudgetOption::parse(text);
        let after = |seconds| Limit::After(Duration::from_secs(seconds));
        assert_eq!(read("pull=30s"), Ok(BudgetOption { budget: Budget::Pull, limit: after(30) }));
        assert_eq!(read("schedule=never"), Ok(BudgetOption { budget: Budget::Schedule, limit: Limit::Never }));
        assert_eq!(read("crash=0"), Ok(BudgetOption { budget: Budget::Crash, limit: after(0) }));
        for bad in ["pull", "nope=1s", "pull=soon"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pods_are_named_as_kubectl_does() {
        let of = |text| pod(text, "ns").map_err(|failure| failure.exit);
        let named = |namespace: &str, name: &str| Ok((namespace.to_owned(), name.to_owned()));
        assert_eq!(of("web"), named("ns", "web"));
        assert_eq!(of("pod/web"), named("ns", "web"));
        assert_eq!(of("other/web"), named("other", "web"));
        for bad in ["", "a/b/c", "/web", "web/", "we b"] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}
