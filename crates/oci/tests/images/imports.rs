//! Imports in their many forms.

use minke_core::runtime::{ImageUser, PullError};
use minke_oci::image::{Digest, ImportSource};
use minke_testkit::{Compression, Image, ImageBuilder, ImageIndex, Layer, Platform};

use crate::helpers::{TestStore, image, needs_root};

fn named() -> Image {
    ImageBuilder::new()
        .name("example.test/app:1")
        .name("busybox:x")
        .layer(Layer::new().file("a", 0o644, "a"))
        .layer(Layer::new().file("b", 0o644, "b"))
        .entrypoint(["/app"])
        .cmd(["arg"])
        .env("A", "b")
        .user("app:grp")
        .working_dir("/w")
        .stop_signal("SIGUSR1")
        .label("k", "v")
        .volume("/data")
        .build()
}

#[tokio::test]
async fn every_form_gives_the_same_image() {
    needs_root!("every_form_gives_the_same_image");
    let image = named();
    let archives = |compression: Compression| -> Vec<(String, Vec<u8>)> {
        [("oci", image.oci_archive()), ("docker", image.docker_archive())]
            .into_iter()
            .map(|(name, bytes)| {
                let compressed = match compression {
                    Compression::None => bytes,
                    Compression::Gzip => {
                        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
                        encoder.finish().unwrap()
                    }
                    Compression::Zstd => zstd::encode_all(&bytes[..], 1).unwrap(),
                };
                (format!("{name} {compression:?}"), compressed)
            })
            .collect()
    };
    type Source = Box<dyn Fn(&TestStore) -> ImportSource>;
    let mut sources: Vec<(String, Source)> = Vec::new();
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        for (name, bytes) in archives(compression) {
            let copy = bytes.clone();
            sources.push((
                format!("{name} file"),
                Box::new(move |test| {
                    let path = test.state.root().join("archive");
                    std::fs::write(&path, &copy).unwrap();
                    ImportSource::Path(path)
                }),
            ));
            sources.push((
                format!("{name} stream"),
                Box::new(move |_| ImportSource::Stream(Box::new(std::io::Cursor::new(bytes.clone())))),
            ));
        }
    }
    let layout = image.clone();
    sources.push((
        "layout directory".to_owned(),
        Box::new(move |test| {
            let path = test.state.root().join("layout");
            layout.write_oci_layout(&path).unwrap();
            ImportSource::Path(path)
        }),
    ));
    for (name, source) in sources {
        let test = TestStore::new();
        let imported = test.store.import(source(&test), &[]).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(imported.len(), 1, "{name}");
        let mut names = imported[0].names.clone();
        names.sort();
        assert_eq!(names, ["docker.io/library/busybox:x", "example.test/app:1"], "{name}");
        assert_eq!(imported[0].id.0, image.id(), "{name}");
        let status = test.store.status("busybox:x").unwrap().unwrap();
        assert_eq!(status.tags, names, "{name}");
        assert_eq!(status.user, ImageUser::Name("app".into()), "{name}");
        let config = test.store.image_config(&status.id).unwrap();
        assert_eq!((config.entrypoint, config.cmd), (vec!["/app".into()], vec!["arg".into()]), "{name}");
        assert_eq!((config.env, config.volumes), (vec!["A=b".into()], vec!["/data".into()]), "{name}");
        assert_eq!(config.stop_signal.as_deref(), Some("SIGUSR1"), "{name}");
        let layers = test.store.layers(&status.id).unwrap();
        assert!(layers[0].join("a").is_file() && layers[1].join("b").is_file(), "{name}: lowest first");
        test.assert_tidy();
    }
}

#[tokio::test]
async fn given_names_replace_those_of_the_archive() {
    needs_root!("given_names_replace_those_of_the_archive");
    let test = TestStore::new();
    let path = test.state.root().join("a.tar");
    named().write_oci_archive(&path).unwrap();
    let source = || ImportSource::Path(path.clone());
    let imported = test.store.import(source(), &["mine".to_owned(), "x.test/y:2".to_owned()]).await.unwrap();
    assert_eq!(imported[0].names, ["docker.io/library/mine:latest", "x.test/y:2"]);
    assert_eq!(test.store.status("example.test/app:1").unwrap(), None);
    assert!(test.store.status("mine").unwrap().unwrap().pinned, "no registry need have it");
    let bad = test.store.import(source(), &["UPPER".to_owned()]).await;
    assert!(matches!(bad, Err(PullError::InvalidName { .. })));
    let digest = test.store.import(source(), &[format!("x@{}", Digest::sha256(b""))]).await;
    assert!(matches!(digest, Err(PullError::InvalidName { .. })));
}

#[tokio::test]
async fn an_image_without_a_name_is_found_by_its_id() {
    needs_root!("an_image_without_a_name_is_found_by_its_id");
    let test = TestStore::new();
    let image = image(1);
    let id = test.import(&image).await.unwrap();
    assert_eq!(id.0, image.id());
    let short = &image.id()["sha256:".len()..][..12];
    for name in [image.id(), &image.id()["sha256:".len()..], short, &format!("sha256:{short}")] {
        assert_eq!(test.store.status(name).unwrap().unwrap().id, id, "{name}");
    }
    assert_eq!(test.store.status("ffffffffffff").unwrap(), None);
}

