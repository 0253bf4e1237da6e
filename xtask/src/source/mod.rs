//! Rust sources as far as the checks need them: what a file declares, and which of its lines are tests.

mod file;
mod tree;

pub(crate) use file::SourceFile;
pub(crate) use tree::{ModuleTree, rust_files};
