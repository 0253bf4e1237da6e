//! Files of a volume, replaced all at once.
//!
//! Readers see either all old files or all new ones: files are written into a new directory with the time in its
//! name, `..data` is a symbolic link to it that is replaced by `rename`, and what users see are links through
//! `..data`. A crash between any two steps leaves the old state, and rubbish that the next write clears.
//!
//! ```text
//! a.conf -> ..data/a.conf     sub -> ..data/sub     ..data -> ..2026_11_21_04_03_55.123456789
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::VolumeFailure;

/// One file. `Debug` shows its size only.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContent {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, mode {:04o}", self.bytes.len(), self.mode)
    }
}

/// The files of a volume by relative path.
pub type Payload = BTreeMap<String, FileContent>;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Refuses paths that lead out of the volume or hide behind its own links.
pub(super) fn check_path(path: &str) -> Result<(), VolumeFailure> {
    let bad = |why| Err(VolumeFailure::BadPath { path: path.to_owned(), why });
    if path.is_empty() || path.contains('\0') {
        return bad("it is empty or holds a NUL byte");
    }
    if path.len() > 4096 || path.split('/').any(|part| part.len() > 255) {
        return bad("it is too long");
    }
    if path.starts_with("..") {
        return bad("it must not start with '..'");
    }
    if !Path::new(path).components().all(|c| matches!(c, Component::Normal(_))) {
        return bad("it must be relative and without '..'");
    }
    Ok(())
}

/// A path in its shortest form: `a//b/./c` and `a/b/c` are one file.
fn normal(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/")
}

/// Makes `target` hold exactly these files. Returns whether anything changed; the same files again change nothing.
/// `own` is called on the new directory before anybody can see it, to give it its owner.
///
/// # Errors
/// A path is refused (nothing is changed then), or the machine refuses.
pub fn write_atomically(
    target: &Path,
    payload: &Payload,
    now: Timestamp,
    own: impl FnOnce(&Path) -> Result<(), VolumeFailure>,
) -> Result<bool, VolumeFailure> {
    for path in payload.keys() {
        check_path(path)?;
    }
    let payload: BTreeMap<String, &FileContent> = payload.iter().map(|(path, file)| (normal(path), file)).collect();
    no_file_is_a_directory(&payload)?;

    let data = target.join(DATA);
    let old = fs::read_link(&data).ok().filter(|name| is_ours(name));
    if let Some(old) = &old
        && holds(&target.join(old), &payload)
    {
        // A crash may have come between the switch and the links.
        link_users(target, &payload)?;
        sweep(target, Some(old))?;
        return Ok(false);
    }

    let fresh = new_directory(target, now)?;
    let written = write_files(&fresh, &payload).and_then(|()| own(&fresh));
    if let Err(error) = written {
        // Best effort: the next write sweeps what stays.
        let _ = fs::remove_dir_all(&fresh);
        return Err(error);
    }
    switch(target, &fresh)?;
    link_users(target, &payload)?;
    unlink_stale(target, &payload)?;
    sweep(target, fresh.file_name().map(Path::new))?;
    Ok(true)
}

/// `a` and `a/b` can't both be files.
fn no_file_is_a_directory(payload: &BTreeMap<String, &FileContent>) -> Result<(), VolumeFailure> {
    for path in payload.keys() {
        let mut parents = Path::new(path).ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
        if parents.any(|parent| payload.contains_key(&*parent.to_string_lossy())) {
            return Err(VolumeFailure::BadPath {
                path: path.clone(),
                why: "another file stands where its directory would be",
            });
        }
    }
    Ok(())
}

/// Whether a link's target is one of our timestamped directories.
fn is_ours(name: &Path) -> bool {
    let text = name.as_os_str().to_string_lossy();
    text.starts_with("..") && text != DATA && text != NEW_DATA && !text.contains('/')
}

fn holds(directory: &Path, payload: &BTreeMap<String, &FileContent>) -> bool {
    let mut found = BTreeSet::new();
    if collect_files(directory, Path::new(""), &mut found).is_err() || found.len() != payload.len() {
        return false;
    }
    payload.iter().all(|(path, file)| {
        let full = directory.join(path);
        let mode = fs::symlink_metadata(&full).map(|m| m.permissions().mode() & 0o777);
        // fsGroup only adds bits.
        let mode_fits = mode.is_ok_and(|mode| mode & file.mode & 0o777 == file.mode & 0o777);
        found.contains(path) && mode_fits && fs::read(&full).is_ok_and(|bytes| bytes == file.bytes)
    })
}

