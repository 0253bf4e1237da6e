//! Unpacking: what honest layers become, and what hostile ones can't do.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};

use minke_core::runtime::PullError;
use minke_oci::image::{Limits, StoreConfig};
use minke_testkit::{Compression, Entry, EntryKind, ImageBuilder, Layer};
use rustix::fs::{lgetxattr, makedev};

use crate::helpers::{TestStore, config, needs_root, noise, picture};

fn xattr(path: &std::path::Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 256];
    let length = lgetxattr(path, name, &mut buffer[..]).ok()?;
    Some(buffer[..length].to_vec())
}

#[tokio::test]
async fn metadata_survives() {
    needs_root!("metadata_survives");
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let file = |path: &str, mode| Entry::new(path, EntryKind::File(b"x".to_vec()), mode);
    let layer = Layer::new()
        .entry(Entry::new("d/", EntryKind::Dir, 0o3775).owner(11, 12).mtime(1_000_000_000))
        .entry(file("d/suid", 0o6755).owner(1, 2).mtime(1_234_567_890))
        .entry(file("d/cap", 0o755).xattr("security.capability", capability).xattr("user.note", "hello"))
        .entry(Entry::new("d/link", EntryKind::Symlink(b"suid".to_vec()), 0o777).owner(3, 4).mtime(5))
        .entry(Entry::new("null", EntryKind::Char { major: 1, minor: 3 }, 0o666))
        .entry(Entry::new("loop", EntryKind::Block { major: 7, minor: 9 }, 0o660).owner(0, 6))
        .entry(Entry::new("pipe", EntryKind::Fifo, 0o622))
        .hardlink("d/hard", "d/suid")
        .entry(Entry::new("./", EntryKind::Dir, 0o711));
    let test = TestStore::new();
    let root = test.unpack([layer]).await.unwrap().remove(0);
    let meta = |path: &str| root.join(path).symlink_metadata().unwrap();
    let facts = |path: &str| (meta(path).mode() & 0o7777, meta(path).uid(), meta(path).gid());
    assert_eq!(facts("d"), (0o3775, 11, 12));
    assert_eq!(meta("d").mtime(), 1_000_000_000, "making files in it must not show");
    assert_eq!(facts("d/suid"), (0o6755, 1, 2));
    assert_eq!(meta("d/suid").mtime(), 1_234_567_890);
    assert_eq!(xattr(&root.join("d/cap"), "security.capability").unwrap(), capability);
    assert_eq!(xattr(&root.join("d/cap"), "user.note").unwrap(), b"hello");
    assert_eq!((meta("d/link").uid(), meta("d/link").gid(), meta("d/link").mtime()), (3, 4, 5));
    assert_eq!(meta("null").rdev(), makedev(1, 3));
    assert!(meta("null").file_type().is_char_device() && meta("loop").file_type().is_block_device());
    assert_eq!((meta("loop").rdev(), meta("loop").gid()), (makedev(7, 9), 6));
    assert!(meta("pipe").file_type().is_fifo());
    assert_eq!(facts("pipe").0, 0o622, "the process's umask must not show");
    assert_eq!(meta("d/hard").ino(), meta("d/suid").ino());
    assert_eq!(meta("").mode() & 0o7777, 0o711);
    test.assert_tidy();
}

#[tokio::test]
async fn later_entries_replace_earlier_ones() {
    needs_root!("later_entries_replace_earlier_ones");
    let layer = Layer::new()
        .file("a", 0o644, "old")
        .file("a", 0o600, "new")
        .file("b/c/d", 0o644, "deep")
        .file("b", 0o644, "a file now")
        .symlink("e", "a")
        .dir("e", 0o755)
        .file("e/f", 0o644, "in a directory now")
        .file("g", 0o644, "g")
        .hardlink("g", "g")
        .hardlink("early", "late")
        .file("late", 0o644, "late");
    let test = TestStore::new();
    let root = test.unpack([layer]).await.unwrap().remove(0);
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(read("a"), "new");
    assert_eq!(read("b"), "a file now");
    assert_eq!(read("e/f"), "in a directory now");
    assert_eq!(read("g"), "g", "a hard link to itself must not delete the file");
    assert_eq!(read("early"), "late", "a link may stand before its target");
}

