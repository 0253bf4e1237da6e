//! Manifests: lints, metadata and versions are declared once, in the workspace, and what is declared is used.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item, TableLike};

use crate::problem::{CheckError, Problem, read};
use crate::source::{SourceFile, rust_files};
use crate::workspace::{Package, Workspace};

/// Fields of `[package]` that come from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license"];

/// Dependencies that are named in no source file, each with the reason.
const UNNAMED: &[(&str, &str)] = &[];

/// See the module.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Problem>, CheckError> {
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for package in &workspace.packages {
        problems.extend(check_package(workspace, package, &mut used)?);
    }
    let manifest = parse(&workspace.root.join("Cargo.toml"))?;
    let declared = manifest.get("workspace").and_then(|w| w.get("dependencies")).and_then(Item::as_table_like);
    for (name, item) in declared.into_iter().flat_map(TableLike::iter) {
        if !used.contains(name) {
            problems.push(Problem::of("Cargo.toml", format!("dependency {name} is declared and no crate uses it")));
        }
        let version = item.as_str().or_else(|| item.get("version").and_then(Item::as_str));
        let local = item.get("path").is_some();
        if item.get("git").is_some() || (!local && version.is_none_or(|version| version.contains('*'))) {
            problems.push(Problem::of("Cargo.toml", format!("dependency {name} has no version from crates.io")));
        }
    }
    Ok(problems)
}

fn parse(path: &std::path::Path) -> Result<DocumentMut, CheckError> {
    read(path)?
        .parse()
        .map_err(|error: toml_edit::TomlError| CheckError::Format { path: path.to_owned(), message: error.to_string() })
}

fn check_package(
    workspace: &Workspace,
    package: &Package,
    used: &mut BTreeSet<String>,
) -> Result<Vec<Problem>, CheckError> {
    let manifest = parse(&package.manifest)?;
    let path = workspace.relative(&package.manifest);
    let mut problems = Vec::new();
    let from_workspace =
        |item: Option<&Item>| item.and_then(|item| item.get("workspace")).and_then(Item::as_bool).unwrap_or(false);
    if !from_workspace(manifest.get("lints")) {
        problems.push(Problem::of(path, "must have [lints] workspace = true"));
    }
    for field in INHERITED {
        if !from_workspace(manifest.get("package").and_then(|table| table.get(field))) {
            problems.push(Problem::of(path, format!("must have {field}.workspace = true")));
        }
    }
    let identifiers = identifiers(package)?;
    for (name, item) in dependencies(&manifest) {
        if !from_workspace(Some(item)) {
            problems.push(Problem::of(path, format!("dependency {name} must be declared in the workspace")));
        }
        let named = identifiers.contains(&name.replace('-', "_"));
        if !named && !UNNAMED.iter().any(|(unnamed, _)| *unnamed == name) {
            problems.push(Problem::of(path, format!("dependency {name} is named in no source file")));
        }
        used.insert(name.to_owned());
    }
    Ok(problems)
}

/// All dependencies of a manifest, those of its tests, build script and platforms included.
fn dependencies(manifest: &DocumentMut) -> Vec<(&str, &Item)> {
    const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let platforms = manifest.get("target").and_then(Item::as_table_like);
    let platforms = platforms.into_iter().flat_map(TableLike::iter).map(|(_, table)| table);
    let tables = std::iter::once(manifest.as_item()).chain(platforms);
    tables
        .flat_map(|holder| TABLES.iter().filter_map(|table| holder.get(table).and_then(Item::as_table_like)))
        .flat_map(TableLike::iter)
        .collect()
}

/// The identifiers of all sources of a package.
fn identifiers(package: &Package) -> Result<BTreeSet<String>, CheckError> {
    let mut identifiers = BTreeSet::new();
    for file in rust_files(&package.directory)? {
        identifiers.extend(SourceFile::load_fragment(&file)?.identifiers);
    }
    Ok(identifiers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, texts};

    #[test]
    fn a_well_behaved_crate_passes() {
        let fixture = Fixture::new(&["a", "b"]);
        fixture
            .append("Cargo.toml", "a = { path = \"crates/a\" }\n")
            .file("crates/b/Cargo.toml", &Fixture::manifest("b", "[dependencies]\na.workspace = true\n"))
            .file("crates/b/src/lib.rs", "use a as _;\n");
        assert_eq!(texts(&check(&fixture.workspace()).unwrap()), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_inherited_is_found() {
        let fixture = Fixture::new(&["a", "b"]);
        fixture
            .file("crates/a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.2.0\"\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n[lints.rust]\nunsafe_code = \"allow\"\n")
            .file("crates/b/Cargo.toml", &Fixture::manifest("b", "[target.'cfg(unix)'.dev-dependencies]\na = { path = \"../a\" }\n"))
            .file("crates/b/src/lib.rs", "use a as _;\n");
        assert_eq!(
            texts(&check(&fixture.workspace()).unwrap()),
            [
                "crates/a/Cargo.toml: must have [lints] workspace = true",
                "crates/a/Cargo.toml: must have version.workspace = true",
                "crates/b/Cargo.toml: dependency a must be declared in the workspace",
            ]
        );
    }

    #[test]
    fn what_is_declared_is_used() {
        let fixture = Fixture::new(&["a", "b-c"]);
        fixture
            .append("Cargo.toml", "b-c = { path = \"crates/b-c\" }\nlonely = \"1\"\nwild = \"*\"\n")
            .file("crates/a/Cargo.toml", &Fixture::manifest("a", "[dependencies]\nb-c.workspace = true\n"))
            .file("crates/a/src/lib.rs", "//! Says b_c only in words.\n");
        let problems = texts(&check(&fixture.workspace()).unwrap());
        assert_eq!(
            problems,
            [
                "crates/a/Cargo.toml: dependency b-c is named in no source file",
                "Cargo.toml: dependency lonely is declared and no crate uses it",
                "Cargo.toml: dependency wild is declared and no crate uses it",
                "Cargo.toml: dependency wild has no version from crates.io",
            ]
        );
    }
}
