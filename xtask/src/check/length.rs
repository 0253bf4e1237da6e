//! Files are rooms: over 500 lines without tests, a file holds more than one concept, or says why not.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::problem::{CheckError, Problem};
use crate::source::ModuleTree;
use crate::workspace::Workspace;

/// The longest a file may be, in lines, without its `#[cfg(test)]` items.
const LONGEST: usize = 500;

/// Files that may be longer, each with the reason. An entry that is not needed any more is a problem.
const LONG: &[(&str, &str)] = &[];

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    judge(&lengths(workspace)?, LONG)
}

/// The own lines of each file that is not wholly test code.
fn lengths(workspace: &Workspace) -> Result<BTreeMap<PathBuf, usize>, CheckError> {
    let mut lengths = BTreeMap::new();
    for package in &workspace.packages {
        for (path, node) in ModuleTree::of(package)?.files {
            if !node.test {
                lengths.insert(workspace.relative(&path).to_owned(), node.source.own_lines());
            }
        }
    }
    Ok(lengths)
}

fn judge(lengths: &BTreeMap<PathBuf, usize>, long: &[(&str, &str)]) -> Result<Vec<Problem>, CheckError> {
    let mut problems = Vec::new();
    for (path, lines) in lengths.iter().filter(|(_, lines)| **lines > LONGEST) {
        if !long.iter().any(|(listed, _)| path.as_os_str() == *listed) {
            problems.push(Problem::of(path, format!("{lines} lines without tests: split it by concept")));
        }
    }
    for (listed, reason) in long {
        if lengths.get(&PathBuf::from(listed)).is_none_or(|lines| *lines <= LONGEST) {
            problems.push(Problem::of(listed, "is listed as long and is not: remove the entry"));
        }
        if reason.trim().is_empty() {
            problems.push(Problem::of(listed, "is listed as long without a reason"));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    fn functions(count: usize) -> String {
        "fn f() {}\n".repeat(count)
    }

    #[test]
    fn only_lines_without_tests_count() {
        let fixture = Fixture::new(&["a"]);
        fixture
            .file("crates/a/src/lib.rs", "mod long;\nmod tested;\n#[cfg(test)]\nmod tests;\n")
            .file("crates/a/src/long.rs", &functions(501))
            .file(
                "crates/a/src/tested.rs",
                &format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", functions(500), functions(300)),
            )
            .file("crates/a/src/tests.rs", &functions(900))
            .file("crates/a/tests/whole.rs", &functions(900));
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(problems, ["crates/a/src/long.rs: 501 lines without tests: split it by concept"]);
    }

    #[test]
    fn exceptions_have_reasons_and_go_when_they_are_not_needed() {
        let lengths = BTreeMap::from([("long.rs".into(), 600), ("short.rs".into(), 10)]);
        assert_eq!(judge(&lengths, &[("long.rs", "one table")]).unwrap(), []);
        let problems = texts(&judge(&lengths, &[("long.rs", " "), ("short.rs", "x"), ("gone.rs", "x")]).unwrap());
        assert_eq!(
            problems,
            [
                "long.rs: is listed as long without a reason",
                "short.rs: is listed as long and is not: remove the entry",
                "gone.rs: is listed as long and is not: remove the entry",
            ]
        );
    }
}
