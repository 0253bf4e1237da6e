//! Every `.rs` file of a package is reached from one of its targets. A file that no `mod` names compiles nothing and
//! rots, and its tests never run.

use crate::problem::{CheckError, Problem};
use crate::source::{ModuleTree, rust_files};
use crate::workspace::Workspace;

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let tree = ModuleTree::of(package)?;
        for file in rust_files(&package.directory)? {
            if !tree.files.contains_key(&file) {
                let text = format!("no module of {} declares this file: nothing in it is compiled", package.name);
                problems.push(Problem::of(workspace.relative(&file), text));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    fn lost(fixture: &Fixture) -> Vec<String> {
        texts(&check(&fixture.workspace()).unwrap())
            .into_iter()
            .map(|text| text.split(':').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn every_way_to_declare_a_file_is_known() {
        let fixture = Fixture::new(&["a"]);
        fixture
            .file("crates/a/src/lib.rs", "mod plain;\nmod folder;\nmod inline { mod deep; #[path = \"odd.rs\"] mod x; }\n#[path = \"elsewhere/file.rs\"]\nmod moved;\n#[cfg(test)]\nmod tests;\nconst X: u8 = include!(\"table.rs\");\n")
            .file("crates/a/src/plain.rs", "mod below;\n")
            .file("crates/a/src/plain/below.rs", "")
            .file("crates/a/src/folder/mod.rs", "mod inner;\n")
            .file("crates/a/src/folder/inner.rs", "")
            .file("crates/a/src/inline/deep.rs", "")
            .file("crates/a/src/inline/odd.rs", "")
            .file("crates/a/src/elsewhere/file.rs", "mod neighbour;\n")
            .file("crates/a/src/elsewhere/neighbour.rs", "")
            .file("crates/a/src/tests.rs", "")
            .file("crates/a/src/table.rs", "1")
            .file("crates/a/src/bin/tool.rs", "fn main() {}\n")
            .file("crates/a/tests/whole.rs", "mod common;\n")
            .file("crates/a/tests/common/mod.rs", "")
            .file("crates/a/examples/e.rs", "fn main() {}\n")
            .file("crates/a/build.rs", "fn main() {}\n");
        assert_eq!(lost(&fixture), Vec::<String>::new());
    }

    #[test]
    fn files_that_nothing_declares_are_found_wherever_they_lie() {
        let fixture = Fixture::new(&["a"]);
        fixture
            .file("crates/a/src/lib.rs", "mod known;\nmod words { /* mod commented; */ }\n// mod forgotten;\n")
            .file("crates/a/src/known.rs", "const TEXT: &str = \"mod quoted;\";\n")
            .file("crates/a/src/forgotten.rs", "")
            .file("crates/a/src/words/commented.rs", "")
            .file("crates/a/src/known/quoted.rs", "")
            .file("crates/a/src/known/mod.rs.rs", "")
            .file("crates/a/tests/common/helper.rs", "")
            .file("crates/a/notes/idea.rs", "");
        assert_eq!(
            lost(&fixture),
            [
                "crates/a/notes/idea.rs",
                "crates/a/src/forgotten.rs",
                "crates/a/src/known/mod.rs.rs",
                "crates/a/src/known/quoted.rs",
                "crates/a/src/words/commented.rs",
                "crates/a/tests/common/helper.rs",
            ]
        );
    }
}
