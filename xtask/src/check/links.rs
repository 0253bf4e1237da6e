//! Relative links in Markdown files lead to files that exist, and to headings that exist; so do paths in code spans, and
//! documents that Rust sources name.

use std::path::{Path, PathBuf};

use crate::problem::{CheckError, Problem, read};
use crate::source::rust_files;
use crate::workspace::Workspace;

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let mut problems = Vec::new();
    for file in markdown_files(&workspace.root)? {
        let shown = workspace.relative(&file).to_owned();
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        for (line, path) in paths(&read(&file)?) {
            if !workspace.root.join(&path).exists() {
                problems.push(Problem::at(&shown, line, format!("names {path}, which does not exist")));
            }
        }
        for (line, target) in links(&read(&file)?) {
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let destination = if path.is_empty() { file.clone() } else { directory.join(path) };
            if !destination.exists() {
                problems.push(Problem::at(&shown, line, format!("link to {path}, which does not exist")));
            } else if !heading.is_empty() && !headings(&read(&destination)?).iter().any(|known| known == heading) {
                problems.push(Problem::at(&shown, line, format!("link to {target}, which has no such heading")));
            }
        }
    }
    for package in &workspace.packages {
        for file in rust_files(&package.directory)? {
            for (line, name) in documents(&read(&file)?) {
                if !workspace.root.join(&name).exists() {
                    problems.push(Problem::at(
                        workspace.relative(&file),
                        line,
                        format!("names {name}, which does not exist"),
                    ));
                }
            }
        }
    }
    Ok(problems)
}

/// Words of comments that are names of Markdown files.
fn documents(text: &str) -> Vec<(usize, String)> {
    let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    comments
        .flat_map(|(index, line)| {
            let of_name = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
            let words = line.split(move |c: char| !of_name(c)).map(|word| word.trim_end_matches('.'));
            words.filter(|word| word.len() > 3 && word.ends_with(".md")).map(move |word| (index + 1, word.to_owned()))
        })
        .collect()
}

/// The Markdown files of the top directory, `docs/` and `examples/`.
fn markdown_files(root: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let mut found = Vec::new();
    for directory in [root.to_owned(), root.join("docs"), root.join("examples")] {
        if !directory.is_dir() {
            continue;
        }
        let unreadable = |source| CheckError::Read { path: directory.clone(), source };
        for entry in std::fs::read_dir(&directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The targets of `[text](target)` outside of code, without those that name a scheme.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = &rest[..end];
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// Top directories whose files documents name in code spans.
const OURS: &[&str] = &["crates/", "docs/", "e2e/", "examples/", "xtask/"];

/// Words of code spans (`like/this`) that are paths of this repository. Patterns and placeholders are not.
fn paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let spans = line.split('`').skip(1).step_by(2);
        for word in spans.flat_map(str::split_whitespace) {
            let pattern = word.contains(['*', '…', '<', '{', '[']);
            if !pattern && OURS.iter().any(|directory| word.starts_with(directory)) {
                found.push((number, word.trim_end_matches(['.', ',', ':']).to_owned()));
            }
        }
    }
    found
}

/// The lines outside of fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// The anchors of the headings, as forges make them.
fn headings(text: &str) -> Vec<String> {
    prose(text)
        .filter_map(|(_, line)| line.strip_prefix('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let fixture = Fixture::new(&["a"]);
        fixture
            .file("README.md", "[a](docs/a.md) [b](docs/b.md#one-two) [web](https://x.y/z)\n```\n[code](nowhere)\n```\n[c](docs/c.md)\n[self](#me)\n[d](docs/b.md#three)\n# Me\n`crates/a/src` `run docs/x.md --y` crates/none `docs/*.yaml`\n")
            .file("docs/a.md", "[up](../README.md)\n[aside](gone.md)\n")
            .file("docs/b.md", "# One, `two`\n")
            .file("crates/a/src/lib.rs", "//! See `docs/a.md` and notes/z.md.\nconst NAME: &str = \"q.md\";\n");
        let mut problems = texts(&check(&fixture.workspace()).unwrap());
        problems.sort();
        assert_eq!(
            problems,
            [
                "README.md:5: link to docs/c.md, which does not exist",
                "README.md:7: link to docs/b.md#three, which has no such heading",
                "README.md:9: names docs/x.md, which does not exist",
                "crates/a/src/lib.rs:1: names notes/z.md, which does not exist",
                "docs/a.md:2: link to gone.md, which does not exist",
            ]
        );
    }
}
