//! Pulls from a registry on loopback that is told to misbehave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use minke_core::runtime::{Credential, PullError, PullProgress, PullRequest};
use minke_oci::image::{ImageStore, Keep, PullConfig, StoreConfig};
use minke_testkit::registry::{Access, Fault, On};
use minke_testkit::{Compression, Image, ImageBuilder, ImageIndex, Layer, Platform, Registry};

use crate::helpers::{TestStore, config, image, needs_root, noise, request, with_login};

#[derive(Default)]
struct Recorder(Mutex<Vec<(String, u64, u64)>>);

impl PullProgress for Recorder {
    fn layer(&self, digest: &str, done: u64, total: u64) {
        self.0.lock().unwrap().push((digest.to_owned(), done, total));
    }
}

#[tokio::test]
async fn an_image_is_pulled_and_known_by_all_its_names() {
    needs_root!("an_image_is_pulled_and_known_by_all_its_names");
    let registry = Registry::start().await.unwrap();
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let test = TestStore::new();
        let image = ImageBuilder::new()
            .compression(compression)
            .layer(Layer::new().file("a", 0o644, noise(300_000)))
            .layer(Layer::new().file("b", 0o644, "b"))
            .build();
        let name = registry.push("team/app", "1", &image);
        let progress = Arc::new(Recorder::default());
        let pull = PullRequest { progress: progress.clone(), ..request(&name) };
        let id = test.store.pull(&pull).await.unwrap();
        assert_eq!(id.0, image.id());
        let status = test.store.status(&name).unwrap().unwrap();
        assert_eq!(status.tags, [name.as_str()]);
        assert!(!status.pinned, "it can be fetched again");
        let by_digest = format!("{}/team/app@{}", registry.host(), image.digest());
        assert_eq!(status.digests, [by_digest.as_str()]);
        assert_eq!(test.store.status(&by_digest).unwrap().unwrap().id, id);
        let layers = test.store.layers(&id).unwrap();
        assert_eq!(std::fs::read(layers[0].join("a")).unwrap(), noise(300_000));
        let seen = progress.0.lock().unwrap();
        for layer in &image.layers {
            let size = layer.bytes.len() as u64;
            assert!(seen.contains(&(layer.digest.clone(), size, size)), "{compression:?}");
        }
        test.assert_tidy();
    }
}

#[tokio::test]
async fn a_second_pull_asks_for_the_manifest_only() {
    needs_root!("a_second_pull_asks_for_the_manifest_only");
    let registry = Registry::start().await.unwrap();
    let (first, second) = (image(2), image(3));
    let name = registry.push("app", "1", &first);
    let test = TestStore::new();
    test.store.pull(&request(&name)).await.unwrap();
    registry.forget_requests();
    test.store.pull(&request(&name)).await.unwrap();
    let paths: Vec<String> = registry.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v2/app/manifests/1"]);
    // A newer image under the name: only what is new is fetched.
    registry.push("app", "1", &second);
    test.store.pull(&request(&name)).await.unwrap();
    assert_eq!(registry.blob_requests(&second.layers[0].digest), 0);
    assert_eq!(registry.blob_requests(&second.layers[2].digest), 1);
    assert_eq!(test.store.status(&name).unwrap().unwrap().id.0, second.id());
}

#[tokio::test]
async fn a_pinned_digest_gets_exactly_that_and_moves_no_tag() {
    needs_root!("a_pinned_digest_gets_exactly_that_and_moves_no_tag");
    let registry = Registry::start().await.unwrap();
    let (old, new) = (image(1), image(2));
    registry.push("app", "1", &old);
    let name = registry.push("app", "1", &new);
    let test = TestStore::new();
    let pinned = format!("{name}@{}", old.digest());
    assert_eq!(test.store.pull(&request(&pinned)).await.unwrap().0, old.id());
    assert_eq!(test.store.status(&pinned).unwrap().unwrap().tags, [""; 0]);
    assert_eq!(test.store.status(&name).unwrap(), None);
}

