//! `minke doctor`: whether this machine can run Pods, and what to do where it can't.
//!
//! ```text
//! probe   looks at the machine, changes nothing, and judges nothing ─► Facts
//! facts   what was found, as data
//! judge   facts ─► checks: what it means, what to do (pure)
//! network, disk, cri   the longer judgements (pure)
//! ```

mod cri;
mod disk;
mod facts;
mod judge;
mod network;
mod probe;

use clap::Args;
use serde::Serialize;

use crate::client::Client;
use crate::exit::{Exit, Outcome};
use crate::output::{Format, document, stdout, table};

/// Check whether this machine can run Pods, and say what to do where it can't
///
/// Nothing is changed, and nothing needs to run. As another user than root less can be seen.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 when Pods can run here, warnings or not; 1 when something essential is missing.")]
pub(crate) struct DoctorArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Pods run, but something does not work or is about to go wrong.
    Warn,
    /// Pods can't run.
    Fail,
    /// It could not be looked at.
    Skipped,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skipped => "skipped",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) check: &'static str,
    /// How it ended.
    pub(crate) result: Level,
    /// What was found, and what it means.
    pub(crate) found: String,
    /// What to do; empty when there is nothing to do.
    pub(crate) advice: String,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, result: Level::Ok, found: found.into(), advice: String::new() }
    }

    fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, result: Level::Warn, found: found.into(), advice: advice.into() }
    }

    fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, result: Level::Fail, found: found.into(), advice: advice.into() }
    }

    fn skipped(check: &'static str, why: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, result: Level::Skipped, found: why.into(), advice: advice.into() }
    }
}

/// All checks.
#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    checks: &'a [Check],
}

/// Looks, judges and prints.
pub(crate) async fn run(args: &DoctorArgs, client: &Client) -> Outcome {
    let checks = judge::judge(&probe::look(client).await);
    let ok = healthy(&checks);
    let report = Report { ok, checks: &checks };
    let text = match args.output {
        Format::Json => document(&report, false)?,
        Format::Yaml => document(&report, true)?,
        Format::Table | Format::Wide => shown(&checks),
    };
    stdout::print(&text)?;
    Ok(if ok { Exit::Reached } else { Exit::Unfit })
}

/// Whether Pods can run here.
fn healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.result != Level::Fail)
}

fn shown(checks: &[Check]) -> String {
    let mut rows = table::new(&["CHECK", "RESULT", "FOUND", "WHAT TO DO"]);
    for check in checks {
        rows.add_row([check.check, check.result.as_str(), &check.found, &check.advice]);
    }
    let warnings = checks.iter().filter(|check| check.result == Level::Warn).count();
    let sum = match (healthy(checks), warnings) {
        (false, _) => "Pods can't run here until what failed is mended.".to_owned(),
        (true, 0) => "Pods can run here.".to_owned(),
        (true, 1) => "Pods can run here, with one warning.".to_owned(),
        (true, n) => format!("Pods can run here, with {n} warnings."),
    };
    format!("{}\n{sum}\n", table::finish(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_makes_a_machine_unfit() {
        let checks =
            [Check::ok("a", "fine"), Check::warn("b", "hm", "do it"), Check::skipped("c", "unseen", "be root")];
        assert!(healthy(&checks));
        assert!(shown(&checks).ends_with("\nPods can run here, with one warning.\n"));
        let failed = [Check::ok("a", "fine"), Check::fail("d", "gone", "get it")];
        assert!(!healthy(&failed));
        assert!(shown(&failed).contains("FAIL"));
    }
}
