//! A row of the table: how it is carried out, and how what was seen is compared with what is to be seen.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt as _;

use crate::stage::{Broken, Stage};
use crate::subject::{Kind, Subject};

type Run = for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = Result<(), Broken>> + 'a>>;

/// What a scenario needs of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: every runtime can.
    Nothing,
    /// Containers that are real processes.
    Programs,
}

/// A runtime that differs, as it may.
#[derive(Debug, Clone, Copy)]
pub struct But {
    /// Which ones.
    pub of: &'static [Kind],
    /// What is seen there instead.
    pub sees: &'static [&'static str],
    /// Why that is so, and what Minke makes of it.
    pub why: &'static str,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name, as a test's.
    pub name: &'static str,
    run: Run,
    pub(crate) sees: &'static [&'static str],
    pub(crate) needs: Needs,
    alone: bool,
    pub(crate) but: &'static [But],
}

/// How a scenario went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As the table says.
    Holds,
    /// It needs what this runtime does not have.
    NotForThis(&'static str),
    /// Otherwise; what was expected and seen, line by line.
    Differs(String),
}

impl Scenario {
    /// A row that every runtime has to fulfil alike.
    pub(crate) const fn new(name: &'static str, run: Run, sees: &'static [&'static str]) -> Self {
        Self { name, run, sees, needs: Needs::Nothing, alone: false, but: &[] }
    }

    /// Only where containers are real processes.
    pub(crate) const fn of_programs(self) -> Self {
        Self { needs: Needs::Programs, ..self }
    }

    /// Not beside others on the same runtime.
    pub(crate) const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// Where it legitimately differs.
    pub(crate) const fn but(self, but: &'static [But]) -> Self {
        Self { but, ..self }
    }

    /// Whether it must have the runtime for itself.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// What is to be seen on this runtime.
    fn expected(&self, kind: Kind) -> &'static [&'static str] {
        self.but.iter().find(|but| but.of.contains(&kind)).map_or(self.sees, |but| but.sees)
    }

    /// Carries it out on a runtime, and clears up.
    pub async fn run(&self, subject: &Subject) -> Verdict {
        if self.needs == Needs::Programs && !subject.kind.runs_programs() {
            return Verdict::NotForThis("containers here are no real processes");
        }
        let stage = match Stage::new(subject, self.name) {
            Ok(stage) => stage,
            Err(broken) => return Verdict::Differs(broken.0),
        };
        let done = AssertUnwindSafe((self.run)(&stage)).catch_unwind().await;
        let cleared = stage.clear().await;
        let mut seen = stage.transcript();
        let broken = match done {
            Ok(done) => done.err().map(|broken| broken.0),
            Err(_) => Some("panicked".to_owned()),
        };
        for broken in broken.into_iter().chain(cleared.err().map(|broken| format!("clearing up: {}", broken.0))) {
            seen.push_str(&format!("BROKEN {broken}\n"));
        }
        compare(self.expected(subject.kind), &seen)
    }
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Line by line.
fn compare(expected: &[&str], seen: &str) -> Verdict {
    let seen: Vec<&str> = seen.lines().collect();
    let wanted: Vec<&str> = expected.iter().flat_map(|line| line.lines()).collect();
    if seen == wanted {
        return Verdict::Holds;
    }
    let mut text = String::new();
    for at in 0..seen.len().max(wanted.len()) {
        match (wanted.get(at), seen.get(at)) {
            (Some(wanted), Some(seen)) if wanted == seen => text.push_str(&format!("    {seen}\n")),
            (wanted, seen) => {
                text.extend(wanted.map(|line| format!("  - {line}\n")));
                text.extend(seen.map(|line| format!("  + {line}\n")));
            }
        }
    }
    Verdict::Differs(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_line_by_line() {
        assert_eq!(compare(&["a", "b\nc"], "a\nb\nc\n"), Verdict::Holds);
        let Verdict::Differs(text) = compare(&["a", "b"], "a\nx\ny\n") else { panic!("holds") };
        assert_eq!(text, "    a\n  - b\n  + x\n  + y\n");
        assert_ne!(compare(&["a", "b"], "a\n"), Verdict::Holds);
    }
}