#[tokio::test]
async fn symbolic_links_of_the_layer_lead_within_it() {
    needs_root!("symbolic_links_of_the_layer_lead_within_it");
    let layer = Layer::new()
        .dir("usr/lib", 0o755)
        .symlink("lib", "usr/lib")
        .file("lib/a", 0o644, "through a relative link")
        .symlink("abs", "/usr/lib")
        .file("abs/b", 0o644, "through an absolute link")
        .symlink("up", "../../../../usr")
        .file("up/lib/c", 0o644, "through a link above the root");
    let test = TestStore::new();
    let root = test.unpack([layer]).await.unwrap().remove(0);
    for name in ["a", "b", "c"] {
        assert!(root.join("usr/lib").join(name).is_file(), "{name}");
    }
    assert!(root.join("lib").is_symlink());
}

/// Layers made to write or read outside of their tree, or to confuse. Each is refused, or does nothing outside.
fn hostile(outside: &str) -> Vec<(&'static str, Layer, Option<&'static str>)> {
    let up = format!("{}{}", "../".repeat(40), outside.trim_start_matches('/'));
    let file = |path: &str| Layer::new().file(path, 0o644, "evil");
    let link = |target: &str| Layer::new().symlink("out", target);
    let overlay = Entry::new("d/", EntryKind::Dir, 0o755)
        .xattr("trusted.overlay.redirect", "/etc")
        .xattr("user.overlay.opaque", "y")
        .xattr("security.selinux", "x");
    let mut sparse = Layer::new().file("s", 0o644, "").tar();
    sparse[156] = b'S';
    let mut header = tar::Header::from_byte_slice(&sparse[..512]).clone();
    header.set_cksum();
    sparse[..512].copy_from_slice(header.as_bytes());
    vec![
        ("dot-dot", file("../evil"), Some("\"..\"")),
        ("dot-dot in the middle", file("a/../../evil"), Some("\"..\"")),
        ("dot-dot to the outside", file(&up), Some("\"..\"")),
        ("dot-dot at the end", Layer::new().dir("a/..", 0o777), Some("\"..\"")),
        ("absolute path", file(&format!("{outside}/evil")), None),
        ("through an absolute link", link(outside).file("out/evil", 0o644, "evil"), None),
        ("through a link upwards", link(&up).file("out/evil", 0o644, "evil"), None),
        ("over a link's target", link(&format!("{outside}/secret")).file("out", 0o644, "evil"), None),
        ("chmod through a link", link(outside).dir("out", 0o777), None),
        ("chmod through two links", Layer::new().symlink("a", outside).symlink("b", "a").dir("b/", 0o777), None),
        ("delete through a link", link(outside).file("out/.wh.secret", 0o600, ""), None),
        ("hide through a link", link(outside).file("out/.wh..wh..opq", 0o600, ""), None),
        ("hard link to an absolute path", Layer::new().hardlink("h", format!("{outside}/secret")), Some("hard link")),
        ("hard link upwards", Layer::new().hardlink("h", format!("{up}/secret")), Some("\"..\"")),
        ("hard link through a link", link(outside).hardlink("h", "out/secret"), Some("hard link")),
        (
            "write through a hard link to a link",
            link(&format!("{outside}/secret")).hardlink("h", "out").file("h", 0o644, "evil"),
            None,
        ),
        (
            "append through a hard link to a link",
            link(&format!("{outside}/secret")).hardlink("h", "out").entry(Entry::new("h", EntryKind::Fifo, 0o644)),
            None,
        ),
        ("hard link to a directory", Layer::new().dir("d", 0o755).hardlink("h", "d"), Some("directory")),
        ("hard link to the root", Layer::new().hardlink("h", "/"), Some("root")),
        ("hard link to nothing", Layer::new().hardlink("h", "nothing"), Some("neither")),
        ("root as a file", file("./"), None),
        ("root as a symbolic link", Layer::new().symlink("/", outside), Some("root")),
        ("root as a device", Layer::new().entry(Entry::new(".", EntryKind::Fifo, 0o666)), Some("root")),
        ("whiteout of nothing", file(".wh."), Some("whiteout")),
        ("whiteout of the parent", file("a/.wh..."), Some("whiteout")),
        ("whiteout of itself", file("a/.wh.."), Some("whiteout")),
        ("a name too long for the file system", file(&"n".repeat(300)), Some("can't create")),
        ("a path too long for the kernel", file(&"d/".repeat(2100)), Some("longer than")),
        ("a dangling link as a directory", link("nowhere").file("out/x", 0o644, ""), None),
        ("a link to itself as a directory", link("out").file("out/x", 0o644, ""), Some("can't")),
        ("a file as a directory", file("f").file("f/x", 0o644, ""), Some("can't")),
        ("overlayfs' own attributes", Layer::new().entry(overlay), None),
        ("a sparse file", Layer::raw(sparse), Some("sparse")),
        (
            "owner beyond 32 bits",
            Layer::new().entry(Entry::new("f", EntryKind::Fifo, 0).owner(1 << 33, 0)),
            Some("owner"),
        ),
        ("no archive at all", Layer::raw(b"MZ not a tar".repeat(100)), Some("checksum")),
        (
            "an archive cut in a header",
            Layer::raw(Layer::new().file("a", 0o644, "x").tar()[..300].to_vec()),
            Some("middle"),
        ),
        (
            "an archive cut in a file",
            Layer::raw(Layer::new().file("a", 0o644, [1; 600]).tar()[..700].to_vec()),
            Some("middle"),
        ),
    ]
}