/// Rewrites one file of a layout.
fn tamper(test: &TestStore, image: &Image, change: impl Fn(&std::path::Path)) -> ImportSource {
    let layout = test.state.root().join("layout");
    image.write_oci_layout(&layout).unwrap();
    change(&layout);
    ImportSource::Path(layout)
}

#[tokio::test]
async fn wrong_content_is_refused() {
    needs_root!("wrong_content_is_refused");
    let image = image(2);
    let blob = |digest: &str| format!("blobs/{}", digest.replace(':', "/"));
    let other = crate::helpers::image(3);
    for (name, file, bytes) in [
        ("manifest", blob(image.digest()), other.manifest.bytes.clone()),
        ("configuration", blob(image.id()), other.config.bytes.clone()),
        ("layer", blob(&image.layers[0].digest), image.layers[1].bytes.clone()),
        ("cut layer", blob(&image.layers[0].digest), image.layers[0].bytes[..20].to_vec()),
        ("longer layer", blob(&image.layers[0].digest), [&image.layers[0].bytes[..], b"\0"].concat()),
    ] {
        let test = TestStore::new();
        let source = tamper(&test, &image, |layout| std::fs::write(layout.join(&file), &bytes).unwrap());
        let error = test.store.import(source, &[]).await.unwrap_err();
        assert!(matches!(error, PullError::DigestMismatch { .. }), "{name}: {error}");
        assert_eq!(test.names("images"), [""; 0], "{name}");
        test.assert_tidy();
    }
    for (name, file) in [("manifest", blob(image.digest())), ("layer", blob(&image.layers[1].digest))] {
        let test = TestStore::new();
        let source = tamper(&test, &image, |layout| std::fs::remove_file(layout.join(&file)).unwrap());
        let error = test.store.import(source, &[]).await.unwrap_err();
        assert!(
            matches!(&error, PullError::BadContent { message, .. } if message.contains("missing")),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn a_wrong_diff_id_is_refused() {
    needs_root!("a_wrong_diff_id_is_refused");
    let wrong = ImageBuilder::new()
        .layer(Layer::new().file("a", 0o644, "a"))
        .diff_ids([Digest::sha256(b"something else").to_string()])
        .build();
    let test = TestStore::new();
    let error = test.import(&wrong).await.unwrap_err();
    assert!(matches!(&error, PullError::DigestMismatch { message, .. } if message.contains("uncompressed")), "{error}");
    let docker = ImportSource::Stream(Box::new(std::io::Cursor::new(wrong.docker_archive())));
    assert!(matches!(test.store.import(docker, &[]).await, Err(PullError::DigestMismatch { .. })));
    let fewer = ImageBuilder::new().layer(Layer::new()).diff_ids([""; 0]).build();
    assert!(matches!(test.import(&fewer).await, Err(PullError::BadContent { .. })));
    assert_eq!(test.names("layers"), [""; 0]);
}

#[tokio::test]
async fn another_platform_is_refused_with_what_there_is() {
    needs_root!("another_platform_is_refused_with_what_there_is");
    let foreign = ImageBuilder::new().platform(Platform::new("linux", "s390x", None)).layer(Layer::new()).build();
    let test = TestStore::new();
    let error = test.import(&foreign).await.unwrap_err();
    assert!(matches!(&error, PullError::NoPlatform { available, .. } if available == "linux/s390x"), "{error}");
    // One layout with an index of several.
    let ours = image(1);
    let index = ImageIndex::new(vec![foreign.clone(), ours.clone()]);
    let layout = test.state.root().join("multi");
    ours.write_oci_layout(&layout).unwrap();
    foreign.write_oci_layout(&layout).unwrap();
    std::fs::write(layout.join("index.json"), &index.index.bytes).unwrap();
    let imported = test.store.import(ImportSource::Path(layout), &["multi".to_owned()]).await.unwrap();
    assert_eq!(imported[0].id.0, ours.id());
}

#[tokio::test]
async fn what_is_no_image_is_refused_with_words() {
    needs_root!("what_is_no_image_is_refused_with_words");
    let test = TestStore::new();
    let empty = Layer::new().file("README", 0o644, "hello").tar();
    for (bytes, words) in [(empty, "neither index.json"), (b"hello".to_vec(), "middle"), (vec![], "neither index.json")]
    {
        let stream = ImportSource::Stream(Box::new(std::io::Cursor::new(bytes)));
        let error = test.store.import(stream, &[]).await.unwrap_err();
        assert!(matches!(&error, PullError::BadContent { message, .. } if message.contains(words)), "{error}");
    }
    let missing = test.store.import(ImportSource::Path("/nonexistent/file".into()), &[]).await.unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/file"));
    test.assert_tidy();
}
