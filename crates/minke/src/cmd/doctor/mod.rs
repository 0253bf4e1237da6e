//! `minke doctor`: whether this machine can run Pods, and what to do where it can't.
//!
//! ```text
//! probe   looks at the machine, changes nothing, and judges nothing ─► Facts
//! facts   what was found, as data
//! judge   facts ─► checks: what it means, what to do (pure)
//! network, disk, cri   the longer judgements (pure)
//! verdict  checks ─► which runtime can run Pods here (pure)
//! ```

mod cri;
mod disk;
mod facts;
mod judge;
mod network;
mod probe;
mod verdict;

use clap::Args;
use serde::Serialize;

use crate::client::Client;
use crate::exit::{Exit, Outcome};
use crate::output::{Format, document, stdout, table};
use verdict::Verdict;

/// Check whether this machine can run Pods, and say what to do where it can't
///
/// For the embedded runtime, and for containerd or CRI-O where one is. Nothing is changed, and nothing needs to run. As
/// another user than root less can be seen.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 when Pods can run here by the runtime that the instance has or --runtime asks for, warnings or not; 1 when \
                         something essential is missing."
)]
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

/// Which runtime needs what was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    /// Whichever it is.
    Any,
    /// Minke's own.
    Embedded,
    /// One with CRI.
    Cri,
}

impl Runtime {
    fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Embedded => "embedded",
            Self::Cri => "cri",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) check: &'static str,
    /// Who needs it.
    pub(crate) runtime: Runtime,
    /// How it ended.
    pub(crate) result: Level,
    /// What was found, and what it means.
    pub(crate) found: String,
    /// What to do; empty when there is nothing to do.
    pub(crate) advice: String,
}

impl Check {
    fn new(check: &'static str, result: Level, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, runtime: Runtime::Any, result, found: found.into(), advice: advice.into() }
    }

    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, found, "")
    }

    fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Level::Warn, found, advice)
    }

    fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Level::Fail, found, advice)
    }

    fn skipped(check: &'static str, why: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Level::Skipped, why, advice)
    }

    /// Only this runtime needs it.
    fn of(self, runtime: Runtime) -> Self {
        Self { runtime, ..self }
    }
}

/// All checks, and what they come to.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// Pods can run by the runtime that is asked for.
    ok: bool,
    verdicts: &'a [Verdict],
    checks: &'a [Check],
}

/// Looks, judges and prints.
pub(crate) async fn run(args: &DoctorArgs, client: &Client) -> Outcome {
    let facts = probe::look(client).await;
    let checks = judge::judge(&facts);
    let verdicts = verdict::verdicts(&checks, facts.cri);
    let ok = verdict::fit(&verdicts);
    let text = match args.output {
        Format::Json => document(&Report { ok, verdicts: &verdicts, checks: &checks }, false)?,
        Format::Yaml => document(&Report { ok, verdicts: &verdicts, checks: &checks }, true)?,
        Format::Table | Format::Wide => shown(&checks, &verdicts),
    };
    stdout::print(&text)?;
    Ok(if ok { Exit::Reached } else { Exit::Unfit })
}

fn shown(checks: &[Check], verdicts: &[Verdict]) -> String {
    let mut rows = table::new(&["CHECK", "RUNTIME", "RESULT", "FOUND", "WHAT TO DO"]);
    for check in checks {
        rows.add_row([check.check, check.runtime.as_str(), check.result.as_str(), &check.found, &check.advice]);
    }
    let verdicts: String = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
    format!("{}\n{verdicts}", table::finish(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_each_check_is_for_and_ends_with_the_verdicts() {
        let checks = [Check::ok("a", "fine"), Check::fail("b", "gone", "get it").of(Runtime::Embedded)];
        let text = shown(&checks, &verdict::verdicts(&checks, false));
        let row = text.lines().find(|line| line.starts_with("b ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["b", "embedded", "FAIL", "gone", "get", "it"]);
        assert!(text.contains("\nembedded: Pods can't run"), "{text}");
    }
}
