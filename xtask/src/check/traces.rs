//! Tracked files hold no path of the machine that wrote them. Which paths those are is asked of the machine: where
//! the workspace, cargo's home and the target directory lie.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::problem::{CheckError, Problem};
use crate::workspace::Workspace;

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let places = places(&workspace.root, |name| std::env::var_os(name).map(PathBuf::from));
    let mut problems = Vec::new();
    for file in tracked(&workspace.root)? {
        let path = workspace.root.join(&file);
        // A deleted file is still tracked until the commit; a symlink or binary holds no text to read.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        problems.extend(find(&file, &text, &places));
    }
    Ok(problems)
}

/// The telling directories of this machine. One at the top (`/home`, `/src`) says nothing, nor does one that any
/// system has.
fn places(root: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<String> {
    let mut places = vec![root.to_owned()];
    places.extend(root.parent().map(Path::to_owned));
    places.extend(variable("CARGO_TARGET_DIR"));
    places.extend(variable("CARGO_HOME"));
    places.extend(variable("HOME").map(|home| home.join(".cargo")));
    places.retain(|place| {
        let depth = place.components().count();
        place.is_absolute() && depth > 2 && *place != Path::new("/usr/local") && *place != Path::new("/var/tmp")
    });
    let mut places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    places.sort();
    places.dedup();
    places
}

/// Lines that name one of the places as a whole path component chain: `/a/b` is in `/a/b/c` and not in `/a/bc` or
/// `/x/a/b`.
fn find(file: &Path, text: &str, places: &[String]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let named = places.iter().any(|place| {
            line.match_indices(place.as_str()).any(|(start, _)| {
                let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
                let before = line[..start].chars().next_back();
                let after = line[start + place.len()..].chars().next();
                !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
            })
        });
        if named {
            problems.push(Problem::at(file, number + 1, "names a directory of the machine it was written on"));
        }
    }
    problems
}

/// The files that git tracks.
fn tracked(root: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let command = "git ls-files";
    let failed = |message: String| CheckError::Command { command: command.to_owned(), message };
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    #[test]
    fn places_come_from_the_machine_and_common_ones_say_nothing() {
        let variable = |name: &str| match name {
            "CARGO_TARGET_DIR" => Some(PathBuf::from("/fast/target")),
            "HOME" => Some(PathBuf::from("/home/ada")),
            "CARGO_HOME" => Some(PathBuf::from("relative")),
            _ => None,
        };
        assert_eq!(
            places(Path::new("/home/ada/minke"), variable),
            ["/fast/target", "/home/ada", "/home/ada/.cargo", "/home/ada/minke"]
        );
        assert_eq!(places(Path::new("/tmp/minke"), |_| None), ["/tmp/minke"]);
    }

    #[test]
    fn only_whole_components_count() {
        let places = ["/ci/house".to_owned()];
        let text = "see /ci/house/x\n/ci/houses\n\"/ci/house\"\n/x/ci/house2\nhttp://host/ci/house.txt\n/ci/house-b\n";
        let lines: Vec<_> = find(Path::new("f"), text, &places).into_iter().filter_map(|p| p.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn tracked_files_are_searched_and_others_are_not() {
        let fixture = Fixture::new(&["a"]);
        let path = fixture.path().display().to_string();
        fixture.file("notes.md", &format!("built in {path}/out\n")).file("untracked.md", &path);
        for arguments in [&["init", "-q"][..], &["add", "notes.md"]] {
            assert!(Command::new("git").args(arguments).current_dir(fixture.path()).status().unwrap().success());
        }
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(problems, ["notes.md:1: names a directory of the machine it was written on"]);
    }
}
