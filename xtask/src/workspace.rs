//! The workspace as cargo sees it: its packages, their targets and what they declare to depend on.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::problem::CheckError;

/// Which kind of code a dependency is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    /// The crate itself.
    Normal,
    /// Its tests, benches and examples.
    Dev,
    /// Its build script.
    Build,
}

/// A dependency as declared in a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
    /// Whether it is a path dependency: a member of this workspace.
    pub(crate) local: bool,
}

/// A compiled thing: library, binary, test, example, bench, build script.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) source: PathBuf,
    /// Whether all of it is test code.
    pub(crate) test: bool,
}

/// A member of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) manifest: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// All members, and where they are.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo about the workspace at `root`. Needs no network: only the members' manifests are read.
    pub(crate) fn load(root: &Path) -> Result<Self, CheckError> {
        let metadata = metadata(root, &["--no-deps", "--offline"])?;
        let packages = metadata["packages"].as_array().into_iter().flatten().map(package).collect();
        Ok(Self { root: root.to_owned(), packages })
    }

    /// A path as people write it: relative to the workspace.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// `cargo metadata` with more arguments.
pub(crate) fn metadata(root: &Path, arguments: &[&str]) -> Result<Value, CheckError> {
    let output = cargo(root, &[&["metadata", "--format-version", "1"], arguments].concat())?;
    serde_json::from_str(&output)
        .map_err(|error| CheckError::Format { path: "cargo metadata".into(), message: error.to_string() })
}

/// The standard output of a cargo command.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<String, CheckError> {
    let command = format!("cargo {}", arguments.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| CheckError::Command { command: command.clone(), message: error.to_string() })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(CheckError::Command { command, message });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn package(value: &Value) -> Package {
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    Package {
        name: text(&value["name"]),
        directory: manifest.parent().map(Path::to_owned).unwrap_or_default(),
        manifest,
        dependencies: value["dependencies"].as_array().into_iter().flatten().map(dependency).collect(),
        targets: value["targets"].as_array().into_iter().flatten().map(target).collect(),
    }
}

fn dependency(value: &Value) -> Dependency {
    let kind = match value["kind"].as_str() {
        Some("dev") => DependencyKind::Dev,
        Some("build") => DependencyKind::Build,
        Some(_) | None => DependencyKind::Normal,
    };
    Dependency { name: text(&value["name"]), kind, local: value["path"].is_string() }
}

fn target(value: &Value) -> Target {
    let kinds: Vec<&str> = value["kind"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let test = kinds.iter().any(|kind| matches!(*kind, "test" | "bench"));
    Target { source: text(&value["src_path"]).into(), test }
}