#[tokio::test]
async fn the_variant_for_this_machine_is_taken() {
    needs_root!("the_variant_for_this_machine_is_taken");
    let registry = Registry::start().await.unwrap();
    let variant = |platform: Platform| {
        ImageBuilder::new()
            .layer(Layer::new().file("platform", 0o644, format!("{platform:?}")))
            .platform(platform)
            .build()
    };
    let ours = variant(Platform::host());
    let foreign = variant(Platform::new("linux", "s390x", None));
    let windows = variant(Platform::new("windows", "amd64", None));
    let test = TestStore::new();
    let index = ImageIndex::new(vec![foreign.clone(), windows.clone(), ours.clone()]);
    let name = registry.push_index("multi", "1", &index);
    let id = test.store.pull(&request(&name)).await.unwrap();
    assert_eq!(id.0, ours.id());
    let digests = test.store.status(&name).unwrap().unwrap().digests;
    assert_eq!(digests, [format!("{}/multi@{}", registry.host(), index.index.digest)], "the digest of the index");
    let name = registry.push_index("multi", "2", &ImageIndex::new(vec![foreign.clone(), windows]));
    let error = test.store.pull(&request(&name)).await.unwrap_err();
    assert!(
        matches!(&error, PullError::NoPlatform { available, .. } if available == "linux/s390x, windows/amd64"),
        "{error}"
    );
    // A manifest without an index: its configuration tells.
    let name = registry.push("single", "1", &foreign);
    let error = test.store.pull(&request(&name)).await.unwrap_err();
    assert!(matches!(&error, PullError::NoPlatform { available, .. } if available == "linux/s390x"), "{error}");
    assert_eq!(registry.blob_requests(&foreign.layers[0].digest), 0);
}

#[tokio::test]
async fn wrong_names_and_missing_images_are_told_apart() {
    let registry = Registry::start().await.unwrap();
    let test = TestStore::new();
    registry.push("app", "1", &image(1));
    let name = |text: &str| format!("{}/{text}", registry.host());
    for (image, expected) in [
        ("Not A Name".to_owned(), "not an image name"),
        (name("app:2"), "does not exist"),
        (name("other:1"), "does not exist"),
        (name(&format!("app@sha256:{}", "0".repeat(64))), "does not exist"),
        // Nobody listens on port 1.
        ("127.0.0.1:1/app".to_owned(), "can't be reached"),
    ] {
        let error = test.store.pull(&request(&image)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{image}: {error}");
    }
}

#[tokio::test]
async fn manifests_that_are_no_images_are_refused() {
    let registry = Registry::start().await.unwrap();
    let test = TestStore::new();
    let oci = "application/vnd.oci.image.manifest.v1+json";
    let good = String::from_utf8(image(1).manifest.bytes).unwrap();
    let many = String::from_utf8(image(501).manifest.bytes).unwrap();
    for (text, words) in [
        (r#"{"schemaVersion":1,"fsLayers":[],"history":[]}"#.to_owned(), "schema 1"),
        ("not json".to_owned(), "malformed"),
        (good.replace("image.config.v1", "helm.config.v1"), "no container image"),
        (good.replace("layer.v1.tar", "layer.nondistributable.v1.tar"), "registries don't hold"),
        (good.replace("layer.v1.tar+gzip", "layer.v1.tar+encrypted"), "not a file system layer"),
        (good.replace("\"schemaVersion\":2", "\"schemaVersion\":2,\"manifests\":[]"), "at once"),
        (many, "at most 500"),
        ("x".repeat(5 << 20), "larger than"),
    ] {
        let name = registry.push_manifest("bad", "1", oci, text.as_bytes());
        let error = test.store.pull(&request(&name)).await.unwrap_err();
        assert!(matches!(&error, PullError::BadContent { message, .. } if message.contains(words)), "{words}: {error}");
    }
    // An index that contains itself can't be made, but a deep one can.
    let index = |digest: &str, size: usize| {
        format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.index.v1+json",
               "digest":"{digest}","size":{size}}}]}}"#
        )
    };
    let mut text = r#"{"schemaVersion":2,"manifests":[]}"#.to_owned();
    for _ in 0..6 {
        registry.push_manifest("deep", "1", "application/vnd.oci.image.index.v1+json", text.as_bytes());
        text = index(&minke_oci::image::Digest::sha256(text.as_bytes()).to_string(), text.len());
    }
    let name = registry.push_manifest("deep", "1", "application/vnd.oci.image.index.v1+json", text.as_bytes());
    let error = test.store.pull(&request(&name)).await.unwrap_err();
    assert!(error.to_string().contains("nested"), "{error}");
}

