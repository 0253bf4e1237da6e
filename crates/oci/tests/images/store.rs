//! Names, removal, pruning, leases.

use minke_core::runtime::ImageId;
use minke_oci::image::{ImageStore, ImportSource, Keep, StoreError};
use minke_testkit::{Image, ImageBuilder, Layer};

use crate::helpers::{TestStore, config, image, needs_root};

async fn import(test: &TestStore, image: &Image, names: &[&str]) -> ImageId {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let stream = ImportSource::Stream(Box::new(std::io::Cursor::new(image.oci_archive())));
    test.store.import(stream, &names).await.unwrap().remove(0).id
}

fn unused(_: &ImageId) -> bool {
    false
}

#[tokio::test]
async fn a_name_moves_to_the_newer_image() {
    needs_root!("a_name_moves_to_the_newer_image");
    let test = TestStore::new();
    let old = import(&test, &image(1), &["app:1"]).await;
    let new = import(&test, &image(2), &["app:1", "app:2"]).await;
    assert_eq!(test.store.status("app:1").unwrap().unwrap().id, new);
    assert_eq!(test.store.status(&old.0).unwrap().unwrap().tags, [""; 0]);
    assert_eq!(test.store.list().unwrap().len(), 2);
    let pruned = test.store.prune(&unused, Keep::Tagged).unwrap();
    assert_eq!(pruned.images, [old]);
    assert_eq!(pruned.layers, 0, "its layer is the newer one's too");
    assert_eq!(test.store.status("app").unwrap(), None, "there is no latest");
}

#[tokio::test]
async fn the_last_name_takes_the_image_with_it() {
    needs_root!("the_last_name_takes_the_image_with_it");
    let test = TestStore::new();
    let id = import(&test, &image(2), &["app:1", "app:2"]).await;
    assert_eq!(test.store.remove("app:1", &|_| true).unwrap().images, [], "another name keeps it, used or not");
    assert!(matches!(test.store.remove("app:2", &|_| true), Err(StoreError::InUse { .. })));
    assert!(test.store.status("app:2").unwrap().is_some(), "a refused removal takes nothing");
    let removed = test.store.remove("app:2", &unused).unwrap();
    assert_eq!((removed.images, removed.layers), (vec![id], 2));
    assert_eq!(test.store.remove("app:2", &unused).unwrap().images, [], "idempotent");
    for dir in ["images", "names", "layers"] {
        assert_eq!(test.names(dir), [""; 0], "{dir}");
    }
    test.assert_tidy();
}

#[tokio::test]
async fn an_id_takes_all_names() {
    needs_root!("an_id_takes_all_names");
    let test = TestStore::new();
    let id = import(&test, &image(1), &["a", "b"]).await;
    assert!(matches!(test.store.remove(&id.0, &|used| *used == id), Err(StoreError::InUse { .. })));
    test.store.remove(&id.0[7..19], &unused).unwrap();
    assert_eq!(test.store.list().unwrap(), []);
    assert_eq!(test.names("names"), [""; 0]);
}

#[tokio::test]
async fn layers_are_shared_and_go_with_their_last_image() {
    needs_root!("layers_are_shared_and_go_with_their_last_image");
    let test = TestStore::new();
    import(&test, &image(3), &["three"]).await;
    import(&test, &image(5), &["five"]).await;
    assert_eq!(test.names("layers").len(), 5);
    let before = test.store.fs_info().unwrap();
    test.store.remove("five", &unused).unwrap();
    assert_eq!(test.names("layers").len(), 3);
    let after = test.store.fs_info().unwrap();
    assert!(after.used_bytes < before.used_bytes && after.used_inodes < before.used_inodes);
    assert!(after.available_bytes <= after.capacity_bytes && after.capacity_bytes > 0);
    assert!(test.store.status("three").unwrap().unwrap().size_bytes >= 3);
}

