//! One layer of an image, as a list of tar entries. Nothing is checked, so that hostile layers can be made too.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file with these bytes.
    File(Vec<u8>),
    /// A directory.
    Dir,
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// A hard link to this path of the layer.
    Hardlink(Vec<u8>),
    /// A character device.
    Char {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
}

/// One tar entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path exactly as it stands in the archive.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Modification time, seconds since 1970.
    pub mtime: u64,
    /// Extended attributes, written as PAX `SCHILY.xattr.*` records.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

impl Entry {
    /// An entry owned by root, with a fixed modification time so that digests are the same every time.
    #[must_use]
    pub fn new(path: impl AsRef<[u8]>, kind: EntryKind, mode: u32) -> Self {
        Self { path: path.as_ref().to_vec(), kind, mode, uid: 0, gid: 0, mtime: 1_700_000_000, xattrs: Vec::new() }
    }

    /// Gives it to somebody else.
    #[must_use]
    pub fn owner(mut self, uid: u64, gid: u64) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    /// Adds an extended attribute.
    #[must_use]
    pub fn xattr(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.xattrs.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Sets the modification time.
    #[must_use]
    pub fn mtime(mut self, seconds: u64) -> Self {
        self.mtime = seconds;
        self
    }
}

/// A layer in the making.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layer {
    entries: Vec<Entry>,
    raw: Option<Vec<u8>>,
}

impl Layer {
    /// An empty layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A layer that is exactly these bytes, a tar archive or not.
    #[must_use]
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self { entries: Vec::new(), raw: Some(bytes) }
    }

    /// Everything below a directory, with modes, owners and links, in sorted order.
    ///
    /// # Errors
    /// When something below `root` can't be read.
    pub fn from_dir(root: &Path) -> io::Result<Self> {
        let mut layer = Self::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(relative) = pending.pop() {
            let mut children: Vec<_> =
                std::fs::read_dir(root.join(&relative))?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
            children.sort();
            for name in children {
                let path = relative.join(name);
                let full = root.join(&path);
                let meta = full.symlink_metadata()?;
                let kind = if meta.is_dir() {
                    pending.push(path.clone());
                    EntryKind::Dir
                } else if meta.is_symlink() {
                    EntryKind::Symlink(full.read_link()?.into_os_string().into_vec())
                } else if meta.is_file() {
                    EntryKind::File(std::fs::read(&full)?)
                } else if meta.file_type().is_fifo() {
                    EntryKind::Fifo
                } else {
                    continue;
                };
                layer.entries.push(Entry {
                    path: path.as_os_str().as_bytes().to_vec(),
                    kind,
                    mode: meta.permissions().mode() & 0o7777,
                    uid: meta.uid().into(),
                    gid: meta.gid().into(),
                    mtime: meta.mtime().try_into().unwrap_or(0),
                    xattrs: Vec::new(),
                });
            }
        }
        Ok(layer)
    }

    /// Adds an entry.
    #[must_use]
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds a directory.
    #[must_use]
    pub fn dir(self, path: impl AsRef<[u8]>, mode: u32) -> Self {
        self.entry(Entry::new(path, EntryKind::Dir, mode))
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: impl AsRef<[u8]>, mode: u32, contents: impl AsRef<[u8]>) -> Self {
        self.entry(Entry::new(path, EntryKind::File(contents.as_ref().to_vec()), mode))
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(Entry::new(path, EntryKind::Symlink(target.as_ref().to_vec()), 0o777))
    }

    /// Adds a hard link.
    #[must_use]
    pub fn hardlink(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(Entry::new(path, EntryKind::Hardlink(target.as_ref().to_vec()), 0o644))
    }

    /// Deletes a path of the layers below.
    #[must_use]
    pub fn whiteout(self, path: &str) -> Self {
        let marker = match path.rsplit_once('/') {
            Some((dir, name)) => format!("{dir}/.wh.{name}"),
            None => format!(".wh.{path}"),
        };
        self.file(marker, 0o600, b"")
    }

    /// Hides what the layers below have in a directory.
    #[must_use]
    pub fn opaque(self, dir: &str) -> Self {
        self.file(format!("{dir}/.wh..wh..opq"), 0o600, b"")
    }

    /// The entries so far.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The layer as an uncompressed tar archive.
    #[must_use]
    pub fn tar(&self) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut out = Vec::new();
        for entry in &self.entries {
            append(&mut out, entry);
        }
        out.resize(out.len() + 1024, 0);
        out
    }
}

