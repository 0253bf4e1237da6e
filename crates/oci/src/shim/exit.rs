//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

/// Writes a value as JSON, mode 0600, by way of a temporary file beside it. With `sync` it survives a power cut; the
/// death of any process it survives anyway.
pub(crate) fn write_json(path: &Path, value: &impl Serialize, sync: bool) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    if sync {
        file.sync_all()?;
    }
    fs::rename(&temporary, path)?;
    if let Some(parent) = path.parent().filter(|_| sync) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}
