//! A small real image out of Debian's `busybox-static`.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::{Entry, EntryKind, ImageBuilder, Layer};

/// Where Debian's package `busybox-static` has its binary.
pub const BUSYBOX: &str = "/bin/busybox";

/// User and group id of the image's non-root user `app`.
const APP: u64 = 1000;

/// An image with one statically linked busybox under all its applet names, a user `app` (1000), a `/tmp` for
/// everybody, and `sh` as its command. The caller adds names and settings.
///
/// # Errors
/// When `binary` can't be read or run.
pub fn busybox_image(binary: &Path) -> io::Result<ImageBuilder> {
    let output = Command::new(binary).arg("--list").output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{} --list failed: {}", binary.display(), output.status)));
    }
    let mut layer = Layer::new()
        .dir("bin/", 0o755)
        .dir("dev/", 0o755)
        .dir("etc/", 0o755)
        .dir("home/", 0o755)
        .entry(Entry::new("home/app/", EntryKind::Dir, 0o750).owner(APP, APP))
        .dir("proc/", 0o555)
        .dir("root/", 0o700)
        .dir("sys/", 0o555)
        .dir("tmp/", 0o1777)
        .dir("usr/", 0o755)
        .symlink("usr/bin", "../bin")
        .symlink("sbin", "bin")
        .dir("var/", 0o755)
        .file("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n")
        .file("etc/group", 0o644, "root:x:0:\napp:x:1000:\nextra:x:2000:app\n")
        .file("etc/shells", 0o644, "/bin/sh\n")
        .file("bin/busybox", 0o755, std::fs::read(binary)?);
    for applet in String::from_utf8_lossy(&output.stdout).lines() {
        if applet != "busybox" && !applet.is_empty() && !applet.contains('/') {
            layer = layer.symlink(format!("bin/{applet}"), "busybox");
        }
    }
    Ok(ImageBuilder::new()
        .layer(layer)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .cmd(["sh"]))
}
