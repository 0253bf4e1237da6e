//! Where the demo's one program comes from: Debian's `busybox-static`, installed or unpacked beside the build. Nothing
//! is installed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "busybox-static";

/// What the examples use; a busybox built without one of them is of no use.
const APPLETS: &[&str] = &["cat", "grep", "httpd", "id", "sh", "sleep", "wget"];

/// There is no busybox to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusyboxError {
    /// A directory can't be made or read.
    #[error("can't use {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program of the system failed.
    #[error("{command} failed: {message}; install the package {PACKAGE}, or put a static busybox at /bin/busybox")]
    Command {
        /// Which.
        command: String,
        /// Its last words.
        message: String,
    },
    /// The package has another layout.
    #[error("the package {PACKAGE} has no static bin/busybox with all of: {}", APPLETS.join(", "))]
    Unusable,
}

/// Finds a static busybox: installed, unpacked before into `cache`, or downloaded there now with apt-get.
pub(crate) fn find(cache: &Path) -> Result<PathBuf, BusyboxError> {
    let places = ["bin/busybox", "usr/bin/busybox"];
    let unpacked = cache.join("root");
    let known = |root: &Path| places.iter().map(|place| root.join(place)).find(|path| usable(path));
    if let Some(path) = known(Path::new("/")).or_else(|| known(&unpacked)) {
        return Ok(path);
    }
    std::fs::create_dir_all(&unpacked).map_err(|source| BusyboxError::Directory { path: unpacked.clone(), source })?;
    // A fresh container image has no package lists.
    if run("apt-get", &["download", "-qq", PACKAGE], cache).is_err() {
        run("apt-get", &["update", "-qq"], cache)?;
        run("apt-get", &["download", "-qq", PACKAGE], cache)?;
    }
    let package = newest_package(cache)?;
    run("dpkg-deb", &["-x", &package.to_string_lossy(), "root"], cache)?;
    known(&unpacked).ok_or(BusyboxError::Unusable)
}

fn run(program: &str, arguments: &[&str], directory: &Path) -> Result<(), BusyboxError> {
    let failed =
        |message: String| BusyboxError::Command { command: format!("{program} {}", arguments.join(" ")), message };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn newest_package(cache: &Path) -> Result<PathBuf, BusyboxError> {
    let entries =
        std::fs::read_dir(cache).map_err(|source| BusyboxError::Directory { path: cache.to_owned(), source })?;
    let packages = entries.flatten().map(|entry| entry.path());
    let packages = packages.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    packages.max().ok_or(BusyboxError::Unusable)
}

/// Whether it needs no libraries and has the applets. A dynamic one would start here and not in an empty image.
fn usable(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    if !is_static(&bytes) {
        return false;
    }
    let Ok(output) = Command::new(path).arg("--list").output() else { return false };
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    APPLETS.iter().all(|applet| list.lines().any(|line| line == *applet))
}

/// Whether a little-endian 64-bit ELF file names no interpreter (`PT_INTERP`).
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = elf.get(at..at.checked_add(size)?)?;
        usize::try_from(bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))).ok()
    };
    if elf.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        return false;
    }
    // e_phoff, e_phentsize and e_phnum of the header; p_type of each entry.
    let (Some(table), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2)) else { return false };
    (0..count).all(|index| {
        let entry = size.checked_mul(index).and_then(|offset| table.checked_add(offset));
        entry.and_then(|entry| number(entry, 4)).is_some_and(|kind| kind != PT_INTERP as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with program headers of these types.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(64, 0);
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.resize(bytes.len() + 52, 0);
        }
        bytes
    }

    #[test]
    fn a_program_without_interpreter_is_static() {
        assert!(is_static(&elf(&[1, 2, 6])));
        assert!(!is_static(&elf(&[1, 3, 6])));
    }

    #[test]
    fn what_is_no_whole_program_is_not_static() {
        assert!(!is_static(b""));
        assert!(!is_static(b"#!/bin/sh\n"));
        let cut = elf(&[1, 2]);
        assert!(!is_static(&cut[..80]));
        let mut far = elf(&[1]);
        far[32..40].fill(0xff);
        assert!(!is_static(&far));
    }

    #[test]
    fn this_test_itself_is_dynamic() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(is_static(&std::fs::read(own).unwrap()), cfg!(target_feature = "crt-static"));
    }
}
