//! Checks → whether each runtime can run Pods here. Pure.

use std::fmt;

use serde::Serialize;

use super::{Check, Level, Runtime};

/// What all checks of a runtime come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// Which runtime.
    pub(super) runtime: Runtime,
    /// The instance has its Pods on it, or is to.
    pub(super) chosen: bool,
    /// What is so.
    pub(super) pods: Pods,
}

/// Whether Pods can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pods {
    /// They can; so many warnings.
    Run(usize),
    /// Not before this is mended: the names of checks.
    Fail(Vec<&'static str>),
    /// There is no such runtime.
    Absent,
}

/// One for each runtime. `cri`: the instance has a runtime with CRI, or is to.
pub(super) fn verdicts(checks: &[Check], cri: bool) -> [Verdict; 2] {
    [(Runtime::Embedded, !cri), (Runtime::Cri, cri)].map(|(runtime, chosen)| {
        let own = checks.iter().filter(|check| check.runtime == runtime);
        let absent = runtime == Runtime::Cri && own.clone().all(|check| check.result == Level::Skipped);
        let pods =
            if absent { Pods::Absent } else { pods(own.chain(checks.iter().filter(|c| c.runtime == Runtime::Any))) };
        Verdict { runtime, chosen, pods }
    })
}

fn pods<'a>(checks: impl Iterator<Item = &'a Check> + Clone) -> Pods {
    let failed: Vec<_> = checks.clone().filter(|check| check.result == Level::Fail).map(|check| check.check).collect();
    if failed.is_empty() {
        Pods::Run(checks.filter(|check| check.result == Level::Warn).count())
    } else {
        Pods::Fail(failed)
    }
}

/// Whether Pods can run by the runtime that counts.
pub(super) fn fit(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| !verdict.chosen || matches!(verdict.pods, Pods::Run(_)))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.runtime.as_str())?;
        match &self.pods {
            Pods::Run(0) => f.write_str("Pods can run here.")?,
            Pods::Run(1) => f.write_str("Pods can run here, with one warning.")?,
            Pods::Run(warnings) => write!(f, "Pods can run here, with {warnings} warnings.")?,
            Pods::Fail(checks) => write!(f, "Pods can't run here until this is mended: {}.", checks.join(", "))?,
            Pods::Absent => f.write_str("no containerd or CRI-O is here.")?,
        }
        let other = match (self.chosen, self.runtime) {
            (true, _) | (false, Runtime::Any) => return Ok(()),
            (false, Runtime::Embedded) => "--runtime embedded",
            (false, Runtime::Cri) => "--runtime cri",
        };
        match self.pods {
            Pods::Run(_) => write!(f, " Not in use; {other} asks for it."),
            Pods::Fail(_) => f.write_str(" Not in use."),
            Pods::Absent => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(checks: &[Check], cri: bool) -> (Vec<String>, bool) {
        let verdicts = verdicts(checks, cri);
        (verdicts.iter().map(Verdict::to_string).collect(), fit(&verdicts))
    }

    #[test]
    fn only_what_the_chosen_runtime_needs_makes_a_machine_unfit() {
        let any = Check::warn("cgroups", "no memory", "enable it");
        let overlay = Check::fail("overlay", "none", "load it").of(Runtime::Embedded);
        let socket = Check::ok("cri", "containerd").of(Runtime::Cri);
        let checks = [any.clone(), overlay, socket];
        let (texts_of_cri, ok) = texts(&checks, true);
        assert!(ok, "containerd mounts roots itself: {texts_of_cri:?}");
        assert_eq!(texts_of_cri[1], "cri: Pods can run here, with one warning.");
        let (of_embedded, ok) = texts(&checks, false);
        assert!(!ok);
        assert_eq!(of_embedded[0], "embedded: Pods can't run here until this is mended: overlay.");
        assert!(of_embedded[1].contains("--runtime cri"), "the way out: {of_embedded:?}");

        let silent = Check::fail("cri", "nothing listens", "start it").of(Runtime::Cri);
        let checks = [any, Check::ok("overlay", "fine").of(Runtime::Embedded), silent];
        assert!(texts(&checks, false).1, "nobody asked for containerd");
        assert!(!texts(&checks, true).1);
    }

    #[test]
    fn what_every_runtime_needs_fails_all_of_them() {
        let checks = [Check::fail("root", "not root", "sudo"), Check::ok("cri", "there").of(Runtime::Cri)];
        for cri in [false, true] {
            let (texts, ok) = texts(&checks, cri);
            assert!(!ok && texts.iter().all(|text| text.contains("root")), "{texts:?}");
        }
    }

    #[test]
    fn a_machine_without_a_runtime_with_cri_is_fit_unless_one_is_asked_for() {
        let checks = [Check::skipped("cri", "none", "").of(Runtime::Cri)];
        let (texts_of_both, ok) = texts(&checks, false);
        assert!(ok);
        assert_eq!(texts_of_both, ["embedded: Pods can run here.", "cri: no containerd or CRI-O is here."]);
        assert!(!texts(&checks, true).1);
    }
}