fn collect_files(directory: &Path, prefix: &Path, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = prefix.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect_files(&entry.path(), &name, found)?;
        } else {
            found.insert(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

fn new_directory(target: &Path, now: Timestamp) -> Result<PathBuf, VolumeFailure> {
    let stamp = now.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    // A clock that stands still or jumps back must not meet an older directory.
    let mut nanos = now.subsec_nanosecond().unsigned_abs();
    loop {
        let directory = target.join(format!("{stamp}.{nanos:09}"));
        match fs::DirBuilder::new().mode(0o755).create(&directory) {
            Ok(()) => {
                // The umask must not take bits away.
                chmod(&directory, 0o755)?;
                return Ok(directory);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => nanos += 1,
            Err(error) => return Err(VolumeFailure::io("create", directory)(error)),
        }
    }
}

fn write_files(directory: &Path, payload: &BTreeMap<String, &FileContent>) -> Result<(), VolumeFailure> {
    for (path, file) in payload {
        let full = directory.join(path);
        let mut parent = directory.to_owned();
        for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
            parent.push(part);
            match fs::DirBuilder::new().mode(0o755).create(&parent) {
                Ok(()) => chmod(&parent, 0o755)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(VolumeFailure::io("create", parent)(error)),
            }
        }
        let write = || {
            let mut out = File::options().write(true).create_new(true).mode(0o600).open(&full)?;
            out.write_all(&file.bytes)?;
            out.set_permissions(fs::Permissions::from_mode(file.mode & 0o777))
        };
        write().map_err(VolumeFailure::io("write", full.clone()))?;
    }
    Ok(())
}

fn chmod(path: &Path, mode: u32) -> Result<(), VolumeFailure> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(VolumeFailure::io("change the mode of", path))
}

/// The one step that readers see: `..data` points to the new directory.
fn switch(target: &Path, fresh: &Path) -> Result<(), VolumeFailure> {
    let temporary = target.join(NEW_DATA);
    let data = target.join(DATA);
    let name = fresh.file_name().unwrap_or_default();
    remove_if_there(&temporary)?;
    symlink(name, &temporary).map_err(VolumeFailure::io("link", temporary.clone()))?;
    fs::rename(&temporary, &data).map_err(VolumeFailure::io("rename", data))
}

fn first_parts(payload: &BTreeMap<String, &FileContent>) -> BTreeSet<String> {
    payload.keys().filter_map(|path| path.split('/').next()).map(str::to_owned).collect()
}

fn link_users(target: &Path, payload: &BTreeMap<String, &FileContent>) -> Result<(), VolumeFailure> {
    for name in first_parts(payload) {
        let link = target.join(&name);
        let wanted = Path::new(DATA).join(&name);
        match fs::read_link(&link) {
            Ok(have) if have == wanted => continue,
            Ok(_) => remove_if_there(&link)?,
            Err(_) => {}
        }
        symlink(&wanted, &link).map_err(VolumeFailure::io("link", link))?;
    }
    Ok(())
}

/// Removes links through `..data` to files that are no more. Other entries are not ours.
fn unlink_stale(target: &Path, payload: &BTreeMap<String, &FileContent>) -> Result<(), VolumeFailure> {
    let wanted = first_parts(payload);
    for name in entries(target)? {
        let link = target.join(&name);
        let through_data = fs::read_link(&link).is_ok_and(|to| to.starts_with(DATA));
        if through_data && !wanted.contains(&name) {
            remove_if_there(&link)?;
        }
    }
    Ok(())
}

/// Removes timestamped directories other than the one in use, and a link that a crash left.
fn sweep(target: &Path, used: Option<&Path>) -> Result<(), VolumeFailure> {
    for name in entries(target)? {
        if name == NEW_DATA {
            remove_if_there(&target.join(name))?;
        } else if is_ours(Path::new(&name)) && used != Some(Path::new(&name)) {
            let directory = target.join(name);
            fs::remove_dir_all(&directory).map_err(VolumeFailure::io("remove", directory))?;
        }
    }
    Ok(())
}

fn entries(target: &Path) -> Result<Vec<String>, VolumeFailure> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let names = fs::read_dir(target).and_then(|entries| entries.map(name).collect());
    names.map_err(VolumeFailure::io("list", target))
}