#[tokio::test]
async fn hostile_layers_do_nothing_outside() {
    needs_root!("hostile_layers_do_nothing_outside");
    let probe = TestStore::new();
    let outside = probe.state.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::set_permissions(&outside, Permissions::from_mode(0o750)).unwrap();
    let before = picture(&outside);
    for (name, layer, refusal) in hostile(outside.to_str().unwrap()) {
        let test = TestStore::new();
        let result = test.unpack([layer]).await;
        match (&result, refusal) {
            (Err(PullError::BadContent { message, .. }), Some(words)) => {
                assert!(message.contains(words), "{name}: {message}");
            }
            (Ok(_), None) => {}
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(picture(&outside), before, "{name}");
        assert_eq!(xattr(&outside, "trusted.overlay.opaque"), None, "{name}");
        if let Ok(trees) = result {
            let tree = &trees[0];
            assert_eq!(xattr(&tree.join("d"), "trusted.overlay.redirect"), None, "{name}");
            assert_eq!(xattr(&tree.join("d"), "user.overlay.opaque"), None, "{name}");
        } else {
            assert_eq!(test.names("layers"), [""; 0], "{name}");
            assert_eq!(test.names("images"), [""; 0], "{name}");
        }
        test.assert_tidy();
    }
}

#[tokio::test]
async fn layers_completed_from_below_do_nothing_outside() {
    needs_root!("layers_completed_from_below_do_nothing_outside");
    let test = TestStore::new();
    let outside = test.state.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::set_permissions(&outside, Permissions::from_mode(0o750)).unwrap();
    let before = picture(&outside);
    let target = outside.to_str().unwrap();
    let base = || {
        Layer::new()
            .entry(Entry::new("a/", EntryKind::Dir, 0o777).owner(7, 7).xattr("user.a", "a"))
            .file("a/secret", 0o666, "of the image")
            .dir("b", 0o777)
            .symlink("c", target)
    };
    for (name, top) in [
        ("a directory that becomes a link", Layer::new().file("a/x", 0o644, "").symlink("a", target)),
        ("one above that becomes a link", Layer::new().file("b/a/x", 0o644, "").symlink("b", target)),
        ("a link's target behind a link", Layer::new().symlink("d", target).hardlink("h", "d/secret")),
        ("a link of the layer below", Layer::new().hardlink("h", "c").file("h", 0o644, "evil")),
        ("through a link of the layer below", Layer::new().hardlink("h", "c/secret")),
        ("a copy where a link is", Layer::new().symlink("a", target).hardlink("h", "a/secret")),
    ] {
        // Refused or not, as long as nothing happens outside.
        let _ = test.unpack([base(), top]).await;
        assert_eq!(picture(&outside), before, "{name}");
        assert_eq!(xattr(&outside, "user.a"), None, "{name}");
    }
    test.assert_tidy();
}

#[tokio::test]
async fn a_path_as_deep_as_allowed_is_unpacked_and_removed() {
    needs_root!("a_path_as_deep_as_allowed_is_unpacked_and_removed");
    let test = TestStore::new();
    let path = format!("{}f", "d/".repeat(1900));
    test.unpack([Layer::new().file(&path, 0o644, "deep")]).await.unwrap();
    assert_eq!(test.names("layers").len(), 1);
    test.store.prune(&|_| false, minke_oci::image::Keep::Nothing).unwrap();
    assert_eq!(test.names("layers"), [""; 0]);
    test.assert_tidy();
}

fn limited(limits: Limits) -> TestStore {
    TestStore::with(StoreConfig { limits, ..config() })
}

#[tokio::test]
async fn bombs_are_stopped() {
    needs_root!("bombs_are_stopped");
    let small = Limits { bytes: 1 << 20, entries: 50, path: 200 };
    let zeros = |compression| {
        ImageBuilder::new().compression(compression).layer(Layer::new().file("zeros", 0o644, vec![0; 64 << 20])).build()
    };
    let many = (0..51).fold(Layer::new(), |layer, index| layer.file(format!("f{index}"), 0o644, ""));
    let halves = ["a", "b"].map(|name| Layer::new().file(name, 0o644, noise(600 << 10)));
    let halves = halves.into_iter().fold(ImageBuilder::new(), ImageBuilder::layer).build();
    for (name, image, words) in [
        ("gzip", zeros(Compression::Gzip), "larger than 1048576 bytes"),
        ("zstd", zeros(Compression::Zstd), "larger than 1048576 bytes"),
        ("plain", zeros(Compression::None), "larger than 1048576 bytes"),
        ("several layers together", halves, "larger than 1048576 bytes"),
        ("files", ImageBuilder::new().layer(many).build(), "more than 50 files"),
        (
            "bytes behind the archive",
            ImageBuilder::new().layer(Layer::raw(vec![0; 2 << 20])).build(),
            "larger than 1048576 bytes",
        ),
        (
            "a long path",
            ImageBuilder::new().layer(Layer::new().file("p/".repeat(101), 0o644, "")).build(),
            "longer than 200 bytes",
        ),
    ] {
        let test = limited(small);
        let path = test.state.root().join("layout");
        image.write_oci_layout(&path).unwrap();
        let error = test.store.import(minke_oci::image::ImportSource::Path(path), &[]).await.unwrap_err();
        assert!(matches!(&error, PullError::BadContent { message, .. } if message.contains(words)), "{name}: {error}");
        assert_eq!(test.names("images"), [""; 0], "{name}");
        test.assert_tidy();
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_leaves_nothing() {
    needs_root!("a_full_disk_is_reported_and_leaves_nothing");
    let state = minke_testkit::TempState::new().unwrap();
    let root = state.root().join("small");
    std::fs::create_dir(&root).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    if let Err(error) = rustix::mount::mount("tmpfs", &root, "tmpfs", flags, Some(c"size=4m")) {
        println!("SKIPPED a_full_disk_is_reported_and_leaves_nothing: can't mount a tmpfs: {error}");
        return;
    }
    let store = minke_oci::image::ImageStore::open(&root, config()).unwrap();
    let import = async |size: usize| {
        let image = ImageBuilder::new().layer(Layer::new().file("f", 0o644, noise(size))).build();
        let path = state.root().join("image.tar");
        image.write_oci_archive(&path).unwrap();
        store.import(minke_oci::image::ImportSource::Path(path), &[]).await
    };
    let error = import(8 << 20).await.unwrap_err();
    assert!(matches!(&error, PullError::Storage { message, .. } if message.contains("No space left")), "{error}");
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(root.join("layers")).unwrap().count(), 0);
    import(1 << 20).await.unwrap();
}
