//! The examples are what a newcomer tries first: each is read strictly, uses only the demo's images, asks no registry
//! and says how to run it. Those under `broken/` must be refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minke_core::manifest::{Input, Validate, parse};

use crate::demo_images::{BUSYBOX, WEB};
use crate::problem::{CheckError, Problem};
use crate::workspace::Workspace;

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let directory = workspace.root.join("examples");
    let mut problems = Vec::new();
    let good = files(&directory)?;
    let broken = files(&directory.join("broken"))?;
    for (kind, count) in [("examples", good.len()), ("examples/broken", broken.len())] {
        if count == 0 {
            problems.push(Problem::of(kind, "has no manifest"));
        }
    }
    for path in good {
        problems.extend(accepted(workspace.relative(&path), &bytes(&path)?));
    }
    for path in broken {
        problems.extend(refused(workspace.relative(&path), &bytes(&path)?));
    }
    Ok(problems)
}

fn bytes(path: &Path) -> Result<Vec<u8>, CheckError> {
    std::fs::read(path).map_err(|source| CheckError::Read { path: path.to_owned(), source })
}

/// The files right in a directory: `minke run DIRECTORY` reads every one of them.
fn files(directory: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let unreadable = |source| CheckError::Read { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn input(path: &Path, bytes: &[u8]) -> Input {
    Input { name: Arc::from(path.display().to_string()), bytes: bytes.to_vec() }
}

fn accepted(path: &Path, bytes: &[u8]) -> Vec<Problem> {
    let mut problems = documented(path, bytes);
    let manifests = match parse(&[input(path, bytes)], Validate::Strict) {
        Ok(manifests) => manifests,
        Err(invalid) => {
            problems.extend(invalid.errors.iter().map(|error| Problem::of(path, format!("is refused: {error}"))));
            return problems;
        }
    };
    problems.extend(manifests.warnings.iter().map(|warning| Problem::of(path, format!("is warned of: {warning}"))));
    if manifests.pods().next().is_none() {
        problems.push(Problem::of(path, "starts no Pod"));
    }
    for spec in manifests.pods().filter_map(|pod| pod.spec.as_ref()) {
        let inits = spec.init_containers.iter().flatten();
        for container in inits.chain(&spec.containers) {
            let image = container.image.as_deref().unwrap_or_default();
            if ![BUSYBOX, WEB].contains(&image) {
                problems.push(Problem::of(path, format!("uses {image:?}, which the demo does not make")));
            }
            if container.image_pull_policy.as_deref() != Some("Never") {
                let text = format!("container {} may ask a registry: imagePullPolicy must be Never", container.name);
                problems.push(Problem::of(path, text));
            }
        }
    }
    problems.sort();
    problems.dedup();
    problems
}

fn refused(path: &Path, bytes: &[u8]) -> Vec<Problem> {
    let mut problems = documented(path, bytes);
    if parse(&[input(path, bytes)], Validate::Strict).is_ok() {
        problems.push(Problem::of(path, "is meant to be refused and is accepted"));
    }
    problems
}

/// Whether the file starts with a comment that has the command to run it.
fn documented(path: &Path, bytes: &[u8]) -> Vec<Problem> {
    let text = String::from_utf8_lossy(bytes);
    let header: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    let command = format!("minke run {}", path.display());
    if header.iter().any(|line| line.contains(&command)) {
        return Vec::new();
    }
    vec![Problem::of(path, format!("its first comment must have the command: {command}"))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    fn pod(container: &str) -> String {
        format!(
            "# minke run examples/a.yaml\napiVersion: v1\nkind: Pod\nmetadata: {{ name: a }}\nspec:\n  containers:\n  - {{ name: c, {container} }}\n"
        )
    }

    const GOOD: &str = "image: localhost/minke-demo/busybox:1, imagePullPolicy: Never";
    const BROKEN: &str = "# minke run examples/broken/b.yaml\nkind: Pod\n";

    fn found(example: &str, broken: &str) -> Vec<String> {
        let fixture = Fixture::new(&["x"]);
        fixture.file("examples/a.yaml", example).file("examples/broken/b.yaml", broken);
        texts(&check(&fixture.workspace()).unwrap())
    }

    #[test]
    fn good_examples_pass() {
        assert_eq!(found(&pod(GOOD), BROKEN), Vec::<String>::new());
    }

    #[test]
    fn an_example_that_is_refused_is_a_problem() {
        let problems = found(&pod(&GOOD.replace("image:", "imagee:")), BROKEN);
        assert!(problems.iter().any(|text| text.contains("is refused") && text.contains("imagee")), "{problems:?}");
    }

    #[test]
    fn a_broken_example_that_is_accepted_is_a_problem() {
        let problems = found(&pod(GOOD), &pod(GOOD).replace("examples/a.yaml", "examples/broken/b.yaml"));
        assert_eq!(problems, ["examples/broken/b.yaml: is meant to be refused and is accepted"]);
    }

    #[test]
    fn examples_ask_no_registry_and_say_how_to_run_them() {
        let problems = found(&pod("image: docker.io/library/nginx:1").replace("minke run", "run"), BROKEN);
        assert_eq!(
            problems,
            [
                "examples/a.yaml: container c may ask a registry: imagePullPolicy must be Never",
                "examples/a.yaml: its first comment must have the command: minke run examples/a.yaml",
                "examples/a.yaml: uses \"docker.io/library/nginx:1\", which the demo does not make",
            ]
        );
    }

    #[test]
    fn a_directory_without_examples_does_not_pass() {
        let fixture = Fixture::new(&["x"]);
        fixture.file("examples/broken/b.yaml", BROKEN);
        assert_eq!(texts(&check(&fixture.workspace()).unwrap()), ["examples: has no manifest"]);
    }
}
