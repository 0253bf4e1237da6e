//! The sum of a test run, from the log of `cargo test -- --show-output`: how many tests passed, failed and were
//! skipped, and the names and reasons of the last. A test that can't run here passes for libtest and prints a line
//! `SKIPPED name: reason`; it counts as skipped, never as passed.

use std::path::Path;
use std::process::ExitCode;

use crate::problem::read;

/// What a log comes to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    passed: u64,
    failed: u64,
    /// `name: reason`, in the order of the log, each name once in its test binary.
    skipped: Vec<String>,
    /// Names of failed tests.
    failures: Vec<String>,
    /// Test binaries that ended without a result (they crashed or were stopped), and steps that are no tests.
    broken: Vec<String>,
}

/// Prints the sum of the log at `path`; fails when a test failed, a binary broke, another step failed, or nothing ran
/// at all. `status` is the exit code of `cargo test`, `steps` are the other steps that failed.
pub(crate) fn run(path: &Path, status: &str, steps: &[&str]) -> ExitCode {
    let log = match read(path) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{}", minke_core::runtime::error_chain(&error));
            return ExitCode::FAILURE;
        }
    };
    let sum = sum(&log).with(status, steps);
    print!("{}", show(&sum));
    if sum.failures() == 0 && sum.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Sum {
    /// The sum with what lies outside of the log. An exit code that no test explains is a failure of its own.
    fn with(mut self, status: &str, steps: &[&str]) -> Self {
        if status != "0" && self.failures() == 0 {
            self.broken.push(format!("cargo test, exit code {status}"));
        }
        self.broken.extend(steps.iter().map(|step| format!("step {step}")));
        self
    }

    fn failures(&self) -> u64 {
        self.failed + self.broken.len() as u64
    }
}

