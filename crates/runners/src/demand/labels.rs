//! Which set's runners a job asks for: as the forge matches labels, without regard to case, and `self-hosted` says nothing.

use std::collections::BTreeSet;

/// A set of labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(BTreeSet<String>);

/// A set of runners and the labels that they register with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLabels {
    /// The set's name.
    pub name: String,
    /// Its runners' labels.
    pub labels: Labels,
}

impl<S: AsRef<str>> FromIterator<S> for Labels {
    fn from_iter<I: IntoIterator<Item = S>>(labels: I) -> Self {
        let labels = labels.into_iter().map(|label| label.as_ref().trim().to_lowercase());
        Self(labels.filter(|label| label != "self-hosted" && !label.is_empty()).collect())
    }
}

impl Labels {
    /// Whether a runner with these labels may take a job that asks for those.
    #[must_use]
    pub fn serve(&self, asked: &Self) -> bool {
        asked.0.is_subset(&self.0)
    }
}

/// The one set that makes a runner for a job that asks for these labels: of all that may, the one with the fewest labels
/// (what it could serve besides is left to jobs that need it), then the first by name. `None` without labels: such a job
/// names no runner of one's own.
#[must_use]
pub fn route<'a>(asked: &[String], sets: &'a [SetLabels]) -> Option<&'a str> {
    if asked.is_empty() {
        return None;
    }
    let asked: Labels = asked.iter().collect();
    let fit = sets.iter().filter(|set| set.labels.serve(&asked));
    fit.min_by_key(|set| (set.labels.0.len(), &set.name)).map(|set| set.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, labels: &[&str]) -> SetLabels {
        SetLabels { name: name.to_owned(), labels: labels.iter().collect() }
    }

    fn asked(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn labels_match_without_case_and_self_hosted_says_nothing() {
        let sets = [set("linux", &["Linux", "x64"])];
        for labels in [&["linux"][..], &["self-hosted", "LINUX", "X64"], &["Self-Hosted"]] {
            assert_eq!(route(&asked(labels), &sets), Some("linux"), "{labels:?}");
        }
        for labels in [&["windows"][..], &["linux", "gpu"], &[]] {
            assert_eq!(route(&asked(labels), &sets), None, "{labels:?}");
        }
    }

    #[test]
    fn an_ambiguous_job_is_one_sets_and_always_the_same() {
        let sets = [set("gpu", &["linux", "gpu"]), set("b", &["linux"]), set("a", &["linux"])];
        assert_eq!(route(&asked(&["linux"]), &sets), Some("a"));
        assert_eq!(route(&asked(&["linux", "gpu"]), &sets), Some("gpu"));
    }
}
