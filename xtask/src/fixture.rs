//! A workspace made for one test: real files in a temporary directory, read by the real cargo.

use std::path::Path;

use crate::workspace::Workspace;

/// A workspace on disk, removed at the end of the test.
pub(crate) struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    /// A workspace with the given member directories' packages, all named after their directory, inheriting all.
    pub(crate) fn new(members: &[&str]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fixture.file(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.90\"\nlicense = \"Apache-2.0\"\n\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n\n[workspace.dependencies]\n",
        );
        for member in members {
            fixture.file(&format!("crates/{member}/Cargo.toml"), &Self::manifest(member, ""));
            fixture.file(&format!("crates/{member}/src/lib.rs"), "//! A crate.\n");
        }
        fixture
    }

    /// The manifest of a well-behaved member, followed by more tables.
    pub(crate) fn manifest(name: &str, more: &str) -> String {
        format!(
            "[package]\nname = \"{name}\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\n[lints]\nworkspace = true\n\n{more}"
        )
    }

    /// Writes a file, with its directories.
    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Adds text at the end of a file.
    pub(crate) fn append(&self, path: &str, text: &str) -> &Self {
        let before = std::fs::read_to_string(self.path().join(path)).unwrap();
        self.file(path, &format!("{before}{text}"))
    }

    /// Its root.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The workspace, as cargo sees it.
    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::load(self.path()).unwrap()
    }
}

/// The texts of problems as `file: text`, for assertions.
pub(crate) fn texts(problems: &[crate::problem::Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
