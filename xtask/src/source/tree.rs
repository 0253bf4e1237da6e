//! The module trees of a package: every file that the compiler reads, and the files that it does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::SourceFile;
use super::file::Declaration;
use crate::problem::CheckError;
use crate::workspace::Package;

/// A file of a tree.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) source: SourceFile,
    /// Whether all that reaches it is test code.
    pub(crate) test: bool,
}

/// All files that the targets of a package reach through `mod`, `#[path]` and `include!`.
#[derive(Debug, Default)]
pub(crate) struct ModuleTree {
    pub(crate) files: BTreeMap<PathBuf, Node>,
}

impl ModuleTree {
    /// Walks all targets of a package. A declared file that is absent is the compiler's to report.
    pub(crate) fn of(package: &Package) -> Result<Self, CheckError> {
        let mut tree = Self::default();
        for target in &package.targets {
            let directory = target.source.parent().map(Path::to_owned).unwrap_or_default();
            tree.walk(&target.source, &directory, target.test)?;
        }
        Ok(tree)
    }

    /// Adds a file whose child modules live in `children`, and all below it. A file seen before as test code is
    /// walked again when ordinary code reaches it, so that `test` ends up false for it and what it declares.
    fn walk(&mut self, path: &Path, children: &Path, test: bool) -> Result<(), CheckError> {
        if self.files.get(path).is_some_and(|node| test || !node.test) || !path.is_file() {
            return Ok(());
        }
        let source = SourceFile::load(path)?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let declarations = source.declarations.clone();
        let includes = source.includes.clone();
        self.files.insert(path.to_owned(), Node { source, test });
        for include in includes.iter().map(|include| directory.join(include)).filter(|include| include.is_file()) {
            let source = SourceFile::load_fragment(&include)?;
            self.files.entry(include).or_insert(Node { source, test });
        }
        for declaration in declarations {
            let below = |test| test || declaration.test;
            for (file, its_children) in candidates(&declaration, &directory, children) {
                self.walk(&file, &its_children, below(test))?;
            }
        }
        Ok(())
    }
}

/// Where the body of a declared module may be, with the directory of its own children.
fn candidates(declaration: &Declaration, directory: &Path, children: &Path) -> Vec<(PathBuf, PathBuf)> {
    let inside: PathBuf = declaration.inside.iter().collect();
    if let Some(path) = &declaration.path {
        let base = if declaration.inside.is_empty() { directory.to_owned() } else { children.join(inside) };
        let file = base.join(path);
        let its_children = file.parent().map(Path::to_owned).unwrap_or_default();
        return vec![(file, its_children)];
    }
    let own = children.join(inside).join(&declaration.name);
    vec![(own.with_extension("rs"), own.clone()), (own.join("mod.rs"), own)]
}

/// Every `.rs` file below a directory, but not in hidden directories, `target`, or packages nested in it.
pub(crate) fn rust_files(directory: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(current) = waiting.pop() {
        let unreadable = |source| CheckError::Read { path: current.clone(), source };
        for entry in std::fs::read_dir(&current).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            let name = entry.file_name();
            let hidden = name.to_string_lossy().starts_with('.');
            if entry.file_type().map_err(unreadable)?.is_dir() {
                if !hidden && name != "target" && !path.join("Cargo.toml").exists() {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") && !hidden {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