fn remove_if_there(path: &Path) -> Result<(), VolumeFailure> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(VolumeFailure::io("remove", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(text: &str) -> FileContent {
        FileContent { bytes: text.as_bytes().to_vec(), mode: 0o644 }
    }

    fn payload(files: &[(&str, &str)]) -> Payload {
        files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn write(target: &Path, payload: &Payload) -> Result<bool, VolumeFailure> {
        write_atomically(target, payload, Timestamp::UNIX_EPOCH, |_| Ok(()))
    }

    /// What a reader sees: path and text of every file that is reached without going through hidden names.
    fn seen(target: &Path) -> BTreeMap<String, String> {
        fn walk(directory: &Path, prefix: &str, out: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                if prefix.is_empty() && name.starts_with("..") {
                    continue;
                }
                let path = format!("{prefix}{name}");
                if fs::metadata(entry.path()).unwrap().is_dir() {
                    walk(&entry.path(), &format!("{path}/"), out);
                } else {
                    out.insert(path, fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(target, "", &mut out);
        out
    }

    fn hidden(target: &Path) -> usize {
        entries(target).unwrap().iter().filter(|name| name.starts_with("..")).count()
    }

    #[test]
    fn files_appear_change_and_disappear() {
        let target = tempfile::tempdir().unwrap();
        assert!(write(target.path(), &payload(&[("a", "1"), ("d/e/f", "2")])).unwrap());
        let link = fs::read_link(target.path().join("d")).unwrap();
        assert_eq!(link, Path::new("..data/d"));
        assert!(!write(target.path(), &payload(&[("a", "1"), ("d/e/f", "2")])).unwrap());
        assert!(write(target.path(), &payload(&[("a", "3"), ("b", "4")])).unwrap());
        let expected = BTreeMap::from([("a".to_owned(), "3".to_owned()), ("b".to_owned(), "4".to_owned())]);
        assert_eq!(seen(target.path()), expected);
        assert_eq!(hidden(target.path()), 2);
    }

    #[test]
    fn paths_that_lead_out_are_refused_before_anything_is_written() {
        let target = tempfile::tempdir().unwrap();
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a/..", "..data/x", "..x", "a\0b", &"x".repeat(256)] {
            let result = write(target.path(), &payload(&[("good", "1"), (path, "2")]));
            assert!(matches!(result, Err(VolumeFailure::BadPath { .. })), "{path:?}");
        }
        assert!(write(target.path(), &payload(&[("a", "1"), ("a/b", "2")])).is_err());
        assert_eq!(entries(target.path()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn modes_are_kept_whatever_the_umask() {
        let target = tempfile::tempdir().unwrap();
        let secret = Payload::from([("k".to_owned(), FileContent { bytes: vec![1], mode: 0o400 })]);
        write(target.path(), &secret).unwrap();
        let mode = fs::metadata(target.path().join("k")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o400);
    }

    #[test]
    fn a_failing_owner_changes_nothing_that_readers_see() {
        let target = tempfile::tempdir().unwrap();
        write(target.path(), &payload(&[("a", "1")])).unwrap();
        let result = write_atomically(target.path(), &payload(&[("a", "2")]), Timestamp::UNIX_EPOCH, |path| {
            Err(VolumeFailure::StillMounted(path.to_owned()))
        });
        assert!(result.is_err());
        assert_eq!(seen(target.path())["a"], "1");
        assert_eq!(hidden(target.path()), 2);
    }

    #[test]
    fn rubbish_of_a_crash_is_swept_and_foreign_entries_stay() {
        let target = tempfile::tempdir().unwrap();
        write(target.path(), &payload(&[("a", "1")])).unwrap();
        fs::create_dir(target.path().join("..2020_01_01_00_00_00.000000001")).unwrap();
        symlink("nowhere", target.path().join(NEW_DATA)).unwrap();
        symlink("..data/old", target.path().join("old")).unwrap();
        fs::write(target.path().join("foreign"), "x").unwrap();
        write(target.path(), &payload(&[("a", "2")])).unwrap();
        let names: BTreeSet<_> = entries(target.path()).unwrap().into_iter().filter(|n| !n.starts_with("..")).collect();
        assert_eq!(names, BTreeSet::from(["a".to_owned(), "foreign".to_owned()]));
        assert_eq!(hidden(target.path()), 2);
    }

    #[test]
    fn content_is_never_shown() {
        assert_eq!(format!("{:?}", file("hunter2")), "7 bytes, mode 0644");
    }

    fn some_payload() -> impl Strategy<Value = Payload> {
        let path = prop_oneof!["[a-c]", "[a-c]/[a-c]", "d/[a-c]/[a-c]"];
        prop::collection::btree_map(path, "[a-z]{0,3}".prop_map(|text| file(&text)), 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The model is a map: after any history a reader sees exactly the last payload that was accepted.
        #[test]
        fn a_reader_sees_the_last_accepted_payload(history in prop::collection::vec(some_payload(), 1..6)) {
            let target = tempfile::tempdir().unwrap();
            let mut model: Option<BTreeMap<String, String>> = None;
            for payload in history {
                let text: BTreeMap<_, _> = payload.iter().map(|(p, f)| (p.clone(), String::from_utf8(f.bytes.clone()).unwrap())).collect();
                match write(target.path(), &payload) {
                    Ok(changed) => {
                        prop_assert_eq!(changed, model.as_ref() != Some(&text));
                        model = Some(text);
                    }
                    Err(error) => prop_assert!(matches!(error, VolumeFailure::BadPath { .. }), "{error}"),
                }
                prop_assert_eq!(seen(target.path()), model.clone().unwrap_or_default());
                prop_assert!(hidden(target.path()) <= 2);
            }
        }
    }
}
