//! Paths of the host: checked, and made where the type says so. Never mounted or removed by us.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::{HostPathType, VolumeFailure};

/// Sees to it that what the type says is at the path.
pub(super) fn check(path: &Path, wanted: HostPathType) -> Result<(), VolumeFailure> {
    let found = match fs::metadata(path) {
        Ok(found) => Some(found.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(VolumeFailure::io("look at", path)(error)),
    };
    let refuse = |why| Err(VolumeFailure::HostPathType { path: path.to_owned(), why });
    let must = |fits: fn(&FileType) -> bool, why| match &found {
        Some(found) if fits(found) => Ok(()),
        Some(_) | None => refuse(why),
    };
    match wanted {
        HostPathType::Unset if found.is_some() => Ok(()),
        HostPathType::Unset => make_directory(path),
        HostPathType::DirectoryOrCreate if found.is_none() => make_directory(path),
        HostPathType::DirectoryOrCreate | HostPathType::Directory => must(FileType::is_dir, "is not a directory"),
        HostPathType::FileOrCreate if found.is_none() => make_file(path),
        HostPathType::FileOrCreate | HostPathType::File => must(FileType::is_file, "is not a file"),
        HostPathType::Socket => must(FileTypeExt::is_socket, "is not a socket file"),
        HostPathType::CharDevice => must(FileTypeExt::is_char_device, "is not a character device"),
        HostPathType::BlockDevice => must(FileTypeExt::is_block_device, "is not a block device"),
    }
}

fn make_directory(path: &Path) -> Result<(), VolumeFailure> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(VolumeFailure::io("create", path))
}

/// The directory of the file must be there, as upstream has it.
fn make_file(path: &Path) -> Result<(), VolumeFailure> {
    let made = fs::File::options().write(true).create(true).truncate(false).mode(0o644).open(path);
    made.map(|_| ()).map_err(VolumeFailure::io("create", path))
}