#[tokio::test]
async fn prune_leaves_what_is_used() {
    needs_root!("prune_leaves_what_is_used");
    let test = TestStore::new();
    let used = import(&test, &image(1), &["used"]).await;
    let idle = import(&test, &image(2), &["idle"]).await;
    let other = ImageBuilder::new().layer(Layer::new().file("z", 0o644, "z")).build();
    let nameless = import(&test, &other, &[]).await;
    let pruned = test.store.prune(&|id| *id == used, Keep::Tagged).unwrap();
    assert_eq!(pruned.images, [nameless]);
    assert!(pruned.bytes > 0);
    let pruned = test.store.prune(&|id| *id == used, Keep::Nothing).unwrap();
    assert_eq!(pruned.images, [idle]);
    assert_eq!(test.store.list().unwrap().len(), 1);
    assert!(test.store.layers(&used).unwrap()[0].join("file-0").is_file());
    assert_eq!(test.names("names").len(), 1);
    test.assert_tidy();
}

#[tokio::test]
async fn a_lease_keeps_an_image_from_every_store() {
    needs_root!("a_lease_keeps_an_image_from_every_store");
    let test = TestStore::new();
    let id = import(&test, &image(2), &["app"]).await;
    let lease = test.store.lease(&id).unwrap();
    assert_eq!(lease.layers, test.store.layers(&id).unwrap());
    assert_eq!(lease.config.cmd, ["/bin/true"]);
    // Another handle stands for another process: locks belong to open files, not to processes.
    let other = ImageStore::open(&test.root(), config()).unwrap();
    assert_eq!(other.prune(&unused, Keep::Nothing).unwrap().images, []);
    assert!(matches!(other.remove("app", &unused), Err(StoreError::InUse { .. })));
    assert!(lease.layers.iter().all(|layer| layer.is_dir()));
    drop(lease);
    assert_eq!(other.prune(&unused, Keep::Nothing).unwrap().images, std::slice::from_ref(&id));
    assert!(matches!(test.store.lease(&id), Err(StoreError::NotFound { .. })));
    assert!(matches!(test.store.image_config(&id), Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn what_dead_processes_left_is_swept_and_what_live_ones_do_is_not() {
    needs_root!("what_dead_processes_left_is_swept_and_what_live_ones_do_is_not");
    let test = TestStore::new();
    let dead = test.root().join("tmp/work-dead/fs");
    std::fs::create_dir_all(&dead).unwrap();
    std::fs::write(dead.join("half"), "half a layer").unwrap();
    std::fs::write(test.root().join("tmp/file-dead"), "half a name").unwrap();
    let live = test.root().join("tmp/work-live");
    std::fs::create_dir_all(&live).unwrap();
    let lock = std::fs::File::open(&live).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    ImageStore::open(&test.root(), config()).unwrap();
    assert_eq!(test.names("tmp"), ["work-live"]);
}

#[tokio::test]
async fn a_layer_from_before_a_reboot_counts_only_with_its_image() {
    needs_root!("a_layer_from_before_a_reboot_counts_only_with_its_image");
    let test = TestStore::new();
    let image = image(1);
    import(&test, &image, &["app"]).await;
    let meta = test.root().join("layers").join(&test.names("layers")[0]).join("meta.json");
    let reboot = || {
        let mut facts: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
        facts["boot_id"] = "another boot".into();
        std::fs::write(&meta, facts.to_string()).unwrap();
    };
    let file = meta.with_file_name("fs").join("file-0");
    reboot();
    // Lost by the power cut, as far as the test is concerned.
    std::fs::write(&file, "").unwrap();
    import(&test, &image, &["app"]).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "", "the layer of an image was synced, so it is kept");
    std::fs::remove_file(test.root().join("images").join(&test.names("images")[0])).unwrap();
    reboot();
    import(&test, &image, &["app"]).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "content 0", "a layer without an image is unpacked anew");
    test.assert_tidy();
}

#[tokio::test]
async fn names_that_are_none_are_told_apart_from_images_that_are_not_there() {
    let test = TestStore::new();
    assert_eq!(test.store.status("example.test/nothing:1").unwrap(), None);
    assert_eq!(test.store.status(&format!("sha256:{}", "0".repeat(64))).unwrap(), None);
    assert!(matches!(test.store.status("Not A Name"), Err(StoreError::InvalidName { .. })));
    assert_eq!(test.store.remove("nothing", &unused).unwrap().images, []);
    assert!(matches!(test.store.layers(&ImageId("../../etc".into())), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_store_that_cant_be_written_says_where() {
    let error = ImageStore::open("/proc/minke-images".as_ref(), config()).unwrap_err();
    assert!(error.to_string().contains("/proc/minke-images"), "{error}");
}
