//! Several processes on one store, and processes that are killed.
//!
//! A child is this test binary again, running only the ignored test [`child`].

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use minke_oci::image::{ImageStore, Keep};
use minke_testkit::registry::{Fault, On};
use minke_testkit::{Image, ImageBuilder, Layer, Registry};

use crate::helpers::{TestStore, config, needs_root, noise, request};

const STORE: &str = "MK_IMAGES_TEST_STORE";
const IMAGE: &str = "MK_IMAGES_TEST_IMAGE";

#[test]
#[ignore = "the child process of other tests"]
fn child() {
    let (Ok(root), Ok(image)) = (std::env::var(STORE), std::env::var(IMAGE)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = ImageStore::open(root.as_ref(), config()).unwrap();
        store.pull(&request(&image)).await.unwrap();
    });
}

fn spawn(root: &Path, image: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--ignored"])
        .env(STORE, root)
        .env(IMAGE, image)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

async fn wait(mut child: Child) -> bool {
    tokio::task::spawn_blocking(move || child.wait().unwrap().success()).await.unwrap()
}

fn big(layers: usize) -> Image {
    let data = noise(400_000);
    (0..layers)
        .fold(ImageBuilder::new(), |image, index| {
            let name = |part: usize| format!("l{index}/f{part}");
            let layer =
                data.chunks(40_000).enumerate().fold(Layer::new().dir(format!("l{index}"), 0o755), |l, (p, d)| {
                    l.file(name(p), 0o644, [&[index as u8], d].concat())
                });
            image.layer(layer)
        })
        .build()
}

/// Every file of every layer is as it was made.
fn assert_whole(store: &ImageStore, image: &Image, layers: usize) {
    let status = store.status(image.id()).unwrap().unwrap();
    let trees = store.layers(&status.id).unwrap();
    let data = noise(400_000);
    assert_eq!(trees.len(), layers);
    for (index, tree) in trees.iter().enumerate() {
        for (part, chunk) in data.chunks(40_000).enumerate() {
            let found = std::fs::read(tree.join(format!("l{index}/f{part}"))).unwrap();
            assert!(found[0] == index as u8 && found[1..] == *chunk, "layer {index} file {part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_fetch_each_layer_once() {
    needs_root!("two_processes_fetch_each_layer_once");
    let registry = Registry::start().await.unwrap();
    let image = big(3);
    let name = registry.push("app", "1", &image);
    // Slow enough for both to be at it.
    registry.fail(On::Blobs, usize::MAX, Fault::Slow { chunk: 50_000, pause: Duration::from_millis(20) });
    let test = TestStore::new();
    let children = [spawn(&test.root(), &name), spawn(&test.root(), &name)];
    for child in children {
        assert!(wait(child).await);
    }
    for layer in &image.layers {
        assert_eq!(registry.blob_requests(&layer.digest), 1);
    }
    assert_whole(&test.store, &image, 3);
    test.assert_tidy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_killed_at_any_moment_leaves_a_store_that_works() {
    needs_root!("a_pull_killed_at_any_moment_leaves_a_store_that_works");
    let registry = Registry::start().await.unwrap();
    let image = big(3);
    let name = registry.push("app", "1", &image);
    registry.fail(On::Blobs, usize::MAX, Fault::Slow { chunk: 60_000, pause: Duration::from_millis(3) });
    let test = TestStore::new();
    let mut killed_at_work = 0;
    for round in 0..40_u64 {
        let mut child = spawn(&test.root(), &name);
        // Spread over the life of a pull: from before it opens the store until after it is done.
        tokio::time::sleep(Duration::from_millis(3 + round * 4)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        killed_at_work += usize::from(!test.names("tmp").is_empty());
        // The next process sees a consistent store: an image that is listed is whole.
        let store = ImageStore::open(&test.root(), config()).unwrap();
        assert_eq!(test.names("tmp"), [""; 0], "round {round}");
        if store.status(&name).unwrap().is_some() {
            assert_whole(&store, &image, 3);
            store.remove(&name, &|_| false).unwrap();
        }
        if round % 4 == 3 {
            // Without what earlier rounds finished, so that all of a pull is hit.
            store.prune(&|_| false, Keep::Nothing).unwrap();
            assert_eq!(test.names("layers"), [""; 0], "round {round}");
        }
    }
    assert!(killed_at_work > 5, "only {killed_at_work} pulls were killed at work");
    assert!(wait(spawn(&test.root(), &name)).await);
    assert_whole(&test.store, &image, 3);
    test.store.prune(&|_| false, Keep::Nothing).unwrap();
    for dir in ["images", "names", "layers", "tmp"] {
        assert_eq!(test.names(dir), [""; 0], "{dir}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_process_goes_on_when_the_one_it_waits_for_dies() {
    needs_root!("a_waiting_process_goes_on_when_the_one_it_waits_for_dies");
    let registry = Registry::start().await.unwrap();
    let image = big(1);
    let name = registry.push("app", "1", &image);
    // The first request for the layer stalls: that of the child, which holds the layer's lock by then.
    let layer = &image.layers[0].digest;
    registry.fail(On::Blob(layer.clone()), 1, Fault::StallAfter(100_000));
    let test = TestStore::new();
    let mut first = spawn(&test.root(), &name);
    while registry.blob_requests(layer) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let store = test.store.clone();
    let pull = request(&name);
    let second = tokio::spawn(async move { store.pull(&pull).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!second.is_finished());
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.await.unwrap().unwrap().0, image.id());
    assert_whole(&test.store, &image, 1);
}
