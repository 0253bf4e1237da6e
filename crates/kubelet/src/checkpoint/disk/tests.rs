use super::*;
use crate::worker::lifecycle::{Cause, SavedLifecycle, Then};
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;

fn uid(s: &str) -> PodUid {
    PodUid::new(s).unwrap()
}

fn desired(name: &str) -> DesiredPod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(name.to_owned());
    let mut objects = ObjectSet::default();
    objects.insert_secret(Secret::default());
    DesiredPod { pod: Arc::new(pod), objects: Arc::new(objects) }
}

fn state(phase: &str) -> SavedState {
    let mut state = SavedState {
        lifecycle: SavedLifecycle::Terminated { cause: Cause::Stopped, then: Then::Keep },
        ..SavedState::default()
    };
    state.status.phase = Some(phase.to_owned());
    state
}

#[tokio::test]
async fn what_was_saved_is_loaded() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    store.save_pod(&uid("b"), &desired("b")).await.unwrap();
    store.save_pod(&uid("a"), &desired("a")).await.unwrap();
    store.save_state(&uid("a"), &state("Running")).await.unwrap();
    store.save_state(&uid("a"), &state("Failed")).await.unwrap();
    let loaded = DiskCheckpoints::open(root.path()).unwrap().load().await.unwrap();
    assert_eq!(loaded.unreadable, []);
    let [a, b] = &loaded.pods[..] else { panic!("{loaded:?}") };
    assert_eq!((&a.uid, &a.desired, &a.state), (&uid("a"), &desired("a"), &state("Failed")));
    assert_eq!((&b.uid, &b.state), (&uid("b"), &SavedState::default()));
}

#[tokio::test]
async fn secrets_are_readable_by_the_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    store.save_pod(&uid("a"), &desired("a")).await.unwrap();
    store.save_state(&uid("a"), &state("Running")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("pods")), 0o700);
    for file in [POD, STATE] {
        assert_eq!(mode(&root.path().join("pods/a").join(file)), 0o600);
    }
}

#[tokio::test]
async fn a_removed_pod_is_gone_and_removing_is_idempotent() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    store.save_pod(&uid("a"), &desired("a")).await.unwrap();
    fs::create_dir_all(root.path().join("pods/a/volumes/x")).unwrap();
    store.remove(&uid("a")).await.unwrap();
    store.remove(&uid("a")).await.unwrap();
    assert!(!root.path().join("pods/a").exists());
    assert!(store.load().await.unwrap().pods.is_empty());
}

#[tokio::test]
async fn a_torn_state_is_set_aside_and_the_pod_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    store.save_pod(&uid("a"), &desired("a")).await.unwrap();
    fs::write(root.path().join("pods/a").join(STATE), b"{\"version\":1,\"content\":{\"lifecy").unwrap();
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.pods[0].state, SavedState::default());
    assert!(root.path().join("pods/a/state.json.torn").exists());
    assert!(!root.path().join("pods/a").join(STATE).exists());
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_named_and_not_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    store.save_pod(&uid("torn"), &desired("torn")).await.unwrap();
    fs::write(root.path().join("pods/torn").join(POD), b"").unwrap();
    store.save_pod(&uid("newer"), &desired("newer")).await.unwrap();
    let newer = br#"{"version":99,"content":{"surprise":true}}"#;
    fs::write(root.path().join("pods/newer").join(POD), newer).unwrap();
    for _ in 0..2 {
        let loaded = store.load().await.unwrap();
        assert_eq!(loaded.unreadable, [uid("newer"), uid("torn")]);
        assert!(loaded.pods.is_empty());
    }
    assert_eq!(
        fs::read(root.path().join("pods/newer").join(POD)).unwrap(),
        newer,
        "it is for the version that wrote it"
    );
    assert!(root.path().join("pods/torn/pod.json.torn").exists());
}

#[tokio::test]
async fn a_directory_left_from_a_crash_is_cleared() {
    let root = tempfile::tempdir().unwrap();
    let store = DiskCheckpoints::open(root.path()).unwrap();
    fs::create_dir_all(root.path().join("pods/half/volumes")).unwrap();
    fs::write(root.path().join("pods/half/.pod.json.new"), b"{").unwrap();
    assert!(store.load().await.unwrap().pods.is_empty());
    assert!(!root.path().join("pods/half").exists());
}

#[test]
fn mount_points_are_unescaped() {
    assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
    assert_eq!(unescaped(r"/plain\"), r"/plain\");
    assert!(mounted_inside(Path::new("/")).unwrap().is_some(), "something is mounted below /");
    assert_eq!(mounted_inside(Path::new("/nowhere")).unwrap(), None);
}

proptest! {
    /// Whatever a crash leaves in the files, loading never fails and never invents a Pod.
    #[test]
    fn arbitrary_files_never_break_loading(pod in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..4000) {
        let root = tempfile::tempdir().unwrap();
        let store = DiskCheckpoints::open(root.path()).unwrap();
        store.save_now(&uid("good"), POD, PodFile { pod: desired("good").pod, objects: desired("good").objects }).unwrap();
        store.save_now(&uid("good"), STATE, state("Running")).unwrap();
        let path = root.path().join("pods/good").join(STATE);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..cut.min(text.len())]).unwrap();
        fs::create_dir(root.path().join("pods/bad")).unwrap();
        fs::write(root.path().join("pods/bad").join(POD), &pod).unwrap();
        let loaded = store.load_now().unwrap();
        prop_assert_eq!(loaded.pods.len(), 1);
        let whole = cut >= text.len();
        prop_assert_eq!(&loaded.pods[0].state, &if whole { state("Running") } else { SavedState::default() });
        prop_assert_eq!(loaded.unreadable, vec![uid("bad")]);
    }
}
