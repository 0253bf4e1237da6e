//! Overlay mounts of real layers.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use minke_core::runtime::{IdMapping, PullError};
use minke_oci::snapshot::{self, RootAttributes, SnapshotError, SnapshotSpec};
use minke_testkit::{Entry, EntryKind, ImageBuilder, Layer};

use crate::helpers::{TestStore, image, needs_root};

/// A mounted root.
struct Mounted {
    spec: SnapshotSpec,
    target: PathBuf,
}

impl Mounted {
    /// `None` when this machine does not allow overlay mounts.
    fn new(test: &TestStore, layers: Vec<PathBuf>, user: Option<IdMapping>) -> Option<Self> {
        Self::with_root(test, layers, user, RootAttributes::default())
    }

    fn with_root(
        test: &TestStore,
        layers: Vec<PathBuf>,
        user: Option<IdMapping>,
        root: RootAttributes,
    ) -> Option<Self> {
        let target = test.state.run().join("root");
        std::fs::create_dir_all(&target).unwrap();
        let spec = SnapshotSpec { layers, root, directory: test.state.run().join("container"), user };
        match snapshot::mount(&spec, &target) {
            Ok(()) => Some(Self { spec, target }),
            Err(SnapshotError::NotPermitted { message, source }) => {
                println!("SKIPPED overlay mounts: {message}: {source}");
                None
            }
            Err(error) => panic!("{}", minke_core::runtime::error_chain(&error)),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.target.join(path)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(self.path(dir)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        snapshot::unmount(&self.target).unwrap();
        snapshot::remove(&self.spec.directory).unwrap();
    }
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn whiteouts_opaque_directories_and_links_show_in_the_overlay() {
    needs_root!("whiteouts_opaque_directories_and_links_show_in_the_overlay");
    let test = TestStore::new();
    let layers = test
        .unpack([
            Layer::new()
                .dir("d", 0o755)
                .file("d/old", 0o644, "old")
                .file("gone", 0o644, "gone")
                .dir("gone-dir", 0o755)
                .file("gone-dir/x", 0o644, "x")
                .dir("reborn", 0o755)
                .file("reborn/before", 0o644, "before")
                .dir("late", 0o755)
                .file("late/before", 0o644, "before")
                .file("replaced", 0o644, "one")
                .file("kept", 0o644, "kept"),
            Layer::new()
                .dir("d", 0o700)
                .opaque("d")
                .file("d/new", 0o644, "new")
                .whiteout("gone")
                .whiteout("gone-dir")
                .whiteout("never-there")
                .whiteout("reborn")
                .dir("reborn", 0o755)
                .file("reborn/after", 0o644, "after")
                .dir("late", 0o755)
                .file("late/after", 0o644, "after")
                .whiteout("late")
                .whiteout("replaced")
                .file("replaced", 0o644, "two")
                .file(".wh..wh.plnk", 0o600, "")
                .dir(".wh..wh.aufs", 0o700)
                .file("h1", 0o644, "linked")
                .hardlink("h2", "h1"),
        ])
        .await
        .unwrap();
    let Some(mounted) = Mounted::new(&test, layers, None) else { return };
    assert_eq!(mounted.list(""), ["d", "h1", "h2", "kept", "late", "reborn", "replaced"]);
    assert_eq!(mounted.list("d"), ["new"], "opaque");
    assert_eq!(mounted.list("reborn"), ["after"], "deleted and made anew");
    assert_eq!(mounted.list("late"), ["after"], "a whiteout behind the directory means the layers below");
    assert_eq!(read(mounted.path("replaced")), "two");
    assert_eq!(mounted.path("d").metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(mounted.path("h1").metadata().unwrap().nlink(), 2);
}

#[tokio::test]
async fn an_opaque_root_hides_the_layers_below() {
    needs_root!("an_opaque_root_hides_the_layers_below");
    let test = TestStore::new();
    let below = || Layer::new().file("below", 0o644, "b").dir("d", 0o700);
    let opaque = || Layer::new().file(".wh..wh..opq", 0o600, "").file("own", 0o644, "o");
    let layers = test.unpack([below(), opaque(), Layer::new().file("d/above", 0o644, "a")]).await.unwrap();
    assert_eq!(layers.len(), 2);
    assert_eq!(layers[1].join("d").metadata().unwrap().mode() & 0o777, 0o755, "not that of the hidden directory");
    if let Some(mounted) = Mounted::new(&test, layers, None) {
        assert_eq!(mounted.list(""), ["d", "own"]);
    }
    let error = test.unpack([below(), opaque(), Layer::new().hardlink("h", "below")]).await.unwrap_err();
    assert!(matches!(error, PullError::BadContent { .. }), "{error}");
}

#[tokio::test]
async fn layers_that_lack_directories_or_targets_take_them_from_below() {
    needs_root!("layers_that_lack_directories_or_targets_take_them_from_below");
    let test = TestStore::new();
    let base = Layer::new()
        .dir("tmp", 0o1777)
        .entry(Entry::new("home/app/", EntryKind::Dir, 0o750).owner(7, 8).mtime(77))
        .entry(Entry::new("bin/tool", EntryKind::File(b"tool".to_vec()), 0o4755).owner(5, 6).mtime(55))
        .file("deleted", 0o644, "x");
    let middle = Layer::new().whiteout("deleted").file("unrelated", 0o644, "y");
    // Nothing about tmp/, home/app/ or bin/ itself, and a link to a file of the first layer.
    let top = Layer::new()
        .file("tmp/scratch", 0o644, "s")
        .file("home/app/new/file", 0o644, "f")
        .hardlink("opt/alias", "bin/tool");
    let layers = test.unpack([base.clone(), middle.clone(), top.clone()]).await.unwrap();
    let names = test.names("layers");
    assert_eq!(names.iter().filter(|name| name.starts_with("chain-")).count(), 2, "{names:?}");
    if let Some(mounted) = Mounted::new(&test, layers, None) {
        let meta = |path: &str| mounted.path(path).metadata().unwrap();
        assert_eq!(meta("tmp").mode() & 0o7777, 0o1777);
        assert_eq!((meta("home/app").mode() & 0o7777, meta("home/app").uid(), meta("home/app").gid()), (0o750, 7, 8));
        assert_eq!(meta("home/app/new").mode() & 0o7777, 0o755);
        assert_eq!(meta("bin/tool").ino(), meta("opt/alias").ino());
        assert_eq!((meta("opt/alias").mode() & 0o7777, meta("opt/alias").uid()), (0o4755, 5));
        assert_eq!((meta("opt/alias").mtime(), meta("opt/alias").nlink()), (55, 2));
        assert_eq!(read(mounted.path("opt/alias")), "tool");
    }
    // The same layer on another base is another one.
    let other = Layer::new().dir("tmp", 0o700).file("bin/tool", 0o755, "other");
    let layers = test.unpack([other, top]).await.unwrap();
    assert_eq!(read(layers[1].join("opt/alias")), "other");
    assert_eq!(layers[1].join("tmp").metadata().unwrap().mode() & 0o7777, 0o700);
    // A link to what a layer in between deleted leads nowhere.
    let error = test.unpack([base, middle, Layer::new().hardlink("h", "deleted")]).await.unwrap_err();
    assert!(matches!(&error, PullError::BadContent { message, .. } if message.contains("neither")), "{error}");
    test.assert_tidy();
}

#[tokio::test]
async fn the_root_has_the_attributes_of_the_image() {
    needs_root!("the_root_has_the_attributes_of_the_image");
    let test = TestStore::new();
    let image = ImageBuilder::new()
        .layer(Layer::new().entry(Entry::new("./", EntryKind::Dir, 0o751).owner(3, 4)))
        .layer(Layer::new().file("a", 0o644, ""))
        .build();
    let lease = test.store.lease(&test.import(&image).await.unwrap()).unwrap();
    assert_eq!(lease.root, RootAttributes { mode: 0o751, uid: 3, gid: 4 });
    let Some(mounted) = Mounted::with_root(&test, lease.layers.clone(), None, lease.root) else { return };
    let meta = mounted.path("").metadata().unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (0o751, 3, 4));
}

#[tokio::test]
async fn writes_stay_in_the_container_and_count_as_its_own() {
    needs_root!("writes_stay_in_the_container_and_count_as_its_own");
    let test = TestStore::new();
    let layers = test.unpack([Layer::new().file("file", 0o644, "image").file("other", 0o644, "o")]).await.unwrap();
    let Some(mounted) = Mounted::new(&test, layers.clone(), None) else { return };
    let empty = snapshot::usage(&mounted.spec.directory).unwrap();
    assert_eq!((empty.bytes, empty.inodes), (0, 0));
    std::fs::write(mounted.path("file"), "container").unwrap();
    std::fs::write(mounted.path("big"), vec![1; 100_000]).unwrap();
    std::fs::remove_file(mounted.path("other")).unwrap();
    assert_eq!(read(layers[0].join("file")), "image");
    assert!(layers[0].join("other").exists());
    let upper = mounted.spec.upper();
    let whiteout = upper.join("other").symlink_metadata().unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    let usage = snapshot::usage(&mounted.spec.directory).unwrap();
    assert!(usage.bytes >= 100_000 && usage.inodes == 3, "{usage:?}");
    // What was written is there again after a new mount.
    snapshot::unmount(&mounted.target).unwrap();
    assert_eq!(mounted.list(""), [""; 0]);
    snapshot::mount(&mounted.spec, &mounted.target).unwrap();
    assert_eq!(read(mounted.path("file")), "container");
    assert!(!mounted.path("other").exists());
}

#[tokio::test]
async fn unmount_and_remove_are_idempotent() {
    needs_root!("unmount_and_remove_are_idempotent");
    let test = TestStore::new();
    let layers = test.unpack([Layer::new().file("file", 0o644, "x")]).await.unwrap();
    let Some(mounted) = Mounted::new(&test, layers, None) else { return };
    // Mounted twice, as after a crash between the mount and its record.
    snapshot::mount(
        &SnapshotSpec { directory: test.state.run().join("second"), ..mounted.spec.clone() },
        &mounted.target,
    )
    .unwrap();
    for _ in 0..3 {
        snapshot::unmount(&mounted.target).unwrap();
        assert_eq!(mounted.list(""), [""; 0]);
    }
    snapshot::unmount(&test.state.run().join("never-there")).unwrap();
    for _ in 0..2 {
        snapshot::remove(&mounted.spec.directory).unwrap();
    }
    assert!(!mounted.spec.directory.exists());
    assert_eq!(test.state.mounts(), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn as_many_layers_as_the_kernel_takes() {
    needs_root!("as_many_layers_as_the_kernel_takes");
    let test = TestStore::new();
    for count in [1, 100, 500] {
        let id = test.import(&image(count)).await.unwrap();
        let layers = test.store.layers(&id).unwrap();
        assert_eq!(layers.len(), count);
        let Some(mounted) = Mounted::new(&test, layers, None) else { return };
        assert_eq!(mounted.list("").len(), count);
        assert_eq!(read(mounted.path("file-0")), "content 0");
        assert_eq!(read(mounted.path(&format!("file-{}", count - 1))), format!("content {}", count - 1));
    }
    let error = test.import(&image(1000)).await.unwrap_err();
    assert!(matches!(&error, PullError::BadContent { message, .. } if message.contains("at most 500")), "{error}");
    let docker = std::io::Cursor::new(image(501).docker_archive());
    let error = test.store.import(minke_oci::image::ImportSource::Stream(Box::new(docker)), &[]).await.unwrap_err();
    assert!(error.to_string().contains("at most 500"), "{error}");
}

#[tokio::test]
async fn an_image_without_layers_is_an_empty_root() {
    needs_root!("an_image_without_layers_is_an_empty_root");
    let test = TestStore::new();
    let layers = test.unpack([]).await.unwrap();
    assert_eq!(layers, [""; 0].map(PathBuf::from));
    let Some(mounted) = Mounted::new(&test, layers, None) else { return };
    assert_eq!(mounted.list(""), [""; 0]);
    std::fs::create_dir(mounted.path("proc")).unwrap();
}

#[tokio::test]
async fn a_user_namespace_sees_its_own_root_as_owner() {
    needs_root!("a_user_namespace_sees_its_own_root_as_owner");
    let test = TestStore::new();
    let layers = test
        .unpack([
            Layer::new().file("zero", 0o644, "0").entry(Entry::new("user", EntryKind::Fifo, 0o644).owner(1000, 1001)),
            Layer::new().file("one", 0o644, "1"),
        ])
        .await
        .unwrap();
    let user = IdMapping { host_id: 200_000, length: 65_536 };
    let Some(mounted) = Mounted::new(&test, layers.clone(), Some(user)) else { return };
    let owner = |path: &str| {
        let meta = mounted.path(path).symlink_metadata().unwrap();
        (meta.uid(), meta.gid())
    };
    assert_eq!(owner("zero"), (200_000, 200_000));
    assert_eq!(owner("one"), (200_000, 200_000));
    assert_eq!(owner("user"), (201_000, 201_001));
    assert_eq!(owner(""), (200_000, 200_000));
    assert_eq!(layers[0].join("zero").metadata().unwrap().uid(), 0, "the shared layer is as it was");
    assert!(!mounted.spec.directory.join("lower").exists(), "the mount points of the layers are gone");
    assert_eq!(test.state.mounts(), std::slice::from_ref(&mounted.target));
    // A copy-up keeps the owner.
    std::fs::write(mounted.path("zero"), "changed").unwrap();
    assert_eq!(owner("zero"), (200_000, 200_000));
}

#[tokio::test]
async fn directories_with_colons_and_long_paths_are_mounted() {
    needs_root!("directories_with_colons_and_long_paths_are_mounted");
    let test = TestStore::new();
    let layers = test.unpack([Layer::new().file("file", 0o644, "x")]).await.unwrap();
    let long = test.state.run().join("a:b,c\\d").join("l".repeat(200)).join("m".repeat(200));
    std::fs::create_dir_all(long.join("layer")).unwrap();
    std::fs::write(long.join("layer/other"), "y").unwrap();
    let target = test.state.run().join("root");
    std::fs::create_dir(&target).unwrap();
    let spec = SnapshotSpec {
        layers: vec![layers[0].clone(), long.join("layer")],
        root: RootAttributes::default(),
        directory: long.join("container"),
        user: None,
    };
    match snapshot::mount(&spec, &target) {
        Ok(()) => {}
        Err(SnapshotError::NotPermitted { message, .. }) => {
            println!("SKIPPED directories_with_colons_and_long_paths_are_mounted: {message}");
            return;
        }
        Err(error) => panic!("{}", minke_core::runtime::error_chain(&error)),
    }
    assert_eq!((read(target.join("file")), read(target.join("other"))), ("x".into(), "y".into()));
    snapshot::unmount(&target).unwrap();
}