/// Longest name that fits into the classic header field.
const NAME_FIELD: usize = 100;

fn append(out: &mut Vec<u8>, entry: &Entry) {
    let (flag, link, data): (u8, &[u8], &[u8]) = match &entry.kind {
        EntryKind::File(data) => (b'0', b"", data),
        EntryKind::Hardlink(target) => (b'1', target, b""),
        EntryKind::Symlink(target) => (b'2', target, b""),
        EntryKind::Char { .. } => (b'3', b"", b""),
        EntryKind::Block { .. } => (b'4', b"", b""),
        EntryKind::Dir => (b'5', b"", b""),
        EntryKind::Fifo => (b'6', b"", b""),
    };
    if !entry.xattrs.is_empty() {
        let records: Vec<u8> =
            entry.xattrs.iter().flat_map(|(name, value)| pax_record(&format!("SCHILY.xattr.{name}"), value)).collect();
        append_block(out, &header(b"PaxHeaders/x", b'x', 0o644, records.len()), &records);
    }
    if entry.path.len() > NAME_FIELD {
        let name = [&entry.path[..], b"\0"].concat();
        append_block(out, &header(b"././@LongLink", b'L', 0o644, name.len()), &name);
    }
    if link.len() > NAME_FIELD {
        let name = [link, b"\0"].concat();
        append_block(out, &header(b"././@LongLink", b'K', 0o644, name.len()), &name);
    }
    let mut header = header(&entry.path, flag, entry.mode, data.len());
    header.set_uid(entry.uid);
    header.set_gid(entry.gid);
    header.set_mtime(entry.mtime);
    let old = header.as_old_mut();
    let length = link.len().min(NAME_FIELD);
    old.linkname[..length].copy_from_slice(&link[..length]);
    if let EntryKind::Char { major, minor } | EntryKind::Block { major, minor } = entry.kind
        && let Some(gnu) = header.as_gnu_mut()
    {
        gnu.set_device_major(major);
        gnu.set_device_minor(minor);
    }
    append_block(out, &header, data);
}

/// A header with the path copied as it is, which the `tar` crate's own setter would refuse for hostile names.
fn header(path: &[u8], flag: u8, mode: u32, size: usize) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_entry_type(tar::EntryType::new(flag));
    let length = path.len().min(NAME_FIELD);
    header.as_old_mut().name[..length].copy_from_slice(&path[..length]);
    header
}

fn append_block(out: &mut Vec<u8>, header: &tar::Header, data: &[u8]) {
    let mut header = header.clone();
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(512), 0);
}

/// `<length> <key>=<value>\n`, where the length counts itself.
fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_reads_back_as_it_was_written() {
        let long = "d/".repeat(80) + "file";
        let layer = Layer::new()
            .dir("etc/", 0o755)
            .entry(Entry::new(&long, EntryKind::File(b"x".to_vec()), 0o4755).owner(7, 8).xattr("user.a", b"b\0"))
            .symlink("link", "etc");
        let bytes = layer.tar();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let xattrs: Vec<_> = entry
                .pax_extensions()
                .unwrap()
                .into_iter()
                .flatten()
                .map(|e| e.map(|e| (e.key().unwrap().to_owned(), e.value_bytes().to_vec())).unwrap())
                .collect();
            seen.push((entry.path_bytes().to_vec(), entry.header().mode().unwrap(), xattrs));
        }
        assert_eq!(
            seen,
            [
                (b"etc/".to_vec(), 0o755, vec![]),
                (long.into_bytes(), 0o4755, vec![("SCHILY.xattr.user.a".to_owned(), b"b\0".to_vec())]),
                (b"link".to_vec(), 0o777, vec![]),
            ]
        );
    }

    #[test]
    fn a_pax_record_counts_its_own_length_across_a_power_of_ten() {
        for size in 0..1200 {
            let record = pax_record("k", &vec![b'v'; size]);
            let text = String::from_utf8(record.clone()).unwrap();
            let length: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(length, record.len());
        }
    }
}