#[tokio::test]
async fn content_that_does_not_match_is_refused() {
    needs_root!("content_that_does_not_match_is_refused");
    let image = image(2);
    let other = noise(image.layers[0].bytes.len());
    type Lie<'a> = Box<dyn Fn(&Registry) + 'a>;
    let lies: [(&str, Lie<'_>); 5] = [
        ("manifest", Box::new(|registry| registry.fail(On::Manifests, 1, Fault::Corrupt))),
        ("configuration", Box::new(|registry| registry.replace_blob("app", image.id(), b"{}"))),
        ("layer", Box::new(|registry| registry.replace_blob("app", &image.layers[0].digest, &other))),
        ("short layer", Box::new(|registry| registry.replace_blob("app", &image.layers[0].digest, &other[1..]))),
        (
            "endless layer",
            Box::new(|registry| registry.fail(On::Blob(image.layers[1].digest.clone()), 9, Fault::Endless)),
        ),
    ];
    for (what, lie) in lies {
        let registry = Registry::start().await.unwrap();
        let name = registry.push("app", "1", &image);
        lie(&registry);
        let test = TestStore::new();
        let error = test.store.pull(&request(&name)).await.unwrap_err();
        assert!(matches!(error, PullError::DigestMismatch { .. }), "{what}: {error}");
        assert_eq!(test.store.list().unwrap(), [], "{what}");
        assert_eq!(test.store.status(&name).unwrap(), None, "{what}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_continued_where_it_broke() {
    needs_root!("a_broken_connection_is_continued_where_it_broke");
    let content = noise(3 << 20);
    let image = ImageBuilder::new().layer(Layer::new().file("f", 0o644, &content)).build();
    let digest = &image.layers[0].digest;
    let registry = Registry::start().await.unwrap();
    let name = registry.push("app", "1", &image);
    let test = TestStore::new();
    registry.fail(On::Blob(digest.clone()), 3, Fault::CutAfter(800_000));
    let id = test.store.pull(&request(&name)).await.unwrap();
    assert_eq!(std::fs::read(test.store.layers(&id).unwrap()[0].join("f")).unwrap(), content);
    let asked: Vec<_> =
        registry.requests().into_iter().filter(|r| r.path.ends_with(digest.as_str())).map(|r| r.range).collect();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[0], None);
    assert!(asked[1..].iter().all(|range| range.as_ref().is_some_and(|range| range != "bytes=0-")), "{asked:?}");

    // A registry that knows no ranges.
    let test = TestStore::new();
    registry.fail(On::Blob(digest.clone()), 1, Fault::CutAfter(800_000));
    registry.fail(On::Blob(digest.clone()), 1, Fault::IgnoreRange);
    let id = test.store.pull(&request(&name)).await.unwrap();
    assert_eq!(std::fs::read(test.store.layers(&id).unwrap()[0].join("f")).unwrap(), content);
}

#[tokio::test]
async fn passing_troubles_are_sat_out() {
    needs_root!("passing_troubles_are_sat_out");
    let image = image(2);
    for (name, on, fault) in [
        ("manifest 500", On::Manifests, Fault::Status(500)),
        ("manifest hangup", On::Manifests, Fault::Hangup),
        ("blob 503", On::Blobs, Fault::Status(503)),
        ("blob hangup", On::Blobs, Fault::Hangup),
        ("blob cut at once", On::Blobs, Fault::CutAfter(0)),
        ("rate limit for a moment", On::Manifests, Fault::RateLimit(0)),
        ("slow", On::Blobs, Fault::Slow { chunk: 20, pause: Duration::from_millis(2) }),
    ] {
        let registry = Registry::start().await.unwrap();
        let reference = registry.push("app", "1", &image);
        registry.fail(on, 2, fault);
        let test = TestStore::new();
        let result = test.store.pull(&request(&reference)).await;
        assert!(result.is_ok(), "{name}: {result:?}");
        test.assert_tidy();
    }
}

#[tokio::test]
async fn lasting_troubles_are_reported_as_what_they_are() {
    needs_root!("lasting_troubles_are_reported_as_what_they_are");
    let image = image(2);
    let kind = |error: &PullError| match error {
        PullError::Network { .. } => "network",
        PullError::RateLimited { .. } => "rate",
        PullError::Denied { .. } => "denied",
        PullError::NotFound { .. } => "not found",
        PullError::DigestMismatch { .. } => "digest",
        PullError::InvalidName { .. }
        | PullError::NoPlatform { .. }
        | PullError::BadContent { .. }
        | PullError::Storage { .. } => "other",
    };
    for (on, fault, expected) in [
        (On::Any, Fault::Status(500), "network"),
        (On::Any, Fault::Hangup, "network"),
        (On::Blobs, Fault::Status(502), "network"),
        (On::Blobs, Fault::StallAfter(10), "network"),
        (On::Any, Fault::StallAfter(0), "network"),
        (On::Manifests, Fault::RateLimit(3600), "rate"),
        (On::Blobs, Fault::RateLimit(3600), "rate"),
        (On::Manifests, Fault::Status(403), "denied"),
        (On::Blobs, Fault::Status(403), "denied"),
        (On::Manifests, Fault::Status(404), "not found"),
        (On::Blobs, Fault::Status(404), "not found"),
        (On::Manifests, Fault::Status(400), "network"),
    ] {
        let registry = Registry::start().await.unwrap();
        let reference = registry.push("app", "1", &image);
        registry.fail(on.clone(), usize::MAX, fault.clone());
        let pull = PullConfig { patience: Duration::from_millis(200), ..config().pull };
        let test = TestStore::with(StoreConfig { pull, ..config() });
        let error = test.store.pull(&request(&reference)).await.unwrap_err();
        assert_eq!(kind(&error), expected, "{on:?} {fault:?}: {error}");
        assert_eq!(test.store.list().unwrap(), []);
    }
}

#[tokio::test]
async fn finished_layers_survive_a_pull_that_failed() {
    needs_root!("finished_layers_survive_a_pull_that_failed");
    let image = image(2);
    let registry = Registry::start().await.unwrap();
    let name = registry.push("app", "1", &image);
    let pull = PullConfig { parallel_layers: 1, ..config().pull };
    let test = TestStore::with(StoreConfig { pull, ..config() });
    registry.fail(On::Blob(image.layers[1].digest.clone()), 1, Fault::Status(403));
    test.store.pull(&request(&name)).await.unwrap_err();
    assert_eq!(test.names("layers").len(), 1);
    test.store.pull(&request(&name)).await.unwrap();
    assert_eq!(registry.blob_requests(&image.layers[0].digest), 1);
    test.assert_tidy();
}

fn private() -> Access {
    Access::Bearer {
        user: "user".into(),
        password: "right".into(),
        identity_token: Some("identity".into()),
        public: vec!["public".into()],
    }
}

#[tokio::test]
async fn logins_open_what_they_should() {
    needs_root!("logins_open_what_they_should");
    let basic = || Access::Basic { user: "user".into(), password: "right".into() };
    let identity = |name: &str, token: &str| PullRequest {
        credentials: vec![Credential::IdentityToken(token.into())],
        ..request(name)
    };
    for access in [basic(), private()] {
        let registry = Registry::with_access(access.clone()).await.unwrap();
        let name = registry.push("app", "1", &image(2));
        let test = TestStore::new();
        for (pull, allowed) in [
            (request(&name), false),
            (with_login(&name, "user", "wrong"), false),
            (with_login(&name, "user", "right"), true),
            // After the right one: nothing of it may be left.
            (with_login(&name, "user", "wrong"), false),
            (request(&name), false),
        ] {
            let result = test.store.pull(&pull).await;
            match (&result, allowed) {
                (Ok(_), true) | (Err(PullError::Denied { .. }), false) => {}
                _ => panic!("{access:?} {pull:?}: {result:?}"),
            }
        }
        // Several logins are tried in order.
        let test = TestStore::new();
        let mut several = with_login(&name, "user", "wrong");
        several.credentials.extend(with_login(&name, "user", "right").credentials);
        test.store.pull(&several).await.unwrap();
        if access == private() {
            test.store.pull(&identity(&name, "identity")).await.unwrap();
            assert!(matches!(test.store.pull(&identity(&name, "other")).await, Err(PullError::Denied { .. })));
            let public = registry.push("public", "1", &image(1));
            test.store.pull(&request(&public)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn pods_at_the_same_time_never_share_a_login() {
    needs_root!("pods_at_the_same_time_never_share_a_login");
    let registry = Registry::with_access(private()).await.unwrap();
    let name = registry.push("app", "1", &image(3));
    let test = TestStore::new();
    let pulls = (0..30).map(|index| match index % 3 {
        0 => (true, with_login(&name, "user", "right")),
        1 => (false, with_login(&name, "user", "wrong")),
        _ => (false, request(&name)),
    });
    let tasks: Vec<_> = pulls
        .map(|(allowed, pull)| {
            let store = test.store.clone();
            (allowed, tokio::spawn(async move { store.pull(&pull).await }))
        })
        .collect();
    for (allowed, task) in tasks {
        let result = task.await.unwrap();
        match (&result, allowed) {
            (Ok(_), true) | (Err(PullError::Denied { .. }), false) => {}
            _ => panic!("{allowed}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn the_machines_own_logins_are_used_when_a_pod_has_none() {
    needs_root!("the_machines_own_logins_are_used_when_a_pod_has_none");
    let registry = Registry::with_access(private()).await.unwrap();
    let name = registry.push("app", "1", &image(1));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.json");
    let text = serde_json::json!({ "auths": { registry.host(): { "username": "user", "password": "right" } } });
    std::fs::write(&file, text.to_string()).unwrap();
    let pull = PullConfig { docker_configs: Some(vec![file]), ..config().pull };
    let test = TestStore::with(StoreConfig { pull, ..config() });
    test.store.pull(&request(&name)).await.unwrap();
    // A Pod with logins of its own uses those only.
    let result = test.store.pull(&with_login(&name, "user", "wrong")).await;
    assert!(matches!(result, Err(PullError::Denied { .. })));
    // A wrong login of the machine does not lock out of public images.
    let public = registry.push("public", "1", &image(1));
    test.store.pull(&request(&public)).await.unwrap();
}

#[tokio::test]
async fn secrets_are_in_no_error_and_no_debug_text() {
    let registry = Registry::with_access(private()).await.unwrap();
    let name = registry.push("app", "1", &image(1));
    let test = TestStore::new();
    let pull = with_login(&name, "user", "hunter2");
    let error = test.store.pull(&pull).await.unwrap_err();
    let texts = format!("{error} {error:?} {pull:?} {:?}", test.store);
    assert!(!texts.contains("hunter2"), "{texts}");
    // user:hunter2
    assert!(!texts.contains("dXNlcjpodW50ZXIy"), "{texts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pods_that_want_one_image_fetch_it_once() {
    needs_root!("many_pods_that_want_one_image_fetch_it_once");
    let registry = Registry::start().await.unwrap();
    let image = image(4);
    let name = registry.push("app", "1", &image);
    let test = TestStore::new();
    // A second handle of the store stands for a second process.
    let second = ImageStore::open(&test.root(), config()).unwrap();
    registry.fail(On::Blobs, 4, Fault::Slow { chunk: 30, pause: Duration::from_millis(5) });
    let tasks: Vec<_> = (0..50)
        .map(|index| {
            let store = if index % 2 == 0 { test.store.clone() } else { second.clone() };
            let pull = request(&name);
            tokio::spawn(async move { store.pull(&pull).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().0, image.id());
    }
    for layer in &image.layers {
        assert_eq!(registry.blob_requests(&layer.digest), 1);
    }
    test.assert_tidy();
}

#[tokio::test]
async fn a_layer_that_an_image_has_twice_is_fetched_once() {
    needs_root!("a_layer_that_an_image_has_twice_is_fetched_once");
    let registry = Registry::start().await.unwrap();
    let layer = || Layer::new().file("same", 0o644, "same");
    let dependent = || Layer::new().file("no/directory/entry", 0o644, "x");
    let image = ImageBuilder::new().layer(layer()).layer(dependent()).layer(layer()).layer(dependent()).build();
    let name = registry.push("app", "1", &image);
    let test = TestStore::new();
    let id = test.store.pull(&request(&name)).await.unwrap();
    let layers = test.store.layers(&id).unwrap();
    assert_eq!(layers[0], layers[2]);
    assert_ne!(layers[1], layers[3], "each stands on a chain of its own");
    assert_eq!(registry.blob_requests(&image.layers[0].digest), 1);
    test.assert_tidy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_pull_leaves_nothing_and_can_be_made_again() {
    needs_root!("a_dropped_pull_leaves_nothing_and_can_be_made_again");
    let registry = Registry::start().await.unwrap();
    let image = ImageBuilder::new().layer(Layer::new().file("f", 0o644, noise(1 << 20))).build();
    let name = registry.push("app", "1", &image);
    let test = TestStore::new();
    registry.fail(On::Blobs, 2, Fault::StallAfter(500_000));
    let store = test.store.clone();
    let pull = request(&name);
    let task = tokio::spawn(async move { store.pull(&pull).await });
    while registry.blob_requests(&image.layers[0].digest) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task.abort();
    // The thread that unpacks sees the end of its bytes, and cleans up.
    for _ in 0..400 {
        if test.names("tmp").is_empty() && test.names("locks").is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    test.assert_tidy();
    assert_eq!(test.names("layers"), [""; 0]);
    let registry = Registry::start().await.unwrap();
    let name = registry.push("app", "1", &image);
    test.store.pull(&request(&name)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_and_pulling_at_once_loses_nothing() {
    needs_root!("pruning_and_pulling_at_once_loses_nothing");
    let registry = Registry::start().await.unwrap();
    let images: Vec<Image> = (1..5).map(image).collect();
    let names: Vec<String> =
        images.iter().enumerate().map(|(index, image)| registry.push("app", &index.to_string(), image)).collect();
    let test = TestStore::new();
    let pruner = ImageStore::open(&test.root(), config()).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let prune = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || {
            let mut rounds = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                pruner.prune(&|_| false, Keep::Nothing).unwrap();
                rounds += 1;
            }
            rounds
        })
    };
    for round in 0..10 {
        for (name, image) in names.iter().zip(&images) {
            let id = test.store.pull(&request(name)).await.unwrap();
            assert_eq!(id.0, image.id());
            // Either it is gone as a whole, or it is there as a whole.
            if let Ok(lease) = test.store.lease(&id) {
                for (index, layer) in lease.layers.iter().enumerate() {
                    assert!(layer.join(format!("file-{index}")).is_file(), "round {round}");
                }
            }
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(prune.await.unwrap() > 0);
    test.assert_tidy();
}