/// The list of skipped tests, of failures, and the closing line.
fn show(sum: &Sum) -> String {
    let mut text = String::new();
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            text.push_str(&format!("{title}:\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    };
    list("skipped, because this machine lacks what they need", &sum.skipped);
    list("failed", &sum.failures);
    list("failed as a whole", &sum.broken);
    text.push_str(&format!("{} passed, {} failed, {} skipped\n", sum.passed, sum.failures(), sum.skipped.len()));
    text
}

/// Reads a log. Cargo announces each binary (`Running …`, `Doc-tests …`); libtest closes it with `test result:`.
fn sum(log: &str) -> Sum {
    let mut sum = Sum::default();
    let mut binary: Option<Binary> = None;
    for line in log.lines() {
        if let Some(name) = announced(line) {
            if let Some(unfinished) = binary.replace(Binary::new(name)) {
                unfinished.broke(&mut sum);
            }
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            binary.take().unwrap_or_else(|| Binary::new("unnamed")).close(rest, &mut sum);
        } else if let Some(open) = &mut binary {
            open.line(line);
        } else if let Some((name, reason)) = skipped(line) {
            // Not a libtest test: a script that can't run here.
            sum.skipped.push(format!("{name}: {reason}"));
        }
    }
    if let Some(unfinished) = binary {
        unfinished.broke(&mut sum);
    }
    sum
}

/// Name and reason of a line by which a test says that it can't run here.
fn skipped(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("SKIPPED ").and_then(|rest| rest.split_once(": "))
}

fn announced(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("Running ").filter(|rest| rest.ends_with(')')).or_else(|| line.strip_prefix("Doc-tests "))
}

/// A test binary whose output is being read.
struct Binary {
    name: String,
    /// `name: reason`.
    skipped: Vec<String>,
    /// How many of the skipped are tests that libtest counts as ignored and not as passed.
    ignored: u64,
    failures: Vec<String>,
}

impl Binary {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), skipped: Vec::new(), ignored: 0, failures: Vec::new() }
    }

    fn line(&mut self, line: &str) {
        if let Some((name, reason)) = skipped(line) {
            self.skip(name, reason);
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            if outcome.starts_with("FAILED") {
                self.failures.push(format!("{name} ({})", self.name));
            } else if let Some(reason) = outcome.strip_prefix("ignored") {
                self.ignored += 1;
                self.skip(name, reason.trim_start_matches(", "));
            }
        }
    }

    fn skip(&mut self, name: &str, reason: &str) {
        let reason = if reason.trim().is_empty() { "no reason given" } else { reason.trim() };
        let known = format!("{name}: ");
        if !self.skipped.iter().any(|line| line.starts_with(&known)) {
            self.skipped.push(format!("{known}{reason}"));
        }
    }

    fn close(self, result: &str, sum: &mut Sum) {
        let count = |what: &str| {
            let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
            words.windows(2).find(|pair| pair[1] == what).and_then(|pair| pair[0].parse::<u64>().ok())
        };
        let (Some(passed), Some(failed)) = (count("passed"), count("failed")) else {
            return self.broke(sum);
        };
        let said_so = (self.skipped.len() as u64).saturating_sub(self.ignored);
        sum.passed += passed.saturating_sub(said_so);
        sum.failed += failed;
        sum.skipped.extend(self.skipped);
        sum.failures.extend(self.failures);
    }

    fn broke(self, sum: &mut Sum) {
        sum.broken.push(self.name);
        sum.skipped.extend(self.skipped);
        sum.failures.extend(self.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
     Running unittests src/lib.rs (target/debug/deps/a-1)

running 3 tests
test one ... ok
test two ... ok
test three ... ignored, needs a cluster

successes:

---- two stdout ----
SKIPPED two: needs root

successes:
    one
    two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests a

running 1 test
test src/lib.rs - f (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    #[test]
    fn a_skipped_test_counts_as_skipped_and_not_as_passed() {
        let sum = sum(GOOD);
        assert_eq!((sum.passed, sum.failed), (2, 0));
        assert_eq!(sum.skipped, ["three: needs a cluster", "two: needs root"]);
        assert!(show(&sum).ends_with("\n2 passed, 0 failed, 2 skipped\n"), "{}", show(&sum));
    }

    #[test]
    fn failures_are_named_with_their_binary() {
        let log = "     Running tests/x.rs (target/debug/deps/x-1)\ntest a::b ... FAILED\ntest result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured\n";
        let sum = sum(log);
        assert_eq!((sum.passed, sum.failed), (4, 1));
        assert_eq!(sum.failures, ["a::b (tests/x.rs (target/debug/deps/x-1))"]);
    }

    #[test]
    fn a_binary_that_crashes_is_not_forgotten() {
        let crashed = "     Running tests/x.rs (target/debug/deps/x-1)\nrunning 3 tests\ntest a ... ok\nerror: test failed (signal: 6)\n";
        for log in [crashed.to_owned(), format!("{crashed}{GOOD}")] {
            let sum = sum(&log);
            assert_eq!(sum.broken, ["tests/x.rs (target/debug/deps/x-1)"]);
            assert!(show(&sum).contains(", 1 failed, "), "{}", show(&sum));
        }
    }

    #[test]
    fn one_name_in_two_binaries_is_two_tests_and_said_twice_is_one() {
        let binary = |n: u8| {
            format!(
                "     Running tests/{n}.rs (deps/{n})\nSKIPPED all: no\nSKIPPED all: no\ntest result: ok. 5 passed; 0 failed; 0 ignored\n"
            )
        };
        let sum = sum(&(binary(1) + &binary(2)));
        assert_eq!((sum.passed, sum.skipped.len()), (8, 2));
    }

    #[test]
    fn a_script_that_can_not_run_is_skipped_and_takes_nothing_from_the_passed() {
        let sum = sum(&format!("{GOOD}\nSKIPPED demo: needs root\n"));
        assert_eq!((sum.passed, sum.skipped.len()), (2, 3));
    }

    #[test]
    fn words_of_tests_are_not_results() {
        let log = "     Running tests/x.rs (deps/x)\n  test result: ok. 9 passed; 9 failed\nnot SKIPPED x: y\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(sum(log), Sum { passed: 1, ..Sum::default() });
    }

    #[test]
    fn an_empty_log_is_no_success() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "").unwrap();
        assert_eq!(format!("{:?}", run(&log, "0", &[])), format!("{:?}", ExitCode::FAILURE));
        std::fs::write(&log, GOOD).unwrap();
        assert_eq!(format!("{:?}", run(&log, "0", &[])), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(format!("{:?}", run(&log, "101", &[])), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(format!("{:?}", run(&log, "0", &["lints"])), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn an_exit_code_counts_only_when_no_test_explains_it() {
        let failed = "     Running a (a)\ntest result: FAILED. 4 passed; 1 failed; 0 ignored\n";
        assert_eq!(sum(failed).with("101", &[]).failures(), 1);
        assert_eq!(sum(GOOD).with("101", &[]).broken, ["cargo test, exit code 101"]);
        assert_eq!(sum(GOOD).with("0", &["format", "demo"]).failures(), 2);
    }
}
