//! Random layers against a small model of what they should become.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use minke_core::runtime::PullError;
use minke_testkit::{Entry, EntryKind, Layer};
use proptest::prelude::*;

use crate::helpers::{TestStore, needs_root, picture};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Dir(u32),
    File(u32, Vec<u8>),
    Symlink(String),
}

type Tree = BTreeMap<String, Node>;

/// An entry of a random layer. Paths are made of few names, so that they collide.
#[derive(Debug, Clone)]
enum Op {
    Dir(String, u32),
    File(String, u32, Vec<u8>),
    /// To a target inside or, outside of a chroot, outside.
    Symlink(String, String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|parts| parts.join("/"))
}

fn op() -> impl Strategy<Value = Op> {
    let mode = prop::sample::select(vec![0o644, 0o755, 0o4711, 0o000]);
    prop_oneof![
        (path(), mode.clone()).prop_map(|(path, mode)| Op::Dir(path, mode | 0o700)),
        (path(), mode, proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(p, mode, data)| Op::File(p, mode, data)),
        (path(), prop::sample::select(vec!["/outside", "../../../../outside", "nowhere", "a", "/b/c", "../c"]))
            .prop_map(|(path, target)| Op::Symlink(path, target.to_owned())),
    ]
}

/// Walks to a directory, following links within the root and making what is missing, as `mkdir -p` would in a chroot.
fn walk(tree: &mut Tree, path: &str) -> Option<Vec<String>> {
    let mut todo: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut at: Vec<String> = Vec::new();
    for _ in 0..200 {
        let Some(part) = todo.pop() else { return Some(at) };
        match part.as_str() {
            "" => continue,
            ".." => {
                at.pop();
                continue;
            }
            _ => at.push(part),
        }
        match tree.get(&at.join("/")) {
            Some(Node::Dir(_)) => {}
            Some(Node::File(..)) => return None,
            Some(Node::Symlink(target)) => {
                at.pop();
                if target.starts_with('/') {
                    at.clear();
                }
                todo.extend(target.split('/').rev().map(str::to_owned));
            }
            None => {
                tree.insert(at.join("/"), Node::Dir(0o755));
            }
        }
    }
    None
}

/// Applies one entry to the model; `false` when it must be refused.
fn apply(tree: &mut Tree, op: &Op) -> bool {
    let (Op::Dir(path, _) | Op::File(path, _, _) | Op::Symlink(path, _)) = op;
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some(mut path) = walk(tree, parent) else { return false };
    path.push(name.to_owned());
    let path = path.join("/");
    let keep_children = matches!((op, tree.get(&path)), (Op::Dir(..), Some(Node::Dir(_))));
    if !keep_children {
        let below = format!("{path}/");
        tree.retain(|other, _| !other.starts_with(&below));
    }
    let node = match op {
        Op::Dir(_, mode) => Node::Dir(*mode),
        Op::File(_, mode, data) => Node::File(*mode, data.clone()),
        Op::Symlink(_, target) => Node::Symlink(target.clone()),
    };
    tree.insert(path, node);
    true
}

fn entry(op: &Op) -> Entry {
    match op {
        Op::Dir(path, mode) => Entry::new(path, EntryKind::Dir, *mode),
        Op::File(path, mode, data) => Entry::new(path, EntryKind::File(data.clone()), *mode),
        Op::Symlink(path, target) => Entry::new(path, EntryKind::Symlink(target.clone().into_bytes()), 0o777),
    }
}

fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(root.join(&dir)).unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            let full = root.join(&path);
            let meta = full.symlink_metadata().unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            let node = if meta.is_dir() {
                pending.push(path.clone());
                Node::Dir(mode)
            } else if meta.is_symlink() {
                Node::Symlink(std::fs::read_link(&full).unwrap().into_os_string().into_string().unwrap())
            } else {
                Node::File(mode, std::fs::read(&full).unwrap())
            };
            tree.insert(path.into_os_string().into_string().unwrap(), node);
        }
    }
    tree
}

#[test]
fn random_layers_become_what_the_model_says() {
    needs_root!("random_layers_become_what_the_model_says");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = TestStore::new();
    let outside = test.state.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let before = picture(&outside);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    runner
        .run(&proptest::collection::vec(op(), 1..14), |ops| {
            let mut model = Tree::new();
            let accepted = ops.iter().all(|op| apply(&mut model, op));
            let layer = ops.iter().fold(Layer::new(), |layer, op| layer.entry(entry(op)));
            match runtime.block_on(test.unpack([layer])) {
                Ok(trees) => {
                    prop_assert!(accepted, "should have been refused");
                    prop_assert_eq!(read(&trees[0]), model);
                }
                Err(PullError::BadContent { message, .. }) => prop_assert!(!accepted, "{}", message),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
            prop_assert_eq!(&picture(&outside), &before);
            Ok(())
        })
        .unwrap();
    test.assert_tidy();
}

#[test]
fn arbitrary_bytes_are_refused_without_a_panic() {
    needs_root!("arbitrary_bytes_are_refused_without_a_panic");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = TestStore::new();
    let good = crate::helpers::image(2).oci_archive();
    let good_docker = crate::helpers::image(2).docker_archive();
    let starts = prop::sample::select(vec![vec![], vec![0x1f, 0x8b, 8], vec![0x28, 0xb5, 0x2f, 0xfd]]);
    let arbitrary = (starts, proptest::collection::vec(any::<u8>(), 0..2000)).prop_map(|(s, rest)| [s, rest].concat());
    let damaged = (any::<bool>(), proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6))
        .prop_map(move |(docker, changes)| {
            let mut bytes = if docker { good_docker.clone() } else { good.clone() };
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes
        });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    runner
        .run(&prop_oneof![arbitrary, damaged], |bytes| {
            let stream = minke_oci::image::ImportSource::Stream(Box::new(std::io::Cursor::new(bytes)));
            // Damage may hit padding, or just the names; then the image is as good as before.
            match runtime.block_on(test.store.import(stream, &[])) {
                Ok(_) | Err(PullError::BadContent { .. } | PullError::DigestMismatch { .. }) => Ok(()),
                Err(PullError::InvalidName { .. } | PullError::NoPlatform { .. }) => Ok(()),
                Err(error) => Err(TestCaseError::fail(error.to_string())),
            }
        })
        .unwrap();
    test.assert_tidy();
}
